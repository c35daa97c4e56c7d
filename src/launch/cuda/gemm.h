/*!
 * \file launch/cuda/gemm.h
 * \brief Running a matrix product on a GPU by a plan.
 */
#ifndef MOONPOLY_LAUNCH_CUDA_GEMM_H_
#define MOONPOLY_LAUNCH_CUDA_GEMM_H_

#include <tvm/ffi/container/tensor.h>

#include <cstdint>

#include "artifact/gpu_kernel_set.h"
#include "cuda/driver.h"
#include "select/gpu_plan.h"

namespace moonpoly {

/*! \brief The operands of one product on a GPU, checked; strides in elements. */
struct GpuMatmul {
  GpuProblem problem;
  int device;
  void* a;
  void* b;
  void* c;
  /*! \brief From one index of the dimension that is not contiguous to the next. */
  int64_t lda, ldb, ldc;
};

/*!
 * \brief Check C = A B and say which problem it is.
 *
 * A is (…, m, k), B (k, n) and C (…, m, n) with the leading dimensions of A, all on one CUDA
 * device and of the kernel set's dtype. A and B may have either of their last two dimensions
 * contiguous, C its last; leading dimensions must be foldable into m. Throws TypeError (dtype,
 * device) or ValueError (shape, strides).
 */
GpuMatmul BindGpuMatmul(const GpuKernelSetObj& ks, const DLTensor* a, const DLTensor* b,
                        const DLTensor* c, bool overlap);

/*!
 * \brief Launch the regions of a plan on a stream, in order. Nothing waits and nothing is
 *        allocated, so a graph may capture it once the kernels are loaded.
 */
void LaunchGpuMatmul(const GpuKernelSetObj& ks, const GpuMatmul& matmul, const GpuPlan& plan,
                     cuda::Stream stream);

/*! \brief The stream that the caller's framework has made current for a device. */
cuda::Stream CurrentStream(int device);

}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_CUDA_GEMM_H_
