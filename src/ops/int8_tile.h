/*!
 * \file ops/int8_tile.h
 * \brief Exact products of 8-bit integers: the tile that everything else is made of.
 *
 * One side is unsigned and the other signed, as the dot-product instructions want them; a tensor of
 * the other kind has its top bit flipped, and 128 added to or taken from its zero point. Bytes go
 * in groups of four along the reduction. Sums wrap around at 32 bits, as ONNX Runtime's do.
 */
#ifndef MOONPOLY_OPS_INT8_TILE_H_
#define MOONPOLY_OPS_INT8_TILE_H_

#include <cstdint>

namespace moonpoly {

/*! \brief Bytes of the reduction that one instruction sums up. */
constexpr int64_t kInt8Group = 4;
/*! \brief Columns of a panel: panels are (groups, 16, 4). */
constexpr int64_t kInt8Panel = 16;
constexpr int64_t kInt8PanelBytes = kInt8Panel * kInt8Group;
/*! \brief Panels and rows that one call of a tile may get. */
constexpr int64_t kInt8Panels = 4;
constexpr int64_t kInt8Rows = 6;
constexpr int64_t kInt8Columns = kInt8Panels * kInt8Panel;
/*! \brief Flips a byte between signed and unsigned. */
constexpr uint8_t kInt8Flip = 0x80;

inline int64_t Int8Groups(int64_t k) { return (k + kInt8Group - 1) / kInt8Group; }
inline int64_t Int8NumPanels(int64_t n) { return (n + kInt8Panel - 1) / kInt8Panel; }

/*!
 * \brief One tile: out[r][c] = sum over k of (row[r][k] - row_zero[r]) * (panel[k][c] -
 * col_zero[c]).
 *
 * With t[r] = sum over k of (row[r][k] - row_zero[r]) this is
 * sum row * panel - row_zero[r] * col_sum[c] - col_zero[c] * t[r].
 */
struct Int8TileArgs {
  /*! \brief Rows of `groups * 4` bytes, and the bytes from one to the next. */
  const uint8_t* rows;
  int64_t row_stride;
  const uint8_t* panels;
  int64_t panel_stride;
  int64_t groups;
  int32_t* out;
  int64_t out_ld;
  /*! \brief By row; null where all are zero. */
  const int32_t* row_zero;
  /*! \brief t by row; read where `col_zero` is given. */
  const int32_t* row_sum;
  /*! \brief By column; null where all are zero. Both readable up to the end of the last panel. */
  const int32_t* col_zero;
  /*! \brief Sums of the panels' columns; read where `row_zero` is given. */
  const int32_t* col_sum;
};

/*! \brief Computes `rows` <= kInt8Rows by `columns` <= kInt8Columns of `args`. */
using Int8Tile = void (*)(const Int8TileArgs& args, int64_t rows, int64_t columns);

/*! \brief The tile for this machine; chosen on first use. */
Int8Tile HostInt8Tile(bool rows_unsigned);

/*! \brief The tiles that this machine can run, from the plainest on; for the tests. */
int64_t NumInt8Tiles();
/*! \brief Make HostInt8Tile choose the tile `index`; -1 gives the choice back. For the tests. */
void ForceInt8Tile(int64_t index);

}  // namespace moonpoly

#endif  // MOONPOLY_OPS_INT8_TILE_H_
