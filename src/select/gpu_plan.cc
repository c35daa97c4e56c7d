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

namespace {

// So much shared memory that no more blocks fit a multiprocessor than are its share; 0 where what
// else they take has that effect. Clusters leave some multiprocessors idle: of eight blocks 16
// would be two rounds where each had but one multiprocessor's worth.
int64_t SpreadBytes(const GpuKernelSpec& kernel, const GpuMachine& machine, int64_t blocks,
                    int32_t cluster) {
  const int64_t slots = machine.cluster_slots[ClusterIndex(cluster)];
  const int64_t share = CeilDiv(CeilDiv(blocks, int64_t{cluster}), slots);
  if (share > 1 && share >= kernel.blocks_per_sm) return 0;
  return 2 * int64_t{machine.lone_bytes} / (share + 1);
}

}  // namespace

GpuDepth DepthOf(const GpuKernelSpec& kernel, const GpuMachine& machine, const GpuTiling& tiling,
                 GpuSplit split, int64_t steps, bool overlap) {
  // Of so many slots most of the latency of memory is hidden.
  constexpr int64_t kEnoughSlots = 4;
  const GpuRing& ring = kernel.ring;
  int64_t slots = 0, bytes = kernel.shared_bytes;
  if (ring.slots > 0) {
    const int64_t rounds =
        kernel.split ? 1 : CeilDiv(tiling.tiles * kernel.cluster(), tiling.blocks);
    const int64_t useful = CeilDiv(steps, int64_t{split.blocks()}) * rounds;
    slots = std::min<int64_t>(useful, ring.slots);
    const int64_t most_bytes = overlap ? machine.overlap_bytes : kernel.shared_bytes;
    const int64_t fitting = (most_bytes - ring.base_bytes) / ring.slot_bytes;
    if (fitting >= kEnoughSlots) slots = std::min(slots, fitting);
    bytes = std::max<int64_t>(ring.base_bytes + slots * ring.slot_bytes, ring.least_bytes);
  }
  if (overlap) {
    const int32_t cluster = kernel.split ? split.cluster : kernel.cluster();
    bytes = std::max(bytes, SpreadBytes(kernel, machine, tiling.blocks, cluster));
  }
  return {static_cast<int32_t>(slots), static_cast<int32_t>(bytes)};
}

// On an H200, which holds 30 clusters of four, overlapped launches of 13 to 15 and of 19 to 30 of
// them were 5 to 7 % faster than as single blocks, in the geometric mean; up to 20 % where tiles
// fetch as fast as the cache gives. Of those between, two don't quite fit side by side: they lost
// up to 40 %. Pairs of blocks gained 1.4 % where fours don't fit.
int32_t NeighboursOf(const GpuKernelSpec& kernel, const GpuMachine& machine,
                     const GpuTiling& tiling, bool overlap) {
  constexpr int32_t kFew = 4, kPair = 2;
  if (!overlap || kernel.split || kernel.cluster() > 1 || kernel.loads != GpuLoads::kTma) return 1;
  const int64_t fours = CeilDiv(tiling.blocks, int64_t{kFew});
  const int64_t slots = machine.cluster_slots[ClusterIndex(kFew)];
  if (fours <= slots) {
    const bool most = 5 * fours > 3 * slots, two_fit = 2 * fours <= slots;
    return most || (two_fit && 5 * fours > 2 * slots) ? kFew : 1;
  }
  const int64_t pairs = CeilDiv(tiling.blocks, int64_t{kPair});
  return pairs <= machine.cluster_slots[ClusterIndex(kPair)] ? kPair : 1;
}

}  // namespace moonpoly
