/*!
 * \file select/gpu_rows.h
 * \brief How the rows of a product's operands lie in memory, which decides how fast they are moved.
 */
#ifndef MOONPOLY_SELECT_GPU_ROWS_H_
#define MOONPOLY_SELECT_GPU_ROWS_H_

#include <cstdint>

#include "artifact/gpu_types.h"

namespace moonpoly {

/*!
 * \brief How rows of A and B lie that are so long: 0 for whole lines of the second-level cache, 1
 *        for whole sectors, 2 to 5 for multiples of 16, 8, 4 and fewer bytes.
 */
inline int32_t RowsOf(int64_t row_bytes) {
  if (row_bytes % 128 == 0) return 0;
  if (row_bytes % 32 == 0) return 1;
  return row_bytes % 16 == 0 ? 2 : row_bytes % 8 == 0 ? 3 : row_bytes % 4 == 0 ? 4 : 5;
}

/*!
 * \brief How contiguous rows of C of `n` items can be stored: 0 by vectors of 16 bytes, 1 by pairs,
 *        2 by single elements.
 */
inline int32_t NarrowOf(const GpuTypes& types, int64_t n) {
  // An item's bytes are a power of two, so no division is needed.
  return n * types.output_bytes() % 16 == 0 ? 0 : n % 2 == 0 ? 1 : 2;
}

}  // namespace moonpoly

#endif  // MOONPOLY_SELECT_GPU_ROWS_H_
