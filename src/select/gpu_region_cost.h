/*!
 * \file select/gpu_region_cost.h
 * \brief What a launch is predicted to take.
 */
#ifndef MOONPOLY_SELECT_GPU_REGION_COST_H_
#define MOONPOLY_SELECT_GPU_REGION_COST_H_

#include <algorithm>
#include <array>
#include <vector>

#include "artifact/gpu_kernel_set.h"
#include "select/cost_model.h"
#include "select/gpu_plan.h"

namespace moonpoly {

/*! \brief The costs of the launches that a problem could be made of; what they share is kept. */
class GpuRegionCost {
 public:
  GpuRegionCost(const GpuKernelSetObj& ks, const GpuProblem& problem, CostModel model);

  /*! \brief Steps of the whole reduction. */
  int32_t steps() const { return steps_; }

  /*!
   * \brief Microseconds of a launch by itself for a rectangle of the output.
   * \param tiling See TilingOf; `blocks` is not read.
   */
  float RegionUs(const GpuKernelSpec& kernel, const GpuTiling& tiling, int64_t rows, int64_t cols,
                 GpuSplit split) const {
    return RegionUs(kernel, tiling, rows, cols, split, DepthOf(split));
  }
  float RegionUs(const GpuKernelSpec& kernel, const GpuTiling& tiling, int64_t rows, int64_t cols,
                 GpuSplit split, GpuCostGrid::Depth depth) const;

  /*! \brief Where a part of the reduction lies on the k axis. */
  GpuCostGrid::Depth DepthOf(GpuSplit split) const {
    return split.slices == 1 ? cluster_depths_[ClusterIndex(split.cluster)]
                             : Locate(split.blocks());
  }

  /*! \brief No launch with this split, at its depth, takes less. */
  float LeastUs(const GpuKernelSpec& kernel, GpuSplit split, GpuCostGrid::Depth depth) const {
    if (model_ != CostModel::kFull) return 0.0f;
    return ks_.manifest().grid.TaskUs(kernel.us.data(), depth) + AddUpUs(kernel, split);
  }

  /*! \brief No launch of the kernel with its whole reduction takes less. */
  float LeastUs(int32_t kernel) const {
    if (model_ == CostModel::kWavesOnly) return 0.0f;
    return least_.low[kernel] + (least_.high[kernel] - least_.low[kernel]) * cluster_depths_[0].at;
  }

  /*! \brief Beyond launching, what an item of C takes with the whole reduction at least. */
  float LeastItemUs(int32_t kernel) const {
    if (model_ != CostModel::kFull) return 0.0f;
    // Beyond the last point of the k axis they take more; with something for rounding.
    const float at = std::min(cluster_depths_[0].at, 1.0f);
    return 0.9999f * (item_.low[kernel] + (item_.high[kernel] - item_.low[kernel]) * at);
  }

  /*! \brief Beyond launching, what fetching a row or column of A or B takes at least. */
  float LeastLineUs(const GpuKernelBound& bound) const {
    if (model_ != CostModel::kFull) return 0.0f;
    return 0.9999f * (bound.direct ? direct_line_us_ : line_us_);
  }

  /*! \brief Of any launch, where the model knows of it. */
  float launch_us() const { return model_ == CostModel::kFull ? machine_.launch_us : 0.0f; }
  /*! \brief Of C. */
  float items() const { return items_; }

  /*!
   * \brief No launch with up to so many slices in clusters of this size takes less: a single tile
   *        of the shortest part, and adding up.
   */
  float LeastSplitUs(const GpuKernelSpec& kernel, int32_t cluster, int32_t slices) const;

 private:
  // What a kernel gains by being faster than the memory: it breaks ties.
  static constexpr float kWaiting = 0.05f;

