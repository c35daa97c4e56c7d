/*!
 * \file ops/dims.cc
 * \brief Checks of dimensions that a graph needs to be equal, or to broadcast.
 */
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
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

// (first, limit, step) → the number of elements of a Range.
ffi::Shape RangeLength(const ffi::Shape& range) {
  const int64_t first = range[0], limit = range[1], step = range[2];
  if (step == 0) {
    TVM_FFI_THROW(ValueError) << "a Range from " << first << " to " << limit
                              << " has step 0; expected another";
  }
  const bool is_empty = step > 0 ? limit <= first : limit >= first;
  return ffi::Shape({is_empty ? 0 : (limit - first - (step > 0 ? 1 : -1)) / step + 1});
}

const int64_t* Vector(const ffi::AnyView& arg, int64_t* length) {
  const DLTensor* tensor = arg.cast<DLTensor*>();
  if (tensor->ndim != 1 || tensor->dtype.code != kDLInt || tensor->dtype.bits != 64) {
    TVM_FFI_THROW(TypeError) << "an operand of a Slice must be a vector of int64";
  }
  if (*length >= 0 && tensor->shape[0] != *length) {
    TVM_FFI_THROW(ValueError) << "the operands of a Slice have " << *length << " and "
                              << tensor->shape[0] << " elements, they must agree";
  }
  *length = tensor->shape[0];
  return reinterpret_cast<const int64_t*>(ConstData(tensor));
}

int64_t Bounded(int64_t value, int64_t low, int64_t high) {
  return std::min(std::max(value, low), high);
}

// (shape, starts, ends, axes or 0, steps or 0), as int64 vectors → for each axis of a Slice its
// first position, then the steps, then the sizes.
ffi::Shape SliceBounds(const ffi::PackedArgs& args) {
  const auto shape = args[0].cast<ffi::Shape>();
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t count = -1;
  const int64_t* starts = Vector(args[1], &count);
  const int64_t* ends = Vector(args[2], &count);
  const bool has_axes = !args[3].try_cast<int64_t>().has_value();
  const bool has_steps = !args[4].try_cast<int64_t>().has_value();
  const int64_t* axes = has_axes ? Vector(args[3], &count) : nullptr;
  const int64_t* steps = has_steps ? Vector(args[4], &count) : nullptr;
  std::vector<int64_t> bounds(3 * rank, 0);
  for (int64_t axis = 0; axis < rank; ++axis) {
    bounds[rank + axis] = 1;
    bounds[2 * rank + axis] = shape[axis];
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t axis = axes == nullptr ? i : axes[i];
    if (axis < 0) axis += rank;
    const int64_t step = steps == nullptr ? 1 : steps[i];
    if (axis < 0 || axis >= rank || step == 0) {
      TVM_FFI_THROW(ValueError) << "can't slice axis " << (axes == nullptr ? i : axes[i])
                                << " of rank " << rank << " with step " << step;
    }
    const int64_t size = shape[axis], low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    const int64_t begin = Bounded(starts[i] < 0 ? starts[i] + size : starts[i], low, high);
    const int64_t end = Bounded(ends[i] < 0 ? ends[i] + size : ends[i], low, high);
    const int64_t span = step > 0 ? end - begin : begin - end, stride = step > 0 ? step : -step;
    bounds[axis] = begin;
    bounds[rank + axis] = step;
    bounds[2 * rank + axis] = span <= 0 ? 0 : (span - 1) / stride + 1;
  }
  return ffi::Shape(std::move(bounds));
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("moonpoly.op.require_equal", RequireEqual)
      .def("moonpoly.op.broadcast_dims", BroadcastDims)
      .def_packed("moonpoly.op.slice_bounds",
                  [](ffi::PackedArgs args, ffi::Any* result) { *result = SliceBounds(args); })
      .def("moonpoly.op.range_length", RangeLength)
      .def("moonpoly.op.reshape_dims",
           [](const ffi::Shape& shape, DLTensor* wanted, int64_t allow_zero) {
             return ReshapeDims(shape, wanted, allow_zero != 0);
           });
}

}  // namespace moonpoly
