/*!
 * \file select/gpu_region_cost.cc
 */
#include "select/gpu_region_cost.h"

#include <algorithm>
#include <cmath>

#include "select/gpu_rows.h"
#include "select/plan.h"

namespace moonpoly {

namespace {

int32_t StepsOf(const GpuTypes& types, int64_t k) { return CeilDiv32(k, types.step()); }

// Kernels that load by themselves fetch in ways of their own: their tables say how fast.
float LineUsOf(const GpuManifest& manifest, const GpuProblem& problem) {
  if (problem.access > GpuLoads::kAsync) return 0.0f;
  const int64_t bytes = problem.k * manifest.types.item_bytes();
  return 1e-3f * static_cast<float>(bytes) / manifest.machine.fetch_gbs[std::min(RowsOf(bytes), 2)];
}

// Of kernels that load straight into registers.
float DirectLineUsOf(const GpuManifest& manifest, const GpuProblem& problem) {
  const int64_t bytes = problem.k * manifest.types.item_bytes();
  const int32_t width = std::max(RowsOf(bytes) - 2, 0);
  return 1e-3f * static_cast<float>(bytes) / manifest.machine.direct_gbs[width];
}

}  // namespace

GpuRegionCost::GpuRegionCost(const GpuKernelSetObj& ks, const GpuProblem& problem, CostModel model)
    : ks_(ks),
      machine_(ks.manifest().machine),
      problem_(problem),
      model_(model),
      steps_(StepsOf(ks.manifest().types, problem.k)),
      cluster_depths_(LocateClusters()),
      least_(RowsAt(ks.manifest().least_us)),
      item_(RowsAt(ks.manifest().item_us)),
      narrow_(NarrowOf(ks.manifest().types, problem.n)),
      line_us_(LineUsOf(ks.manifest(), problem)),
      direct_line_us_(DirectLineUsOf(ks.manifest(), problem)),
      items_(static_cast<float>(problem.m) * static_cast<float>(problem.n)),
      least_us_(machine_.launch_us + StreamUs(problem.m, problem.n)) {}

float GpuRegionCost::AblatedUs(const GpuKernelSpec& kernel, const GpuTiling& tiling,
                               GpuSplit split) const {
  if (model_ == CostModel::kWavesOnly) return std::ceil(tiling.waves);
  return ks_.manifest().grid.LaunchUs(kernel.us.data(), DepthOf(split),
                                      1.0f / static_cast<float>(kernel.slots), machine_.launch_us);
}

float GpuRegionCost::AddUpUs(const GpuKernelSpec& kernel, GpuSplit split) {
  const GpuSplitCost& cost = kernel.split_cost;
  const float cluster_us = cost.cluster_us[ClusterIndex(split.cluster)];
  if (split.slices == 1) return cluster_us;
  return cluster_us + cost.slices_us + cost.slice_us * static_cast<float>(split.slices);
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

}  // namespace moonpoly
