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
    float fraction;
    /*! \brief Elements beyond the last point. */
    float beyond;
  };

  GpuCostGrid() = default;
  /*!
   * \brief Increasing positive values; among the loads must be 1, and 2 or more whole waves.
   * Throws ValueError.
   */
  GpuCostGrid(std::vector<int64_t> k, std::vector<float> loads);

  Depth LocateK(float k) const;

  /*!
   * \brief Microseconds of a launch of `waves` (> 0, may be broken) waves of tiles.
   * \param table Laid out [k][load].
   * \param launch_us What of each entry is not the tiles' work.
   */
  float LaunchUs(const float* table, Depth depth, float waves, float launch_us) const;

  size_t table_size() const { return k_.size() * loads_.size(); }
  int32_t num_loads() const { return static_cast<int32_t>(loads_.size()); }

 private:
  using Row = std::array<float, kMaxLoads>;

  // The row of a table at a depth, linear between (and beyond) the points of k.
  void FillRow(const float* table, Depth depth, Row* row) const;
  // Linear between points of the load axis from `first` on, and beyond its end.
  float Interpolate(const Row& row, float load, int32_t first) const;

  std::vector<int64_t> k_;
  std::vector<float> loads_;
  /*! \brief The index of load 1. */
  int32_t whole_ = 0;
};

}  // namespace moonpoly

#endif  // MOONPOLY_ARTIFACT_GPU_COST_TABLE_H_
