/*!
 * \file ops/dims.cc
 * \brief Checks of dimensions that a graph needs to be equal, or to broadcast.
 */
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <string>
#include <vector>

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

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("moonpoly.op.require_equal", RequireEqual)
      .def("moonpoly.op.broadcast_dims", BroadcastDims);
}

}  // namespace moonpoly
