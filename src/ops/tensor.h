/*!
 * \file ops/tensor.h
 * \brief Making and looking at the tensors of operators whose results depend on data.
 */
#ifndef MOONPOLY_OPS_TENSOR_H_
#define MOONPOLY_OPS_TENSOR_H_

#include <tvm/ffi/container/tensor.h>

#include <cstdint>
#include <type_traits>
#include <vector>

namespace moonpoly {

/*! \brief A contiguous tensor on the CPU with undefined content. */
tvm::ffi::Tensor NewTensor(const std::vector<int64_t>& shape, DLDataType dtype);

tvm::ffi::Tensor ScalarTensor(int64_t value);
tvm::ffi::Tensor BoolTensor(bool value);

/*! \brief A contiguous copy. */
tvm::ffi::Tensor CopyOf(const DLTensor* tensor);

/*! \brief A copy of element `index` along the first axis. */
tvm::ffi::Tensor ElementOf(const DLTensor* tensor, int64_t index);

inline int64_t NumElements(const DLTensor* tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
  return count;
}

inline size_t NumBytes(const DLTensor* tensor) {
  return NumElements(tensor) * ((tensor->dtype.bits * tensor->dtype.lanes + 7) / 8);
}

inline const char* ConstData(const DLTensor* tensor) {
  return static_cast<const char*>(tensor->data) + tensor->byte_offset;
}

/*! \brief Throws TypeError unless the elements lie side by side and are of this type. */
void CheckElements(const DLTensor* tensor, DLDataTypeCode code, int bits, const char* name);

/*! \brief The elements of a tensor of signed integers or floats. Throws as CheckElements does. */
template <typename T>
const T* Elements(const DLTensor* tensor, const char* name) {
  CheckElements(tensor, std::is_integral_v<T> ? kDLInt : kDLFloat, 8 * sizeof(T), name);
  return reinterpret_cast<const T*>(ConstData(tensor));
}

/*! \brief The one integer in a tensor of int32 or int64. Throws TypeError for another. */
int64_t ReadInteger(const DLTensor* tensor, const char* name);

bool SameShape(const DLTensor* left, const DLTensor* right);

/*! \brief Whether two tensors share memory. */
bool Overlap(const DLTensor* left, const DLTensor* right);

}  // namespace moonpoly

#endif  // MOONPOLY_OPS_TENSOR_H_
