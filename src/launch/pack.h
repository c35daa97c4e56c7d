/*!
 * \file launch/pack.h
 * \brief Copying operands into the layouts that micro-kernels take.
 */
#ifndef MOONPOLY_LAUNCH_PACK_H_
#define MOONPOLY_LAUNCH_PACK_H_

#include <cstdint>

#include "launch/operands.h"

namespace moonpoly {

/*!
 * \brief Write `cols` columns from n0 and `kc` steps from k0 of B as zero-padded panels.
 * \param n,k The extents of B, beyond which columns are zero.
 * \param cols A multiple of lanes; may reach beyond n.
 * \param dst Room for cols * kc floats.
 */
void PackPanels(const BOperand& b, int64_t n, int64_t k, int64_t lanes, int64_t n0, int64_t cols,
                int64_t k0, int64_t kc, float* dst);

/*! \brief Write columns of B one after the other, each contiguous along k: dst[j * kc + i]. */
void PackColumns(const BOperand& b, int64_t n, int64_t k, int64_t lanes, int64_t n0, int64_t cols,
                 int64_t k0, int64_t kc, float* dst);

/*! \brief Copy a block of A row-major into dst with row stride ld; rows past `rows` are zero. */
void PackRows(const AOperand& a, int64_t m0, int64_t rows, int64_t padded_rows, int64_t k0,
              int64_t kc, float* dst, int64_t ld);

}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_PACK_H_
