/*!
 * \file ops/integer_tensor.h
 * \brief Reading and checking the integer tensors that operators get.
 */
#ifndef MOONPOLY_OPS_INTEGER_TENSOR_H_
#define MOONPOLY_OPS_INTEGER_TENSOR_H_

#include <tvm/ffi/container/tensor.h>

#include <cstdint>

#include "ops/tensor.h"

namespace moonpoly {

inline bool IsUnsigned(const DLTensor* tensor) { return tensor->dtype.code == kDLUInt; }

inline char* RawData(const DLTensor* tensor) {
  return static_cast<char*>(tensor->data) + tensor->byte_offset;
}
inline uint8_t* ByteData(const DLTensor* tensor) {
  return reinterpret_cast<uint8_t*>(RawData(tensor));
}
inline int32_t* Int32Data(const DLTensor* tensor) {
  return reinterpret_cast<int32_t*>(RawData(tensor));
}

/*! \brief Element `index` of an int8 or uint8 tensor. */
inline int32_t IntegerAt(const DLTensor* tensor, int64_t index) {
  const uint8_t byte = ByteData(tensor)[index];
  return IsUnsigned(tensor) ? static_cast<int32_t>(byte) : static_cast<int8_t>(byte);
}

/*! \brief Throws TypeError unless `tensor` is contiguous int8 or uint8 on the CPU. */
void CheckBytes(const DLTensor* tensor, const char* name);

/*! \brief Throws TypeError unless `tensor` is contiguous int32 on the CPU. */
void CheckInt32(const DLTensor* tensor, const char* name);

/*! \brief Throws TypeError unless `tensor` is contiguous on the CPU and has the type of `like`. */
void CheckSameType(const DLTensor* tensor, const DLTensor* like, const char* name);

}  // namespace moonpoly

#endif  // MOONPOLY_OPS_INTEGER_TENSOR_H_
