/*!
 * \file ops/integer_tensor.cc
 */
#include "ops/integer_tensor.h"

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

#include "launch/tensor_check.h"

namespace moonpoly {

namespace {

void CheckPlace(const DLTensor* tensor, const char* name) {
  if (tensor->device.device_type != kDLCPU) {
    TVM_FFI_THROW(TypeError) << name << " must be on the CPU, got device type "
                             << static_cast<int>(tensor->device.device_type);
  }
  CheckContiguous(tensor, name);
}

void CheckType(bool holds, const DLTensor* tensor, const char* expected, const char* name) {
  if (holds) return;
  TVM_FFI_THROW(TypeError) << name << " must be " << expected << ", got "
                           << tvm::ffi::DLDataTypeToString(tensor->dtype);
}

}  // namespace

void CheckBytes(const DLTensor* tensor, const char* name) {
  CheckPlace(tensor, name);
  const DLDataType& dtype = tensor->dtype;
  const bool integer = dtype.code == kDLInt || dtype.code == kDLUInt;
  CheckType(integer && dtype.bits == 8 && dtype.lanes == 1, tensor, "int8 or uint8", name);
}

void CheckInt32(const DLTensor* tensor, const char* name) {
  CheckPlace(tensor, name);
  const DLDataType& dtype = tensor->dtype;
  CheckType(dtype.code == kDLInt && dtype.bits == 32 && dtype.lanes == 1, tensor, "int32", name);
}

void CheckSameType(const DLTensor* tensor, const DLTensor* like, const char* name) {
  CheckPlace(tensor, name);
  const DLDataType &dtype = tensor->dtype, &want = like->dtype;
  const bool same = dtype.code == want.code && dtype.bits == want.bits && dtype.lanes == want.lanes;
  CheckType(same, tensor, tvm::ffi::DLDataTypeToString(want).c_str(), name);
}

}  // namespace moonpoly
