/*!
 * \file select/gpu_region_cost.cc
 */
#include "select/gpu_region_cost.h"

#include <algorithm>
#include <cmath>

namespace moonpoly {

namespace {

// What a kernel gains by being faster than the memory: it breaks ties.
constexpr float kWaiting = 0.05f;
// Of the second-level cache.
constexpr int64_t kLineBytes = 128, kSectorBytes = 32;
constexpr int64_t kVectorBytes = 16;

int32_t StepsOf(const GpuTypes& types, int64_t k) {
  return static_cast<int32_t>((k + types.step() - 1) / types.step());
}

// Contiguous rows of C can be stored by vectors of 16 bytes, by pairs or by elements only.
int32_t NarrowOf(const GpuTypes& types, int64_t n) {
  return n % (kVectorBytes / types.output_bytes()) == 0 ? -1 : n % 2 == 0 ? 0 : 1;
}

// Kernels that load by themselves fetch in ways of their own: their tables say how fast.
float LineUsOf(const GpuManifest& manifest, const GpuProblem& problem) {
  if (problem.access > GpuLoads::kAsync) return 0.0f;
  const int64_t bytes = problem.k * manifest.types.item_bytes();
  const int kind = bytes % kLineBytes == 0 ? 0 : bytes % kSectorBytes == 0 ? 1 : 2;
  return 1e-3f * static_cast<float>(bytes) / manifest.machine.fetch_gbs[kind];
}

// Of kernels that load straight into registers.
float DirectLineUsOf(const GpuManifest& manifest, const GpuProblem& problem) {
  const int64_t bytes = problem.k * manifest.types.item_bytes();
  int kind = 0;
  for (int64_t load = kVectorBytes; load > 2 && bytes % load != 0; load /= 2) ++kind;
  return 1e-3f * static_cast<float>(bytes) / manifest.machine.direct_gbs[kind];
}

float AddUpUs(const GpuKernelSpec& kernel, GpuSplit split) {
  const GpuSplitCost& cost = kernel.split_cost;
  const float cluster_us = cost.cluster_us[ClusterIndex(split.cluster)];
  if (split.slices == 1) return cluster_us;
  return cluster_us + cost.slices_us + cost.slice_us * static_cast<float>(split.slices);
}

}  // namespace

GpuRegionCost::GpuRegionCost(const GpuKernelSetObj& ks, const GpuProblem& problem, CostModel model)
    : ks_(ks),
      machine_(ks.manifest().machine),
      problem_(problem),
      model_(model),
      steps_(StepsOf(ks.manifest().types, problem.k)),
      cluster_depths_(LocateClusters()),
      narrow_(NarrowOf(ks.manifest().types, problem.n)),
      line_us_(LineUsOf(ks.manifest(), problem)),
      direct_line_us_(DirectLineUsOf(ks.manifest(), problem)),
      least_us_(machine_.launch_us + StreamUs(problem.m, problem.n)) {}

float GpuRegionCost::RegionUs(const GpuKernelSpec& kernel, const GpuTiling& tiling, int64_t rows,
                              int64_t cols, GpuSplit split) const {
  if (model_ == CostModel::kWavesOnly) return std::ceil(tiling.waves);
  const GpuCostGrid& grid = ks_.manifest().grid;
  const float* table = kernel.us.data();
  const GpuCostGrid::Depth depth =
      split.slices == 1 ? cluster_depths_[ClusterIndex(split.cluster)] : Locate(split.blocks());
  if (model_ == CostModel::kTaskOnly) {
    return grid.LaunchUs(table, depth, 1.0f / static_cast<float>(kernel.slots), machine_.launch_us);
  }
  float us = std::max(grid.LaunchUs(table, depth, tiling.waves, machine_.launch_us),
                      machine_.launch_us + FetchUs(kernel, tiling, rows, cols));
  if (narrow_ >= 0) {
    const float waves = tiling.waves / static_cast<float>(split.slices);
    us += kernel.narrow_us[narrow_] * std::max(1.0f, waves);
  }
  const bool all = rows == problem_.m && cols == problem_.n;
  const float least_us = all ? least_us_ : machine_.launch_us + StreamUs(rows, cols);
  // Of kernels that all wait for memory, those that need less time otherwise wait less.
  if (us < least_us) us = least_us + kWaiting * (us - least_us);
  return split.blocks() == 1 ? us : us + AddUpUs(kernel, split);
}

float GpuRegionCost::LeastSplitUs(const GpuKernelSpec& kernel, int32_t cluster,
                                  int32_t slices) const {
  if (model_ != CostModel::kFull) return 0.0f;
  const GpuSplitCost& cost = kernel.split_cost;
  // Adding up slices may be predicted to cost less than nothing.
  const float slices_us = std::min({0.0f, cost.slices_us + 2.0f * cost.slice_us,
                                    cost.slices_us + static_cast<float>(slices) * cost.slice_us});
  const GpuCostGrid::Depth depth =
      slices == 1 ? cluster_depths_[ClusterIndex(cluster)] : Locate(cluster * slices);
  return ks_.manifest().grid.TaskUs(kernel.us.data(), depth) +
         cost.cluster_us[ClusterIndex(cluster)] + slices_us;
}

std::array<GpuCostGrid::Depth, 4> GpuRegionCost::LocateClusters() const {
  return {Locate(1), Locate(2), Locate(4), Locate(8)};
}

GpuCostGrid::Depth GpuRegionCost::Locate(int32_t parts) const {
  const int32_t steps = parts == 1 ? steps_ : (steps_ + parts - 1) / parts;
  return ks_.manifest().grid.LocateK(int64_t{std::max(steps, 1)} * ks_.manifest().types.step());
}

// Each operand moved once: within the cache, and what does not fit there from memory.
float GpuRegionCost::StreamUs(int64_t rows, int64_t cols) const {
  const float m = static_cast<float>(rows), n = static_cast<float>(cols);
  const float k = static_cast<float>(problem_.k);
  const GpuTypes& types = ks_.manifest().types;
  const float bytes = static_cast<float>(types.item_bytes()) * (m * k + k * n) +
                      static_cast<float>(types.output_bytes()) * m * n;
  const float beyond = std::max(0.0f, bytes - machine_.l2_bytes);
  return 1e-3f * std::max(bytes / machine_.l2_gbs, beyond / machine_.dram_gbs);
}

// Every tile fetches its rows of A and its columns of B.
float GpuRegionCost::FetchUs(const GpuKernelSpec& kernel, const GpuTiling& tiling, int64_t rows,
                             int64_t cols) const {
  const float line_us = kernel.loads == GpuLoads::kDirect ? direct_line_us_ : line_us_;
  return line_us * (static_cast<float>(tiling.strips) * static_cast<float>(rows) +
                    static_cast<float>(tiling.bands) * static_cast<float>(cols));
}

}  // namespace moonpoly
