/*!
 * \file artifact/cost_table.h
 * \brief Task-cost tables: the predicted microseconds of one task, evaluated in nanoseconds.
 *
 * A table holds the cost of one task (an um x un tile through its whole reduction) at the points of
 * a grid over k and the numbers of row and column tiles that one call covers. Between points the
 * cost is linear in k, because a task costs a fixed part plus a part for each step, and linear in
 * log2 of the tile counts, which amortise the call. Outside the grid the tile counts are clamped;
 * above the last k the cost grows in proportion to k.
 */
#ifndef MOONPOLY_ARTIFACT_COST_TABLE_H_
#define MOONPOLY_ARTIFACT_COST_TABLE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace moonpoly {

/*! \brief Where a value lies on one axis: between points `index` and `index + 1`. */
struct AxisPoint {
  int32_t index;
  float fraction;
  /*! \brief Factor on the result: 1 inside the grid, value / last above the end of the k axis. */
  float scale;
};

/*! \brief The axes that all tables of a kernel set share. */
class CostGrid {
 public:
  CostGrid() = default;
  /*! \brief Each axis holds increasing positive integers. Throws ValueError. */
  CostGrid(std::vector<int64_t> k, std::vector<int64_t> m_tiles, std::vector<int64_t> n_tiles);

  AxisPoint LocateK(int64_t k) const;
  AxisPoint LocateRowTiles(int64_t tiles) const { return LocateTiles(m_lut_, tiles); }
  AxisPoint LocateColTiles(int64_t tiles) const { return LocateTiles(n_lut_, tiles); }

  /*! \brief Predicted microseconds of one task; `table` is laid out [k][m_tiles][n_tiles]. */
  float TaskUs(const float* table, AxisPoint k, AxisPoint m, AxisPoint n) const {
    const float* low = table + (k.index * num_m_ + m.index) * num_n_ + n.index;
    const float at_low = Bilinear(low, m, n);
    const float at_high = Bilinear(low + step_k_, m, n);
    return (at_low + (at_high - at_low) * k.fraction) * k.scale;
  }

  size_t table_size() const { return k_.size() * num_m_ * num_n_; }

 private:
  // Counts up to kFine are looked up one by one, larger ones in steps up to the last.
  static constexpr int64_t kFine = 256, kStep = 64, kLast = 8192;
  struct Lut {
    std::array<AxisPoint, kFine + 1> fine;
    std::array<AxisPoint, kLast / kStep + 1> coarse;
  };

  static Lut MakeLut(const std::vector<int64_t>& axis);
  static AxisPoint LocateTiles(const Lut& lut, int64_t tiles) {
    if (tiles <= kFine) return lut.fine[std::max<int64_t>(tiles, 1)];
    return lut.coarse[std::min(tiles, kLast) / kStep];
  }

  float Bilinear(const float* at, AxisPoint m, AxisPoint n) const {
    const float top = at[0] + (at[step_n_] - at[0]) * n.fraction;
    const float* below = at + step_m_;
    const float bottom = below[0] + (below[step_n_] - below[0]) * n.fraction;
    return top + (bottom - top) * m.fraction;
  }

  std::vector<int64_t> k_;
  int32_t num_m_ = 1;
  int32_t num_n_ = 1;
  // Steps to the neighbouring point; zero along an axis of a single point.
  int32_t step_k_ = 0;
  int32_t step_m_ = 0;
  int32_t step_n_ = 0;
  Lut m_lut_{};
  Lut n_lut_{};
};

}  // namespace moonpoly

#endif  // MOONPOLY_ARTIFACT_COST_TABLE_H_
