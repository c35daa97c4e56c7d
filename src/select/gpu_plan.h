/*!
 * \file select/gpu_plan.h
 * \brief A matrix product on a GPU, and the plan that is made for it.
 */
#ifndef MOONPOLY_SELECT_GPU_PLAN_H_
#define MOONPOLY_SELECT_GPU_PLAN_H_

#include <tvm/ffi/string.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "artifact/gpu_kernel_set.h"
#include "select/plan.h"

namespace moonpoly {

/*! \brief C(m, n) = A(m, k) B(k, n), with what of the operands decides which kernels can serve. */
struct GpuProblem {
  int64_t m;
  int64_t n;
  int64_t k;
  GpuLayout layout;
  /*! \brief The most particular way in which A and B can both be read. */
  GpuLoads access;
  /*! \brief Whether launches may overlap the end of what comes before them in the stream. */
  bool overlap;

  GpuOperands operands() const { return {layout, access, m, n, k}; }

  bool operator==(const GpuProblem& other) const {
    return m == other.m && n == other.n && k == other.k && layout == other.layout &&
           access == other.access && overlap == other.overlap;
  }
};

/*! \brief The shape of the cut, named as on a CPU. */
enum class GpuPattern : int32_t {
  kI,    // one region
  kII,   // two bands of rows
  kIII,  // two strips of columns
  kK,    // one region, its reduction shared by several blocks
};

const char* GpuPatternName(GpuPattern pattern);

/*!
 * \brief How a reduction is shared: blocks of a cluster add up in shared memory, clusters that
 *        each have a slice through a workspace, all in the one launch and in a fixed order.
 */
struct GpuSplit {
  int32_t cluster;
  int32_t slices;

  int32_t blocks() const { return cluster * slices; }
};
constexpr GpuSplit kWholeReduction = {1, 1};

/*! \brief A rectangle of the output, given to one micro-kernel in one launch. */
struct GpuRegion {
  int64_t m0, m1, n0, n1;
  int32_t kernel;
  GpuSplit split;
  /*! \brief Predicted microseconds of the launch by itself. */
  float us;

  int64_t rows() const { return m1 - m0; }
  int64_t cols() const { return n1 - n0; }
};

/*! \brief How the tiles of a region lie on the GPU. */
struct GpuTiling {
  /*! \brief Rows of tiles and tiles in a row, in groups that a cluster covers with shared loads. */
  int32_t bands, strips;
  int64_t tiles;
  /*! \brief Rounds of what the GPU holds at once; may be broken. */
  float waves;
  /*! \brief Blocks that are launched. */
  int64_t blocks;
};
inline GpuTiling TilingOfBands(const GpuKernelSpec& kernel, int32_t bands, int32_t strips,
                               GpuSplit split) {
  GpuTiling out;
  out.bands = bands;
  out.strips = strips;
  out.tiles = static_cast<int64_t>(out.bands) * out.strips;
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

inline GpuTiling TilingOf(const GpuKernelSpec& kernel, int64_t rows, int64_t cols, GpuSplit split) {
  return TilingOfBands(kernel, CeilDiv32(rows, kernel.um * kernel.cluster_m),
                       CeilDiv32(cols, kernel.un * kernel.cluster_n), split);
}

/*! \brief Slots of its ring that a launch of a kernel uses, and its shared memory. */
struct GpuDepth {
  int32_t slots;
  int32_t shared_bytes;
};
/*!
 * \param steps The whole reduction's.
 * \param overlap Whether the launch may begin before the one that it follows has ended. Then it
 *        takes fewer slots than are useful, but no less than a few, to leave room; and so much
 *        memory that its blocks are spread over all multiprocessors, see GpuMachine.
 */
GpuDepth DepthOf(const GpuKernelSpec& kernel, const GpuMachine& machine, const GpuTiling& tiling,
                 GpuSplit split, int64_t steps, bool overlap);

/*!
 * \brief Neighbouring blocks that a launch has put close to each other, as a cluster; 1 for any
 * place.
 *
 * They share nothing in it, but they fetch the same columns at about the same time, and requests of
 * multiprocessors that are close to each other are answered by the second-level cache at once.
 * Blocks of a launch that doesn't overlap are close to their neighbours anyway; those of one that
 * does go to whichever multiprocessor is free.
 */
int32_t NeighboursOf(const GpuKernelSpec& kernel, const GpuMachine& machine,
                     const GpuTiling& tiling, bool overlap);

constexpr int kMaxGpuRegions = 2;

struct GpuPlan {
  GpuProblem problem;
  GpuPattern pattern;
  int32_t num_regions;
  /*! \brief Whether the launches overlap: pays for short kernels only. */
  bool overlap;
  float predicted_us;
  std::array<GpuRegion, kMaxGpuRegions> regions;
};

/*! \brief All numbers of a plan as JSON. */
tvm::ffi::String GpuPlanToJson(const GpuKernelSetObj& ks, const GpuPlan& plan);

/*! \brief Read what GpuPlanToJson wrote. Throws ValueError for what can't be run. */
GpuPlan GpuPlanFromJson(const GpuKernelSetObj& ks, const tvm::ffi::String& text);

}  // namespace moonpoly

#endif  // MOONPOLY_SELECT_GPU_PLAN_H_
