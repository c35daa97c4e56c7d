/*!
 * \file ops/max_unpool.cc
 * \brief ONNX's MaxUnpool.
 */
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <cstring>

#include "launch/tensor_check.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

// Where an element of a tensor of shape `from` lies in one of shape `to`, in which the first has
// its place in the corner of low indices; -1 where it lies outside.
int64_t MovedIndex(int64_t index, const ffi::Shape& from, const ffi::Shape& to) {
  int64_t moved = 0, stride = 1;
  for (size_t axis = from.size(); axis-- > 0;) {
    const int64_t place = index % from[axis];
    if (place >= to[axis]) return -1;
    index /= from[axis];
    moved += place * stride;
    stride *= to[axis];
  }
  return moved;
}

// Put the elements of x where `indices` say they were before pooling, among zeros.
// The indices count in a tensor of shape `pooled`; the result has shape `wanted`.
ffi::Tensor MaxUnpool(const DLTensor* x, const DLTensor* indices, const ffi::Shape& pooled,
                      const ffi::Shape& wanted) {
  CheckContiguous(x, "X");
  const auto* places = Elements<int64_t>(indices, "I");
  if (!SameShape(x, indices)) {
    TVM_FFI_THROW(ValueError) << "I must have the shape of X, " << ShapeText(x) << ", got "
                              << ShapeText(indices);
  }
  if (pooled.size() != wanted.size()) {
    TVM_FFI_THROW(ValueError) << "output_shape must have " << pooled.size() << " sizes, got "
                              << wanted.size();
  }
  for (int64_t size : wanted) {
    if (size < 0) TVM_FFI_THROW(ValueError) << "output_shape must not be negative, got " << wanted;
  }
  ffi::Tensor out = NewTensor({wanted.begin(), wanted.end()}, x->dtype);
  std::memset(out.data_ptr(), 0, NumBytes(out.GetDLTensorPtr()));
  int64_t count = 1;
  for (int64_t size : pooled) count *= size;
  const size_t bytes = x->dtype.bits / 8;
  for (int64_t i = 0; i < NumElements(x); ++i) {
    if (places[i] < 0 || places[i] >= count) {
      TVM_FFI_THROW(ValueError) << "I holds " << places[i] << ", expected an element of a tensor of"
                                << " shape " << pooled;
    }
    const int64_t place = MovedIndex(places[i], pooled, wanted);
    if (place >= 0) {
      std::memcpy(static_cast<char*>(out.data_ptr()) + place * bytes, ConstData(x) + i * bytes,
                  bytes);
    }
  }
  return out;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def(
      "moonpoly.op.max_unpool",
      [](DLTensor* x, DLTensor* indices, ffi::Shape pooled, ffi::Shape wanted) {
        return MaxUnpool(x, indices, pooled, wanted);
      });
}

}  // namespace moonpoly
