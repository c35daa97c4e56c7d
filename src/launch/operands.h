/*!
 * \file launch/operands.h
 * \brief The operands of a launch: addresses and strides, in elements.
 */
#ifndef MOONPOLY_LAUNCH_OPERANDS_H_
#define MOONPOLY_LAUNCH_OPERANDS_H_

#include <cstdint>

#include "select/plan.h"

namespace moonpoly {

constexpr int kMaxBatchDims = 6;

/*! \brief Batch dimensions and the step of each operand along them; a step of 0 broadcasts. */
struct BatchDims {
  int32_t ndim = 0;
  int64_t extent[kMaxBatchDims];
  int64_t a[kMaxBatchDims];
  int64_t b[kMaxBatchDims];
  int64_t c[kMaxBatchDims];
};

/*! \brief The left operand: element (i, p) at data[i * row + p * col]. */
struct AOperand {
  const float* data;
  int64_t row;
  int64_t col;
};

/*!
 * \brief Writes columns [n0, n0 + cols) and reduction steps [k0, k0 + kc) of B as panels of `lanes`
 *        columns: dst[(p * kc + i) * lanes + l]. Columns past the end of B are zero.
 */
using GatherFn = void (*)(const void* context, const float* b, int64_t k0, int64_t kc, int64_t n0,
                          int64_t cols, int64_t lanes, float* dst);

/*! \brief The right operand, see BMode. */
struct BOperand {
  const float* data;
  BMode mode;
  /*! \brief Row stride of kRowMajor (between k) and of kTransposed (between n). */
  int64_t ld;
  GatherFn gather = nullptr;
  const void* gather_context = nullptr;
};

struct COperand {
  float* data;
  int64_t ld;
};

}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_OPERANDS_H_
