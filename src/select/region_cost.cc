/*!
 * \file select/region_cost.cc
 */
#include "select/region_cost.h"

#include <algorithm>

namespace moonpoly {

namespace {

constexpr float kKbPerFloat = sizeof(float) / 1024.0f;
// Enough tiles for a call's fixed cost to vanish.
constexpr int64_t kManyTiles = 64;
// A reduction deeper than this is walked in slices of about this depth, so that a tile of B and a
// block of A stay in the private caches.
constexpr int64_t kSliceDepth = 512;
constexpr int64_t kMaxUncutDepth = 1024;
// Columns of a block: a multiple of every tile width.
constexpr int64_t kBlockCols = 768;
constexpr int64_t kPackedBlockCols = 384;

}  // namespace

RegionCost::RegionCost(const KernelSetObj& ks, const Problem& problem, CostModel model)
    : ks_(ks), problem_(problem), model_(model) {}

bool RegionCost::Usable(int32_t kernel) const {
  if (ks_.kernel(kernel).family == KernelFamily::kOuter) return true;
  return problem_.b_mode == BMode::kTransposed || problem_.b_mode == BMode::kRowMajor;
}

void RegionCost::SetSplit(const ThreadSplit& split) {
  split_ = split;
  depth_ = CeilDiv(problem_.k, split.k_threads);
  batches_ = CeilDiv(problem_.batch, split.batch_threads);
  slice_ = depth_;
  if (depth_ > kMaxUncutDepth) slice_ = CeilDiv(depth_, CeilDiv(depth_, kSliceDepth));
  slices_ = static_cast<float>(depth_) / static_cast<float>(slice_);
  k_point_ = ks_.grid().LocateK(slice_);
  const MachineSpec& machine = ks_.machine();
  const int32_t threads = split.batch_threads * split.k_threads * split.region_threads;
  contention_ = threads > 1 ? static_cast<float>(machine.contention) : 1.0f;
  fixed_us_ = threads > 1 ? static_cast<float>(machine.launch_us) : 0.0f;
  if (split.k_threads > 1) {
    // A barrier costs about what a launch does; the sums are read and added by all threads.
    const float moved = static_cast<float>(problem_.m * problem_.n) * kKbPerFloat *
                        static_cast<float>(split.k_threads) / static_cast<float>(threads);
    fixed_us_ +=
        static_cast<float>(machine.launch_us) + moved * static_cast<float>(machine.copy_us_per_kb);
  }
  const AxisPoint m = ks_.grid().LocateRowTiles(kManyTiles);
  const AxisPoint n = ks_.grid().LocateColTiles(kManyTiles);
  for (int32_t i = 0; i < ks_.num_kernels(); ++i) {
    const MicroKernel& kernel = ks_.kernel(i);
    const bool strided = problem_.b_mode == BMode::kRowMajor;
    const float task = ks_.grid().TaskUs(Table(i, strided), k_point_, m, n) * slices_;
    best_rate_[i] = task * contention_ / static_cast<float>(kernel.um * kernel.un);
  }
}

Cell RegionCost::Evaluate(int32_t index, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                          ThreadGrid grid) const {
  const MicroKernel& kernel = ks_.kernel(index);
  const MachineSpec& machine = ks_.machine();
  const int64_t rows = m1 - m0, cols = n1 - n0;
  Cell cell;
  cell.m0 = m0;
  cell.m1 = m1;
  cell.n0 = n0;
  cell.n1 = n1;
  cell.kernel = index;
  cell.grid = grid;
  cell.row_tiles = static_cast<int32_t>(CeilDiv(rows, kernel.um));
  cell.col_tiles = static_cast<int32_t>(CeilDiv(cols, kernel.un));
  const int32_t share_rows = static_cast<int32_t>(CeilDiv(cell.row_tiles, grid.rows));
  const int32_t share_cols = static_cast<int32_t>(CeilDiv(cell.col_tiles, grid.cols));
  const AxisPoint m = ks_.grid().LocateRowTiles(share_rows);
  const AxisPoint n = ks_.grid().LocateColTiles(share_cols);
  const float factor = contention_ * slices_;
  const bool dot = kernel.family == KernelFamily::kDot;

  const float packed_us = ks_.grid().TaskUs(Table(index, false), k_point_, m, n) * factor;
  const float pack_us = static_cast<float>(share_cols * kernel.un) * static_cast<float>(depth_) *
                        kKbPerFloat * static_cast<float>(machine.pack_us_per_kb);
  cell.pack_b = false;
  cell.task_us = packed_us;
  cell.extra_us = 0.0f;
  switch (problem_.b_mode) {
    case BMode::kPacked:
      break;
    case BMode::kRowMajor: {
      const float strided_us = ks_.grid().TaskUs(Table(index, true), k_point_, m, n) * factor;
      const float share = static_cast<float>(share_rows) * static_cast<float>(share_cols);
      if (dot || packed_us * share + pack_us < strided_us * share) {
        cell.pack_b = true;
        cell.extra_us += pack_us;
      } else {
        cell.task_us = strided_us;
      }
      break;
    }
    case BMode::kTransposed:
      if (!dot) {
        cell.pack_b = true;
        cell.extra_us += pack_us;
      }
      break;
    case BMode::kGathered:
      cell.pack_b = true;
      cell.extra_us += pack_us;
      break;
  }
  const float copy_us = static_cast<float>(machine.copy_us_per_kb) * kKbPerFloat;
  if (rows % kernel.um != 0) {
    const int64_t moved = kernel.um * depth_ + kernel.um * share_cols * kernel.un;
    cell.extra_us += static_cast<float>(moved) * copy_us;
  }
  if (cols % kernel.un != 0) {
    cell.extra_us += static_cast<float>(share_rows * kernel.um * kernel.un) * slices_ * copy_us;
  }
  switch (model_) {
    case CostModel::kFull:
      break;
    case CostModel::kWavesOnly:
      cell.task_us = 1.0f;
      cell.extra_us = 0.0f;
      break;
    case CostModel::kTaskOnly:
      // One task stands for the region: as if its waves did not count.
      cell.extra_us = 0.0f;
      cell.task_us /= static_cast<float>(share_rows) * static_cast<float>(share_cols);
      break;
  }
  return cell;
}

Region RegionCost::ToRegion(const Cell& cell) const {
  const MicroKernel& kernel = ks_.kernel(cell.kernel);
  Region region;
  region.m0 = cell.m0;
  region.m1 = cell.m1;
  region.n0 = cell.n0;
  region.n1 = cell.n1;
  region.kernel = cell.kernel;
  region.row_threads = cell.grid.rows;
  region.col_threads = cell.grid.cols;
  region.pack_b = cell.pack_b;
  region.kc = slice_;
  const int64_t block_bytes = ks_.caches().l2_bytes / 2;
  const int64_t rows = block_bytes / (slice_ * static_cast<int64_t>(sizeof(float)));
  region.mc = std::max<int64_t>(1, rows / kernel.um) * kernel.um;
  const int64_t cols = cell.pack_b ? kPackedBlockCols : kBlockCols;
  region.nc = std::max<int64_t>(1, cols / kernel.un) * kernel.un;
  region.task_us = cell.task_us;
  return region;
}

}  // namespace moonpoly
