/*!
 * \file launch/tensor_check.cc
 */
#include "launch/tensor_check.h"

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

#include <sstream>

namespace moonpoly {

std::string ShapeText(const DLTensor* tensor) {
  std::ostringstream out;
  out << "(";
  for (int i = 0; i < tensor->ndim; ++i) out << (i == 0 ? "" : ", ") << tensor->shape[i];
  out << ")";
  return out.str();
}

void CheckFloat32(const DLTensor* tensor, const char* name) {
  if (tensor->device.device_type != kDLCPU) {
    TVM_FFI_THROW(TypeError) << name << " must be on the CPU, got device type "
                             << static_cast<int>(tensor->device.device_type);
  }
  const DLDataType& dtype = tensor->dtype;
  if (dtype.code != kDLFloat || dtype.bits != 32 || dtype.lanes != 1) {
    TVM_FFI_THROW(TypeError) << name << " must be float32, got "
                             << tvm::ffi::DLDataTypeToString(dtype);
  }
}

void CheckRank(const DLTensor* tensor, int32_t ndim, const char* name) {
  if (tensor->ndim != ndim) {
    TVM_FFI_THROW(ValueError) << name << " must have " << ndim << " dimensions, got "
                              << ShapeText(tensor);
  }
}

void CheckExtent(const DLTensor* tensor, int axis, int64_t expected, const char* name) {
  if (tensor->shape[axis] != expected) {
    TVM_FFI_THROW(ValueError) << name << " must have " << expected << " elements along axis "
                              << axis << ", got " << ShapeText(tensor);
  }
}

int64_t StrideOf(const DLTensor* tensor, int axis) {
  if (tensor->strides != nullptr) return tensor->strides[axis];
  int64_t stride = 1;
  for (int i = tensor->ndim - 1; i > axis; --i) stride *= tensor->shape[i];
  return stride;
}

void CheckLastContiguous(const DLTensor* tensor, const char* name) {
  // The strides of an empty tensor mean nothing.
  for (int i = 0; i < tensor->ndim; ++i) {
    if (tensor->shape[i] == 0) return;
  }
  const int last = tensor->ndim - 1;
  if (tensor->shape[last] > 1 && StrideOf(tensor, last) != 1) {
    TVM_FFI_THROW(ValueError) << name << " must be contiguous along its last axis, got stride "
                              << StrideOf(tensor, last) << " for " << ShapeText(tensor);
  }
}

void CheckContiguous(const DLTensor* tensor, const char* name) {
  if (!tvm::ffi::IsContiguous(*tensor)) {
    TVM_FFI_THROW(ValueError) << name << " must be contiguous, got strides for "
                              << ShapeText(tensor) << " that are not; copy it first";
  }
}

}  // namespace moonpoly
