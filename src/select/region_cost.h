/*!
 * \file select/region_cost.h
 * \brief What one region costs under a given split of the threads.
 */
#ifndef MOONPOLY_SELECT_REGION_COST_H_
#define MOONPOLY_SELECT_REGION_COST_H_

#include <array>
#include <cstdint>

#include "artifact/kernel_set.h"
#include "select/cost_model.h"
#include "select/plan.h"

namespace moonpoly {

/*! \brief How the threads are divided before a region is shared out. */
struct ThreadSplit {
  int32_t batch_threads;
  int32_t k_threads;
  int32_t region_threads;
};

/*! \brief A grid of threads over one region. */
struct ThreadGrid {
  int32_t rows;
  int32_t cols;
};

/*! \brief A region with what its cost is made of; microseconds for one batch element. */
struct Cell {
  int64_t m0, m1, n0, n1;
  int32_t kernel;
  ThreadGrid grid;
  bool pack_b;
  float task_us;
  /*! \brief Beside the tasks: packing, padding, copying; of the busiest thread. */
  float extra_us;
  int32_t row_tiles, col_tiles;

  /*! \brief Tiles of the busiest thread. */
  float share;

  /*! \brief Microseconds of the busiest thread. */
  float busiest_us() const { return task_us * share + extra_us; }
};

/*! \brief Evaluates regions of one problem under one thread split. */
class RegionCost {
 public:
  RegionCost(const KernelSetObj& ks, const Problem& problem, CostModel model);

  void SetSplit(const ThreadSplit& split);

  /*! \brief The region [m0, m1) x [n0, n1) on one micro-kernel. */
  Cell Evaluate(int32_t kernel, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                ThreadGrid grid) const;

  /*!
   * \brief About the least that the whole problem costs with this main kernel: leftovers are
   *        counted as if a kernel of their size did them at the same rate.
   */
  float BoundUs(int32_t kernel, ThreadGrid grid) const;
  /*! \brief Whether the kernel can serve this problem at all. */
  bool Usable(int32_t kernel) const;

  /*! \brief Launching, and adding up slices: what is paid once however the regions are cut. */
  float FixedUs() const { return fixed_us_; }
  int64_t batches() const { return batches_; }
  int64_t depth() const { return depth_; }

  /*! \brief The cache blocking for a share of a region. */
  Region ToRegion(const Cell& cell) const;

 private:
  float PackUs(float cols) const;
  int64_t BlockRows(const Cell& cell, int64_t slice) const;
  float TaskUs(const MicroKernel& kernel, bool strided, AxisPoint m, AxisPoint n) const {
    const bool dot = kernel.family == KernelFamily::kDot;
    const auto kind = static_cast<size_t>(dot ? k_rows_ : n_rows_);
    const float* table = strided || dot ? kernel.strided_us[kind] : kernel.packed_us[kind];
    return ks_.grid().TaskUs(table, k_point_, m, n);
  }
  // Steps of the reduction that are walked at a time.
  int64_t SliceOf(const Cell& cell) const;

  const KernelSetObj& ks_;
  const Problem& problem_;
  CostModel model_;
  // Rows of C and of a row-major B, and rows along the reduction.
  RowKind n_rows_, k_rows_;
  ThreadSplit split_{};
  int64_t depth_ = 0;
  int64_t batches_ = 1;
  float fixed_us_ = 0.0f;
  AxisPoint k_point_{};
};

}  // namespace moonpoly

#endif  // MOONPOLY_SELECT_REGION_COST_H_
