/*!
 * \file ops/tensor.cc
 */
#include "ops/tensor.h"

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "launch/tensor_check.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

/*! \brief Memory aligned as generated code expects it. */
struct AlignedAllocator {
  static constexpr size_t kAlignment = 64;

  void AllocData(DLTensor* tensor) {
    const size_t num_bytes = std::max(NumBytes(tensor), kAlignment);
    const size_t rounded = (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
    tensor->data = std::aligned_alloc(kAlignment, rounded);
    if (tensor->data == nullptr) {
      TVM_FFI_THROW(MemoryError) << "can't allocate " << rounded << " bytes";
    }
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

}  // namespace

void CheckElements(const DLTensor* tensor, DLDataTypeCode code, int bits, const char* name) {
  CheckContiguous(tensor, name);
  const DLDataType want = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  const DLDataType& dtype = tensor->dtype;
  if (dtype.code != want.code || dtype.bits != want.bits || dtype.lanes != want.lanes) {
    TVM_FFI_THROW(TypeError) << name << " must be " << ffi::DLDataTypeToString(want) << ", got "
                             << ffi::DLDataTypeToString(dtype);
  }
}

ffi::Tensor NewTensor(const std::vector<int64_t>& shape, DLDataType dtype) {
  return ffi::Tensor::FromNDAlloc(AlignedAllocator(), ffi::ShapeView(shape.data(), shape.size()),
                                  dtype, DLDevice{kDLCPU, 0});
}

ffi::Tensor ScalarTensor(int64_t value) {
  ffi::Tensor out = NewTensor({}, {kDLInt, 64, 1});
  *static_cast<int64_t*>(out.data_ptr()) = value;
  return out;
}

ffi::Tensor BoolTensor(bool value) {
  ffi::Tensor out = NewTensor({}, {kDLBool, 8, 1});
  *static_cast<uint8_t*>(out.data_ptr()) = value ? 1 : 0;
  return out;
}

ffi::Tensor CopyOf(const DLTensor* tensor) {
  ffi::Tensor out = NewTensor({tensor->shape, tensor->shape + tensor->ndim}, tensor->dtype);
  std::memcpy(out.data_ptr(), ConstData(tensor), NumBytes(tensor));
  return out;
}

ffi::Tensor ElementOf(const DLTensor* tensor, int64_t index) {
  ffi::Tensor out = NewTensor({tensor->shape + 1, tensor->shape + tensor->ndim}, tensor->dtype);
  const size_t num_bytes = NumBytes(out.GetDLTensorPtr());
  std::memcpy(out.data_ptr(), ConstData(tensor) + index * num_bytes, num_bytes);
  return out;
}

int64_t ReadInteger(const DLTensor* tensor, const char* name) {
  const bool is_wide = tensor->dtype.bits == 64;
  if (NumElements(tensor) != 1 || tensor->dtype.code != kDLInt ||
      (!is_wide && tensor->dtype.bits != 32)) {
    TVM_FFI_THROW(TypeError) << name << " must be one int32 or int64, got "
                             << ffi::DLDataTypeToString(tensor->dtype) << " of shape "
                             << ShapeText(tensor);
  }
  const char* data = ConstData(tensor);
  return is_wide ? *reinterpret_cast<const int64_t*>(data)
                 : *reinterpret_cast<const int32_t*>(data);
}

bool SameShape(const DLTensor* left, const DLTensor* right) {
  return left->ndim == right->ndim &&
         std::equal(left->shape, left->shape + left->ndim, right->shape);
}

bool Overlap(const DLTensor* left, const DLTensor* right) {
  const char *a = ConstData(left), *b = ConstData(right);
  const size_t a_bytes = NumBytes(left), b_bytes = NumBytes(right);
  return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

}  // namespace moonpoly
