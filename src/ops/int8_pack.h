/*!
 * \file ops/int8_pack.h
 * \brief Laying out 8-bit integers as the tiles read them.
 */
#ifndef MOONPOLY_OPS_INT8_PACK_H_
#define MOONPOLY_OPS_INT8_PACK_H_

#include <cstdint>

#include "ops/int8_tile.h"

namespace moonpoly {

/*!
 * \brief Copy rows of `k` bytes to rows of whole groups, the rest filled with zeros.
 *
 * \param flip 0x80 to flip every byte between signed and unsigned, else 0.
 * \param is_unsigned How the bytes count in the sums, after flipping.
 * \param sums Sum of each row; may be null.
 */
void PackInt8Rows(const uint8_t* src, int64_t src_ld, int64_t rows, int64_t k, uint8_t flip,
                  bool is_unsigned, uint8_t* dst, int32_t* sums);

/*!
 * \brief Lay out the panel of columns that begins at `src`, a row-major (k, columns) matrix.
 *
 * \param columns At most 16; the rest of the panel is filled with zeros.
 * \param sums Sums of the 16 columns, counted as signed bytes after flipping.
 */
void PackInt8Panel(const uint8_t* src, int64_t src_ld, int64_t k, int64_t columns, uint8_t flip,
                   uint8_t* dst, int32_t* sums);

/*! \brief Interleave four rows of 16 bytes to one group of a panel. */
void InterleaveInt8(const uint8_t* const rows[4], uint8_t* dst);

}  // namespace moonpoly

#endif  // MOONPOLY_OPS_INT8_PACK_H_