  GpuCostGrid::Depth Locate(int32_t parts) const;
  std::array<GpuCostGrid::Depth, 4> LocateClusters() const;
  /*! \brief Each operand moved once: within the cache, and what does not fit there from memory. */
  float StreamUs(int64_t rows, int64_t cols) const;
  /*! \brief Every tile fetches its rows of A and its columns of B. */
  float FetchUs(const GpuKernelSpec& kernel, const GpuTiling& tiling, int64_t rows,
                int64_t cols) const;
  /*! \brief RegionUs of the models that leave something out. */
  float AblatedUs(const GpuKernelSpec& kernel, const GpuTiling& tiling, GpuSplit split) const;
  static float AddUpUs(const GpuKernelSpec& kernel, GpuSplit split);

  /*! \brief Of a table by k and kernel, the two points of the k axis around the problem's. */
  struct Rows {
    const float* low;
    const float* high;
  };
  Rows RowsAt(const std::vector<float>& table) const {
    const size_t count = ks_.manifest().bounds.size();
    const float* low = table.data() + cluster_depths_[0].index * count;
    return {low, low + count};
  }

  const GpuKernelSetObj& ks_;
  const GpuMachine& machine_;
  const GpuProblem& problem_;
  const CostModel model_;
  const int32_t steps_;
  /*! \brief Where the parts of clusters of 1, 2, 4 and 8 blocks lie on the k axis. */
  const std::array<GpuCostGrid::Depth, 4> cluster_depths_;
  const Rows least_, item_;
  /*! \brief How C is stored, see NarrowOf. */
  const int32_t narrow_;
  /*! \brief Microseconds for each row or column of A or B that tiles fetch. */
  const float line_us_;
  /*! \brief The same for kernels that load straight into registers. */
  const float direct_line_us_;
  /*! \brief Of C. */
  const float items_;
  /*! \brief Of any plan of one region: launching, and moving the operands. */
  const float least_us_;
};

inline float GpuRegionCost::StreamUs(int64_t rows, int64_t cols) const {
  const float m = static_cast<float>(rows), n = static_cast<float>(cols);
  const float k = static_cast<float>(problem_.k);
  const GpuTypes& types = ks_.manifest().types;
  const float bytes = static_cast<float>(types.item_bytes()) * (m * k + k * n) +
                      static_cast<float>(types.output_bytes()) * m * n;
  const float beyond = std::max(0.0f, bytes - machine_.l2_bytes);
  return 1e-3f * std::max(bytes / machine_.l2_gbs, beyond / machine_.dram_gbs);
}

inline float GpuRegionCost::FetchUs(const GpuKernelSpec& kernel, const GpuTiling& tiling,
                                    int64_t rows, int64_t cols) const {
  const float line_us = kernel.loads == GpuLoads::kDirect ? direct_line_us_ : line_us_;
  return line_us * (static_cast<float>(tiling.strips) * static_cast<float>(rows) +
                    static_cast<float>(tiling.bands) * static_cast<float>(cols));
}

// Inline: a selection asks for some forty of them.
inline float GpuRegionCost::RegionUs(const GpuKernelSpec& kernel, const GpuTiling& tiling,
                                     int64_t rows, int64_t cols, GpuSplit split,
                                     GpuCostGrid::Depth depth) const {
  if (model_ != CostModel::kFull) return AblatedUs(kernel, tiling, split);
  float us = std::max(
      ks_.manifest().grid.LaunchUs(kernel.us.data(), depth, tiling.waves, machine_.launch_us),
      machine_.launch_us + FetchUs(kernel, tiling, rows, cols));
  if (narrow_ > 0) {
    const float waves = tiling.waves / static_cast<float>(split.slices);
    us += kernel.narrow_us[narrow_ - 1] * std::max(1.0f, waves);
  }
  const bool all = rows == problem_.m && cols == problem_.n;
  const float least_us = all ? least_us_ : machine_.launch_us + StreamUs(rows, cols);
  // Of kernels that all wait for memory, those that need less time otherwise wait less.
  if (us < least_us) us = least_us + kWaiting * (us - least_us);
  return split.blocks() == 1 ? us : us + AddUpUs(kernel, split);
}

}  // namespace moonpoly

#endif  // MOONPOLY_SELECT_GPU_REGION_COST_H_
