/*!
 * \file ops/scan.cc
 * \brief ONNX's CumSum and CumProd: running sums and products along an axis that data may tell.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <cstdint>

#include "launch/tensor_check.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

int64_t ReadAxis(const DLTensor* axis, int rank) {
  if (NumElements(axis) != 1 || axis->dtype.code != kDLInt ||
      (axis->dtype.bits != 32 && axis->dtype.bits != 64)) {
    TVM_FFI_THROW(TypeError) << "axis must be one int32 or int64";
  }
  const char* data = ConstData(axis);
  const int64_t given = axis->dtype.bits == 32 ? *reinterpret_cast<const int32_t*>(data)
                                               : *reinterpret_cast<const int64_t*>(data);
  if (given < -rank || given >= rank) {
    TVM_FFI_THROW(ValueError) << "axis must be " << -rank << " to " << rank - 1 << ", got "
                              << given;
  }
  return given < 0 ? given + rank : given;
}

template <typename T>
void Scan(const DLTensor* x, int64_t axis, bool exclusive, bool reverse, bool product,
          DLTensor* y) {
  int64_t outer = 1, inner = 1;
  const int64_t length = x->shape[axis];
  for (int i = 0; i < axis; ++i) outer *= x->shape[i];
  for (int i = static_cast<int>(axis) + 1; i < x->ndim; ++i) inner *= x->shape[i];
  const T* from = reinterpret_cast<const T*>(ConstData(x));
  T* to = reinterpret_cast<T*>(static_cast<char*>(y->data) + y->byte_offset);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      T total = product ? T{1} : T{0};
      for (int64_t k = 0; k < length; ++k) {
        const int64_t place = (o * length + (reverse ? length - 1 - k : k)) * inner + i;
        const T term = from[place];
        const T next = product ? static_cast<T>(total * term) : static_cast<T>(total + term);
        to[place] = exclusive ? total : next;
        total = next;
      }
    }
  }
}

void Cumulate(const DLTensor* x, const DLTensor* axis, bool exclusive, bool reverse, bool product,
              DLTensor* y) {
  CheckContiguous(x, "x");
  CheckContiguous(y, "y");
  if (!SameShape(x, y) || NumElements(x) == 0) {
    if (NumElements(x) == 0 && NumElements(y) == 0) return;
    TVM_FFI_THROW(ValueError) << "the result must have the shape of x";
  }
  const int64_t along = ReadAxis(axis, x->ndim);
  switch (x->dtype.code << 8 | x->dtype.bits) {
    case kDLFloat << 8 | 32:
      return Scan<float>(x, along, exclusive, reverse, product, y);
    case kDLFloat << 8 | 64:
      return Scan<double>(x, along, exclusive, reverse, product, y);
    case kDLInt << 8 | 32:
    case kDLUInt << 8 | 32:
      // Unsigned sums wrap around where signed ones would be undefined; the bits are the same.
      return Scan<uint32_t>(x, along, exclusive, reverse, product, y);
    case kDLInt << 8 | 64:
    case kDLUInt << 8 | 64:
      return Scan<uint64_t>(x, along, exclusive, reverse, product, y);
    default:
      TVM_FFI_THROW(TypeError) << "x must be float32, float64, or integers of 32 or 64 bits";
  }
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def(
      "moonpoly.op.cumulate",
      [](DLTensor* x, DLTensor* axis, int64_t exclusive, int64_t reverse, int64_t product,
         DLTensor* y) { Cumulate(x, axis, exclusive != 0, reverse != 0, product != 0, y); });
}

}  // namespace moonpoly
