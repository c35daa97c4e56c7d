/*!
 * \file launch/matmul.h
 * \brief Matrix products of tensors: checking them, folding their batch, launching.
 */
#ifndef MOONPOLY_LAUNCH_MATMUL_H_
#define MOONPOLY_LAUNCH_MATMUL_H_

#include <tvm/ffi/container/tensor.h>

#include "artifact/kernel_set.h"
#include "launch/epilogue.h"
#include "launch/gemm.h"

namespace moonpoly {

/*! \brief The compiled epilogue of a call site and the kinds of its operands. */
struct EpilogueSpec {
  TVMFFISafeCallType safe_call = nullptr;
  void* handle = nullptr;
  int32_t num_operands = 0;
  OperandKind kinds[kMaxEpilogueOperands];

  bool active() const { return safe_call != nullptr; }
};

/*! \brief How the operands of a product are laid out. */
struct MatmulLayout {
  BMode b_mode;
  /*! \brief A arrives as (..., k, m). */
  bool trans_a;
};

/*! \brief The problem and the operands, found in the tensors. */
struct BoundMatmul {
  Problem problem;
  AOperand a;
  BOperand b;
  COperand c;
  BatchDims batch;
  Epilogue epilogue;
};

/*!
 * \brief Check A (..., m, k), B and C (..., m, n) against each other and fill `bound`.
 *
 * B is (..., ceil(n/L), k, L), (..., k, n) or (..., n, k) after `layout.b_mode`. Leading dimensions
 * broadcast to those of C. Where B has none, those of A become rows.
 *
 * Throws TypeError (dtype, device) or ValueError (shape, strides) naming the operand.
 */
void BindMatmul(const KernelSetObj& ks, const MatmulLayout& layout, const DLTensor* a,
                const DLTensor* b, const DLTensor* c, const EpilogueSpec* epilogue,
                const DLTensor* const* epilogue_operands, BoundMatmul* bound);

/*! \brief Run a bound product by `plan`. Throws what a micro-kernel raised. */
void LaunchMatmul(const KernelSetObj& ks, const BoundMatmul& bound, const Plan& plan,
                  bool has_epilogue);

}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_MATMUL_H_
