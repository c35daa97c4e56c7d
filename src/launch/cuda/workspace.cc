/*!
 * \file launch/cuda/workspace.cc
 */
#include "launch/cuda/workspace.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace moonpoly {

namespace {

constexpr size_t kSumBytes = 4, kCounterBytes = 4;
// Room for most shapes: a split is for outputs of few tiles.
constexpr size_t kLeastSums = size_t{32} << 20, kLeastCounters = size_t{64} << 10;

struct Block {
  cuda::DevicePtr address = 0;
  size_t bytes = 0;
};

/*! \brief A block of at least `bytes`, new and zero if the one there is too small. */
void Grow(Block* block, size_t bytes, size_t least, cuda::Stream stream) {
  if (block->bytes >= bytes) return;
  const cuda::Driver& driver = cuda::GetDriver();
  cuda::CaptureStatus capturing = cuda::kCaptureNone;
  cuda::Check(driver.cuStreamIsCapturing(stream, &capturing), "cuStreamIsCapturing");
  if (capturing != cuda::kCaptureNone) {
    TVM_FFI_THROW(RuntimeError) << "the workspace can't be allocated while a graph is captured; "
                                   "call once with this shape before the capture";
  }
  // The old block is kept: a graph that was captured before may name it.
  const size_t wanted = std::max({bytes, least, 2 * block->bytes});
  Block fresh;
  cuda::Check(driver.cuMemAlloc_v2(&fresh.address, wanted), "allocating a workspace");
  fresh.bytes = wanted;
  cuda::Check(driver.cuMemsetD8Async(fresh.address, 0, wanted, stream), "clearing a workspace");
  *block = fresh;
}

}  // namespace

Workspace WorkspaceOf(const GpuKernelSpec& kernel, const GpuRegion& region, int device,
                      cuda::Stream stream) {
  struct Blocks {
    Block sums, counters;
  };
  static std::mutex mutex;
  static auto& by_stream = *new std::map<std::pair<int, cuda::Stream>, Blocks>;
  const GpuTiling tiling = TilingOf(kernel, region.rows(), region.cols(), region.split);
  const size_t tiles = static_cast<size_t>(tiling.tiles);
  const size_t sums = tiles * region.split.slices * kernel.um * kernel.un * kSumBytes;
  const size_t counters = tiles * region.split.cluster * kCounterBytes;
  std::lock_guard<std::mutex> lock(mutex);
  Blocks& blocks = by_stream[{device, stream}];
  Grow(&blocks.sums, sums, kLeastSums, stream);
  Grow(&blocks.counters, counters, kLeastCounters, stream);
  return {reinterpret_cast<void*>(blocks.sums.address),
          reinterpret_cast<void*>(blocks.counters.address)};
}

}  // namespace moonpoly
