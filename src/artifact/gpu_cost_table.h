/*!
 * \file artifact/gpu_cost_table.h
 * \brief The predicted microseconds of a launch on a GPU, from the waves that its tiles make.
 *
 * A table holds the time of a whole launch at the points of a grid over k and the load: the tiles
 * in units of those that the GPU holds at once. Up to 1 the load is a part of a wave; above, whole
 * waves. Between points the time is linear in k, because a tile costs a fixed part plus a part for
 * each step, and in the load. A last wave that is not full costs a wave's time in proportion to
 * what so many tiles cost alone.
 */
#ifndef MOONPOLY_ARTIFACT_GPU_COST_TABLE_H_
#define MOONPOLY_ARTIFACT_GPU_COST_TABLE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace moonpoly {

/*! \brief The axes that all tables of a GPU's kernel set share. */
class GpuCostGrid {
 public:
  static constexpr int32_t kMaxLoads = 16;

  /*! \brief Where a reduction length lies on the k axis. */
  struct Depth {
    int32_t index;
    /*! \brief 0 at point `index`, 1 at the next; more beyond the last one. */
    float at;
  };

  GpuCostGrid() = default;
  /*!
   * \brief Increasing positive values; among the loads must be 1, less, and whole waves above.
   * Throws ValueError.
   */
  GpuCostGrid(const std::vector<int64_t>& k, const std::vector<float>& loads);

  /*! \brief Of a length from 1 to 2^31. */
  Depth LocateK(int64_t k) const;

  /*!
   * \brief Microseconds of a launch of `waves` (> 0, may be broken) waves of tiles.
   * \param table Laid out [k][load].
   * \param launch_us What of each entry is not the tiles' work.
   */
  float LaunchUs(const float* table, Depth depth, float waves, float launch_us) const;

  /*! \brief Entries of a table for each point of the k axis. */
  size_t num_loads() const { return static_cast<size_t>(num_loads_); }

  /*! \brief Microseconds of a launch of the fewest tiles that the table tells of. */
  float TaskUs(const float* table, Depth depth) const { return RowOf(table, depth)[0]; }

  /*!
   * \brief Microseconds that a launch takes beyond `launch_us` for each of its waves, whole or
   *        broken, at least.
   * \param row Of a table, at one point of the k axis.
   */
  float LeastPerWaveUs(const float* row, float launch_us) const;

  size_t table_size() const { return k_.size() * num_loads_; }

 private:
  // Parts of a wave that the look-up table tells apart.
  static constexpr int32_t kParts = 64;
  // Whole waves that another one does.
  static constexpr int32_t kWaves = 16;

  /*! \brief The row of a table at one depth, read where it is asked for. */
  struct Row {
    const float* low;
    const float* high;
    float at;

    float operator[](int32_t i) const { return low[i] + (high[i] - low[i]) * at; }
  };

  Row RowOf(const float* table, Depth depth) const {
    const float* low = table + depth.index * num_loads_;
    return {low, low + num_loads_, depth.at};
  }

  // Linear between the points of the load axis, within a wave and in whole waves.
  float WithinWave(const Row& row, float load) const;
  float WholeWaves(const Row& row, float waves) const;
  float Between(const Row& row, int32_t i, float load) const {
    const float low = row[i];
    return low + (row[i + 1] - low) * (load - loads_[i]) * inverse_steps_[i];
  }

  /*! \brief The points of the k axis, and one over the distance to the next. */
  std::vector<float> k_, inverse_k_steps_;
  /*! \brief The last point of the k axis at or below each power of two. */
  std::array<int8_t, 32> k_lut_{};
  std::array<float, kMaxLoads> loads_{};
  std::array<float, kMaxLoads> inverse_steps_{};
  int32_t num_loads_ = 0;
  /*! \brief The index of load 1. */
  int32_t whole_ = 0;
  /*! \brief The last point of the load axis at or below so many parts of a wave. */
  std::array<int8_t, kParts + 1> part_lut_{};
  /*! \brief The last point of the load axis, from load 1 on, below so many whole waves. */
  std::array<int8_t, kWaves + 1> wave_lut_{};
};

// These are most of the time of a selection.
inline float GpuCostGrid::WithinWave(const Row& row, float load) const {
  int32_t i = part_lut_[static_cast<int32_t>(load * kParts)];
  while (i + 1 < whole_ && loads_[i + 1] < load) ++i;
  // Fewer tiles than the first point has cost what those cost.
  return load <= loads_[0] ? row[0] : Between(row, i, load);
}

inline float GpuCostGrid::WholeWaves(const Row& row, float waves) const {
  int32_t i = wave_lut_[static_cast<int32_t>(std::clamp(waves, 0.0f, float{kWaves}))];
  while (i + 2 < num_loads_ && loads_[i + 1] < waves) ++i;
  return Between(row, i, waves);
}

inline float GpuCostGrid::LaunchUs(const float* table, Depth depth, float waves,
                                   float launch_us) const {
  const Row row = RowOf(table, depth);
  if (waves <= 1.0f) return WithinWave(row, waves);
  const float full = static_cast<float>(static_cast<int32_t>(waves)), rest = waves - full;
  const float before = WholeWaves(row, full);
  if (rest <= 0.0f) return before;
  const float wave_us = WholeWaves(row, full + 1.0f) - before;
  const float share =
      (WithinWave(row, rest) - launch_us) / std::max(row[whole_] - launch_us, 0.01f);
  return before + wave_us * std::clamp(share, 0.0f, 1.0f);
}

}  // namespace moonpoly

#endif  // MOONPOLY_ARTIFACT_GPU_COST_TABLE_H_
