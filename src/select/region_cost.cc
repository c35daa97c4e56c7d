/*!
 * \file select/region_cost.cc
 */
#include "select/region_cost.h"

#include <algorithm>

namespace moonpoly {

namespace {

constexpr float kKbPerFloat = sizeof(float) / 1024.0f;
// A slice of the reduction is as deep as a tile's operands, its rows of A and its panels of B, take
// this part of the second cache: each further slice reads and writes all of C again.
constexpr float kTilePart = 0.6f;
// Rows of B that lie far apart share few sets of a cache, and what is gathered should stay there
// until all rows of A have met it. Then a slice holds all of them, and is no deeper than this.
constexpr float kBlockPart = 0.75f;
constexpr int64_t kMaxUncutDepth = 1024, kDeepestSlice = 2048;
// Below this depth writing C is no longer cheap.
constexpr int64_t kSliceDepth = 512;
// Beside what calling costs, a region begins with code and rows that no cache close by holds.
constexpr float kBeginUs = 0.15f;
// Packing fetches ahead: what comes from memory costs little more than what lies in cache.
constexpr float kFarPacking = 1.25f;
// A call should take this many times what calling costs.
constexpr float kCallShare = 30.0f;
// Columns of a block: a multiple of every tile width.
constexpr int64_t kBlockCols = 768;
constexpr int64_t kPackedBlockCols = 384;

}  // namespace

RegionCost::RegionCost(const KernelSetObj& ks, const Problem& problem, CostModel model)
    : ks_(ks),
      problem_(problem),
      model_(model),
      n_rows_(RowKindOf(problem.n)),
      k_rows_(RowKindOf(problem.k)) {}

bool RegionCost::Usable(int32_t kernel) const {
  if (ks_.kernel(kernel).family == KernelFamily::kOuter) return true;
  return problem_.b_mode == BMode::kTransposed || problem_.b_mode == BMode::kRowMajor;
}

void RegionCost::SetSplit(const ThreadSplit& split) {
  split_ = split;
  depth_ = CeilDiv(problem_.k, split.k_threads);
  batches_ = CeilDiv(problem_.batch, split.batch_threads);
  k_point_ = ks_.grid().LocateK(depth_);
  const MachineSpec& machine = ks_.machine();
  const int32_t threads = split.batch_threads * split.k_threads * split.region_threads;
  fixed_us_ = threads > 1 ? static_cast<float>(machine.launch_us) : 0.0f;
  if (split.k_threads > 1) {
    // A barrier costs about what a launch does; the sums are read and added by all threads.
    const float moved = static_cast<float>(problem_.m * problem_.n) * kKbPerFloat *
                        static_cast<float>(split.k_threads) / static_cast<float>(threads);
    fixed_us_ +=
        static_cast<float>(machine.launch_us) + moved * static_cast<float>(machine.copy_us_per_kb);
  }
}

float RegionCost::BoundUs(int32_t index, ThreadGrid grid) const {
  const MicroKernel& kernel = ks_.kernel(index);
  const bool dot = kernel.family == KernelFamily::kDot;
  // Rows left over cost half a tile at least, because a low tile waits for B; columns come in whole
  // panels.
  const int64_t more_rows = problem_.m % kernel.um;
  const int64_t all_rows =
      problem_.m - more_rows + (more_rows == 0 ? 0 : std::max<int64_t>(more_rows, kernel.um / 2));
  const int64_t panel = dot ? 1 : ks_.panel();
  const int64_t all_cols = CeilDiv(problem_.n, panel) * panel;
  const float rows = static_cast<float>(all_rows) / static_cast<float>(kernel.um * grid.rows);
  const float cols = static_cast<float>(all_cols) / static_cast<float>(kernel.un * grid.cols);
  const float share_rows = std::max(rows, 1.0f), share_cols = std::max(cols, 1.0f);
  const float share = share_rows * share_cols;
  if (model_ == CostModel::kWavesOnly) return share;
  const AxisPoint m = ks_.grid().LocateRowTiles(static_cast<int64_t>(share_rows));
  const AxisPoint n = ks_.grid().LocateColTiles(static_cast<int64_t>(share_cols));
  float task_us = TaskUs(kernel, false, m, n);
  if (model_ == CostModel::kTaskOnly) return task_us;
  const float width = share_cols * static_cast<float>(kernel.un);
  const float pack_us = PackUs(width);
  float us = task_us * share + static_cast<float>(ks_.machine().call_us) + kBeginUs;
  if (problem_.b_mode == BMode::kRowMajor) {
    const float strided_us = (TaskUs(kernel, true, m, n) - task_us) * share;
    us += dot ? pack_us : std::min(pack_us, strided_us);
  } else if (problem_.b_mode == BMode::kGathered ||
             (problem_.b_mode == BMode::kTransposed && !dot)) {
    us += pack_us;
  }
  return fixed_us_ + us * static_cast<float>(batches_);
}

// Microseconds to write so many columns of B into panels.
float RegionCost::PackUs(float cols) const {
  const MachineSpec& machine = ks_.machine();
  const float kilobytes = cols * static_cast<float>(depth_) * kKbPerFloat;
  const bool far = kilobytes * 1024.0f * 2.0f > static_cast<float>(ks_.caches().l2_bytes);
  return kilobytes * static_cast<float>(machine.pack_us_per_kb) * (far ? kFarPacking : 1.0f);
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
  cell.row_tiles = CeilDiv32(rows, kernel.um);
  cell.col_tiles = CeilDiv32(cols, kernel.un);
  const int32_t share_rows = CeilDiv32(cell.row_tiles, grid.rows);
  const int32_t share_cols = CeilDiv32(cell.col_tiles, grid.cols);
  cell.share = static_cast<float>(share_rows) * static_cast<float>(share_cols);
  const AxisPoint m = ks_.grid().LocateRowTiles(share_rows);
  const AxisPoint n = ks_.grid().LocateColTiles(share_cols);
  const bool dot = kernel.family == KernelFamily::kDot;

  const float packed_us = TaskUs(kernel, false, m, n);
  const float pack_us = PackUs(static_cast<float>(share_cols * kernel.un));
  cell.pack_b = false;
  cell.task_us = packed_us;
  cell.extra_us = static_cast<float>(machine.call_us) + kBeginUs;
  switch (problem_.b_mode) {
    case BMode::kPacked:
      break;
    case BMode::kRowMajor: {
      const float strided_us = TaskUs(kernel, true, m, n);
      if (dot || packed_us * cell.share + pack_us < strided_us * cell.share) {
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
  if (static_cast<int64_t>(cell.row_tiles) * kernel.um != rows) {
    const int64_t moved = kernel.um * depth_ + kernel.um * share_cols * kernel.un;
    cell.extra_us += static_cast<float>(moved) * copy_us;
  }
  if (static_cast<int64_t>(cell.col_tiles) * kernel.un != cols) {
    // The launcher packs the ragged tile of a B that it otherwise reads in place, for its padding.
    if (!cell.pack_b && !dot) cell.extra_us += PackUs(static_cast<float>(kernel.un));
    cell.extra_us += static_cast<float>(share_rows * kernel.um * kernel.un) *
                     static_cast<float>(CeilDiv(depth_, SliceOf(cell))) * copy_us;
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
      cell.task_us /= cell.share;
      break;
  }
  return cell;
}

int64_t RegionCost::SliceOf(const Cell& cell) const {
  const MicroKernel& kernel = ks_.kernel(cell.kernel);
  if (kernel.family == KernelFamily::kDot) return depth_;
  const bool panels =
      problem_.b_mode == BMode::kPacked || (cell.pack_b && problem_.b_mode != BMode::kGathered);
  if (!panels && depth_ <= kMaxUncutDepth) return depth_;
  const int64_t row_tiles = panels ? 1 : CeilDiv32(cell.row_tiles, cell.grid.rows);
  const float bytes = (panels ? kTilePart : kBlockPart) * static_cast<float>(ks_.caches().l2_bytes);
  auto deepest = static_cast<int64_t>(
      bytes / static_cast<float>(sizeof(float) * (row_tiles * kernel.um + kernel.un)));
  if (!panels) deepest = std::min(deepest, kDeepestSlice);
  const int64_t each = CeilDiv(depth_, CeilDiv(depth_, std::max(deepest, kSliceDepth)));
  return CeilDiv(each, kSliceStep) * kSliceStep;
}

// Rows of a block: as many as half of the second cache holds of A. Where a dot kernel reads them
// for several tiles of columns, as few as keep the calls cheap: then A stays in the first cache.
int64_t RegionCost::BlockRows(const Cell& cell, int64_t slice) const {
  const MicroKernel& kernel = ks_.kernel(cell.kernel);
  const int64_t bytes = slice * static_cast<int64_t>(sizeof(float));
  int64_t tiles = ks_.caches().l2_bytes / 2 / (bytes * kernel.um);
  const int64_t cols = CeilDiv(cell.n1 - cell.n0, cell.grid.cols);
  if (kernel.family == KernelFamily::kDot && cols > kernel.un &&
      cols * bytes <= ks_.caches().l1_bytes / 2) {
    const float call_us = cell.task_us * static_cast<float>(CeilDiv(cols, kernel.un));
    const float enough = kCallShare * static_cast<float>(ks_.machine().call_us) / call_us;
    tiles = std::min(tiles, static_cast<int64_t>(enough));
  }
  return std::max<int64_t>(1, tiles) * kernel.um;
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
  region.kc = SliceOf(cell);
  region.mc = BlockRows(cell, region.kc);
  const int64_t cols = cell.pack_b ? kPackedBlockCols : kBlockCols;
  region.nc = std::max<int64_t>(1, cols / kernel.un) * kernel.un;
  region.task_us = cell.task_us;
  return region;
}

}  // namespace moonpoly
