/*!
 * \file launch/gemm.h
 * \brief Running a plan.
 */
#ifndef MOONPOLY_LAUNCH_GEMM_H_
#define MOONPOLY_LAUNCH_GEMM_H_

#include "launch/epilogue.h"
#include "launch/operands.h"
#include "select/plan.h"

namespace moonpoly {

/*! \brief Everything that a launch needs; lives on the caller's stack for its duration. */
struct GemmCall {
  const KernelSetObj* ks;
  const Plan* plan;
  AOperand a;
  BOperand b;
  COperand c;
  BatchDims batch;
  /*! \brief Null where nothing is fused. */
  const Epilogue* epilogue;
  /*! \brief Whether the products are added to what C holds. */
  bool accumulate = false;
};

/*!
 * \brief Compute C = A B, or C += A B, for every batch element as the plan says, then the epilogue.
 *
 * Runs on the caller's thread and on as many of TVM's pool as the plan has. Allocates nothing after
 * each thread's first call.
 *
 * \return 0, or -1 with the error raised in this thread's FFI state.
 */
int LaunchGemm(const GemmCall& call);

/*! \brief Like LaunchGemm, but throws the error. */
void LaunchGemmOrThrow(const GemmCall& call);

}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_GEMM_H_
