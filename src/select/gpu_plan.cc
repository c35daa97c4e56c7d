/*!
 * \file select/gpu_plan.cc
 */
#include "select/gpu_plan.h"

#include <algorithm>

#include "select/plan.h"

namespace moonpoly {

const char* GpuPatternName(GpuPattern pattern) {
  constexpr const char* kNames[] = {"I", "II", "III", "K"};
  return kNames[static_cast<int>(pattern)];
}

GpuTiling TilingOf(const GpuKernelSpec& kernel, int64_t rows, int64_t cols, GpuSplit split) {
  const int32_t bands = CeilDiv32(rows, kernel.um * kernel.cluster_m);
  const int32_t strips = CeilDiv32(cols, kernel.un * kernel.cluster_n);
  GpuTiling out;
  out.tiles = static_cast<int64_t>(bands) * strips;
  if (kernel.split) {
    // One round of blocks after the other, as many as there are parts.
    out.blocks = out.tiles * split.blocks();
    out.waves = static_cast<float>(out.tiles * split.slices) /
                static_cast<float>(kernel.split_slots[ClusterIndex(split.cluster)]);
    return out;
  }
  // A block goes on from tile to tile, so that there is never more than one round of blocks.
  out.waves = static_cast<float>(out.tiles) / static_cast<float>(kernel.slots);
  out.blocks = std::min<int64_t>(out.tiles, kernel.slots) * kernel.cluster();
  return out;
}

bool CanServe(const GpuKernelSpec& kernel, const GpuProblem& problem) {
  if (kernel.loads == GpuLoads::kStrided) return true;
  return problem.layout == GpuLayout::kNt && kernel.loads >= problem.access;
}

}  // namespace moonpoly
