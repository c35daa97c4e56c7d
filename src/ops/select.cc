/*!
 * \file ops/select.cc
 * \brief ONNX's NonZero and Compress: how many elements are kept depends on data.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <cstring>

#include "launch/tensor_check.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

// Calls f with the index of each element that is not zero. `Bits` has the elements' size; `mask`
// leaves out the sign of a floating-point zero.
template <typename Bits, typename F>
void ForNonZeroBits(const DLTensor* x, Bits mask, F f) {
  const auto* data = reinterpret_cast<const Bits*>(ConstData(x));
  const int64_t count = NumElements(x);
  for (int64_t i = 0; i < count; ++i) {
    if ((data[i] & mask) != 0) f(i);
  }
}

template <typename F>
void ForNonZero(const DLTensor* x, F f) {
  const bool has_sign_bit = x->dtype.code == kDLFloat || x->dtype.code == kDLBfloat;
  const uint64_t mask = has_sign_bit ? (uint64_t{1} << (x->dtype.bits - 1)) - 1 : ~uint64_t{0};
  switch (x->dtype.bits) {
    case 8:
      return ForNonZeroBits(x, static_cast<uint8_t>(mask), f);
    case 16:
      return ForNonZeroBits(x, static_cast<uint16_t>(mask), f);
    case 32:
      return ForNonZeroBits(x, static_cast<uint32_t>(mask), f);
    case 64:
      return ForNonZeroBits(x, mask, f);
    default:
      TVM_FFI_THROW(TypeError) << "elements must have 8, 16, 32 or 64 bits, got "
                               << static_cast<int>(x->dtype.bits);
  }
}

// x of any shape → (rank, number of elements that are not zero), in row-major order.
ffi::Tensor NonZero(const DLTensor* x) {
  CheckContiguous(x, "X");
  int64_t count = 0;
  ForNonZero(x, [&](int64_t) { ++count; });
  ffi::Tensor out = NewTensor({x->ndim, count}, {kDLInt, 64, 1});
  auto* to = static_cast<int64_t*>(out.data_ptr());
  int64_t found = 0;
  ForNonZero(x, [&](int64_t index) {
    for (int axis = x->ndim - 1; axis >= 0; --axis) {
      to[axis * count + found] = index % x->shape[axis];
      index /= x->shape[axis];
    }
    ++found;
  });
  return out;
}

// Keep the slices of x along `axis` whose condition holds; a short condition leaves the rest out.
ffi::Tensor Compress(const DLTensor* x, const DLTensor* condition, int64_t axis) {
  CheckContiguous(x, "input");
  CheckRank(condition, 1, "condition");
  if (axis < 0 || axis >= x->ndim) {
    TVM_FFI_THROW(ValueError) << "axis must be 0 to " << x->ndim - 1 << ", got " << axis;
  }
  const auto* keep = reinterpret_cast<const uint8_t*>(ConstData(condition));
  if (condition->dtype.bits != 8) TVM_FFI_THROW(TypeError) << "condition must be bool";
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < condition->shape[0]; ++i) {
    if (keep[i] == 0) continue;
    if (i >= x->shape[axis]) {
      TVM_FFI_THROW(ValueError) << "condition selects element " << i << " of axis " << axis
                                << ", which has " << x->shape[axis];
    }
    kept.push_back(i);
  }
  std::vector<int64_t> shape(x->shape, x->shape + x->ndim);
  shape[axis] = static_cast<int64_t>(kept.size());
  ffi::Tensor out = NewTensor(shape, x->dtype);
  int64_t outer = 1;
  for (int i = 0; i < axis; ++i) outer *= x->shape[i];
  const int64_t slices = outer * x->shape[axis];
  const size_t slice_bytes = slices == 0 ? 0 : NumBytes(x) / slices;
  char* to = static_cast<char*>(out.data_ptr());
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t index : kept) {
      std::memcpy(to, ConstData(x) + (i * x->shape[axis] + index) * slice_bytes, slice_bytes);
      to += slice_bytes;
    }
  }
  return out;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def("moonpoly.op.nonzero", [](DLTensor* x) { return NonZero(x); })
      .def("moonpoly.op.compress", [](DLTensor* x, DLTensor* condition, int64_t axis) {
        return Compress(x, condition, axis);
      });
}

}  // namespace moonpoly
