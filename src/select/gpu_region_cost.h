/*!
 * \file select/gpu_region_cost.h
 * \brief What a launch is predicted to take.
 */
#ifndef MOONPOLY_SELECT_GPU_REGION_COST_H_
#define MOONPOLY_SELECT_GPU_REGION_COST_H_

#include <array>

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
                 GpuSplit split) const;

  /*! \brief No launch of the kernel with its whole reduction takes less. */
  float LeastUs(const GpuKernelSpec& kernel) const {
    if (model_ == CostModel::kWavesOnly) return 0.0f;
    return ks_.manifest().grid.TaskUs(kernel.us.data(), cluster_depths_[0]);
  }

  /*!
   * \brief No launch with up to so many slices in clusters of this size takes less: a single tile
   *        of the shortest part, and adding up.
   */
  float LeastSplitUs(const GpuKernelSpec& kernel, int32_t cluster, int32_t slices) const;

 private:
  // Where a part of the reduction lies on the k axis.
  GpuCostGrid::Depth Locate(int32_t parts) const;
  std::array<GpuCostGrid::Depth, 4> LocateClusters() const;
  float StreamUs(int64_t rows, int64_t cols) const;
  float FetchUs(const GpuKernelSpec& kernel, const GpuTiling& tiling, int64_t rows,
                int64_t cols) const;

  const GpuKernelSetObj& ks_;
  const GpuMachine& machine_;
  const GpuProblem& problem_;
  const CostModel model_;
  const int32_t steps_;
  /*! \brief Where the parts of clusters of 1, 2, 4 and 8 blocks lie on the k axis. */
  const std::array<GpuCostGrid::Depth, 4> cluster_depths_;
  /*! \brief Which of a kernel's costs of narrow stores there is; -1 for none. */
  const int32_t narrow_;
  /*! \brief Microseconds for each row or column of A or B that tiles fetch. */
  const float line_us_;
  /*! \brief The same for kernels that load straight into registers. */
  const float direct_line_us_;
  /*! \brief Of any plan of one region: launching, and moving the operands. */
  const float least_us_;
};

}  // namespace moonpoly

#endif  // MOONPOLY_SELECT_GPU_REGION_COST_H_
