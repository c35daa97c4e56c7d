/*!
 * \file ops/dims.cc
 * \brief Checks of dimensions that a graph needs to be equal, or to broadcast.
 */
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <string>
#include <vector>

#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

// What does not fit is named by the i-th line of `labels`.
[[noreturn]] void Refuse(const std::string& labels, size_t i, int64_t left, int64_t right) {
  size_t begin = 0;
  for (; i > 0; --i) begin = labels.find('\n', begin) + 1;
  const std::string label = labels.substr(begin, labels.find('\n', begin) - begin);
  TVM_FFI_THROW(ValueError) << "Mismatched dimensions: " << label << ", got " << left << " and "
                            << right;
}

void CheckLengths(const ffi::Shape& left, const ffi::Shape& right) {
  if (left.size() != right.size()) {
    TVM_FFI_THROW(ValueError) << "expected as many dimensions on both sides, got " << left.size()
                              << " and " << right.size();
  }
}

// Both sides must be equal, pair by pair; returns the left one.
ffi::Shape RequireEqual(const ffi::Shape& left, const ffi::Shape& right,
                        const std::string& labels) {
  CheckLengths(left, right);
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i] != right[i]) Refuse(labels, i, left[i], right[i]);
  }
  return left;
}

// The dimensions that both sides broadcast to, pair by pair.
ffi::Shape BroadcastDims(const ffi::Shape& left, const ffi::Shape& right,
                         const std::string& labels) {
  CheckLengths(left, right);
  std::vector<int64_t> dims(left.begin(), left.end());
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i] == 1) {
      dims[i] = right[i];
    } else if (right[i] != 1 && left[i] != right[i]) {
      Refuse(labels, i, left[i], right[i]);
    }
  }
  return ffi::Shape(std::move(dims));
}

// The sizes that a Reshape of a tensor of `shape` asks for: 0 keeps a size, unless zeros are
// allowed, and -1 takes what is left.
ffi::Shape ReshapeDims(const ffi::Shape& shape, const DLTensor* wanted, bool allow_zero) {
  if (wanted->ndim != 1 || wanted->dtype.code != kDLInt || wanted->dtype.bits != 64) {
    TVM_FFI_THROW(TypeError) << "the shape of a Reshape must be a vector of int64";
  }
  const auto* sizes = reinterpret_cast<const int64_t*>(ConstData(wanted));
  std::vector<int64_t> dims(sizes, sizes + wanted->shape[0]);
  int64_t have = 1, want = 1, open = -1;
  for (size_t i = 0; i < shape.size(); ++i) have *= shape[i];
  bool valid = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !allow_zero && i < shape.size()) dims[i] = shape[i];
    if (dims[i] == -1 && open < 0) {
      open = static_cast<int64_t>(i);
    } else {
      valid = valid && dims[i] >= 0;
      want *= dims[i];
    }
  }
  if (valid && open >= 0) {
    dims[open] = want == 0 ? 0 : have / want;
    want *= dims[open];
  }
  if (!valid || have != want) {
    TVM_FFI_THROW(ValueError) << "Mismatched dimensions: can't reshape " << shape << " to "
                              << ffi::Shape(sizes, sizes + wanted->shape[0]);
  }
  return ffi::Shape(std::move(dims));
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("moonpoly.op.require_equal", RequireEqual)
      .def("moonpoly.op.broadcast_dims", BroadcastDims)
      .def("moonpoly.op.reshape_dims",
           [](const ffi::Shape& shape, DLTensor* wanted, int64_t allow_zero) {
             return ReshapeDims(shape, wanted, allow_zero != 0);
           });
}

}  // namespace moonpoly
