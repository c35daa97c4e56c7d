/*!
 * \file launch/tensor_check.h
 * \brief Checks of the tensors that come in from outside; each names the argument in its error.
 */
#ifndef MOONPOLY_LAUNCH_TENSOR_CHECK_H_
#define MOONPOLY_LAUNCH_TENSOR_CHECK_H_

#include <tvm/ffi/container/tensor.h>

#include <cstdint>
#include <string>

namespace moonpoly {

/*! \brief "(2, 3, 4)". */
std::string ShapeText(const DLTensor* tensor);

/*! \brief Throws TypeError unless `tensor` is float32 on the CPU. */
void CheckFloat32(const DLTensor* tensor, const char* name);

/*! \brief Throws ValueError unless `tensor` has `ndim` dimensions. */
void CheckRank(const DLTensor* tensor, int32_t ndim, const char* name);

/*! \brief Throws ValueError unless the extents along `axis` is `expected`. */
void CheckExtent(const DLTensor* tensor, int axis, int64_t expected, const char* name);

/*! \brief Throws ValueError unless the last dimension is contiguous. */
void CheckLastContiguous(const DLTensor* tensor, const char* name);

/*! \brief Throws ValueError unless the whole tensor is contiguous. */
void CheckContiguous(const DLTensor* tensor, const char* name);

/*! \brief Stride in elements, also of a tensor without explicit strides. */
int64_t StrideOf(const DLTensor* tensor, int axis);

inline float* FloatData(const DLTensor* tensor) {
  return reinterpret_cast<float*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_TENSOR_CHECK_H_
