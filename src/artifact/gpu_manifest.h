/*!
 * \file artifact/gpu_manifest.h
 * \brief What the manifest of a GPU's artifact says, checked.
 */
#ifndef MOONPOLY_ARTIFACT_GPU_MANIFEST_H_
#define MOONPOLY_ARTIFACT_GPU_MANIFEST_H_

#include <tvm/ffi/string.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "artifact/gpu_cost_table.h"
#include "artifact/gpu_types.h"
#include "artifact/json_reader.h"

namespace moonpoly {

/*! \brief How a kernel reads A and B, the most particular first. */
enum class GpuLoads : uint8_t {
  /*! \brief By a tensor map of each: k contiguous, rows a multiple of 16 bytes apart. */
  kTma,
  /*! \brief By asynchronous copies of 16 bytes, of the same operands. */
  kAsync,
  /*! \brief By several tensor maps of each, one for each residue of the rows: k contiguous. */
  kResidue,
  /*! \brief By threads, straight into the registers that are multiplied: k contiguous. */
  kDirect,
  /*! \brief One row or one column of C, without tensor cores: k contiguous. */
  kGemv,
  /*! \brief By plain loads: any strides, any alignment. */
  kStrided,
};

/*! \brief The most particular way to read rows `stride` items apart, the first one aligned. */
inline GpuLoads AccessOfRows(const GpuTypes& types, int64_t stride) {
  const int32_t align = types.aligned_items();
  if (stride % align == 0) return GpuLoads::kTma;
  // Rows an odd number of bytes apart would take too many tensor maps.
  return stride * types.residues() % align == 0 ? GpuLoads::kResidue : GpuLoads::kDirect;
}

/*! \brief One argument of a compiled kernel, by the name that the tile program gives it. */
enum class GpuParam : uint8_t {
  // x is the operand along the rows of the tensor cores, y the other.
  kXMap,
  kYMap = kXMap + 8,
  kA = kYMap + 8,
  kB,
  kC,
  kWorkspace,
  kCounters,
  kM,
  kN,
  kK,
  kLdc,
  kVectorC,
  kGrid,
  kDepth,
  kCluster,
  kSlices,
  kPartSteps,
  kLongerParts,
  kColumns,
  kQGroups,
  kASkip,
  kBSkip,
  kAM,
  kAK,
  kBN,
  kBK,
};
constexpr size_t kMaxGpuParams = 48;
/*! \brief Throws ValueError, naming `where`, unless `name` is what a tile program calls one. */
GpuParam ParseGpuParam(const std::string& name, const std::string& where);
/*! \brief Numbers that a kernel's correction consists of, see GpuLaunchTerms. */
constexpr size_t kGpuCorrectionTerms = 269;
/*!
 * \brief Of a set: bounds what the selector looks at for one shape.
 *
 * A compiled function may stand behind several kernels, which then differ in the columns of their
 * tiles.
 */
constexpr size_t kMaxGpuKernels = 96;

/*!
 * \brief Which dimension of A and of B is contiguous, as BLAS names it: "nt" is A (m, k) and
 *        B (n, k) with k contiguous in both.
 */
enum class GpuLayout : uint8_t { kNn = 0, kNt = 1, kTn = 2, kTt = 3 };
/*! \brief Throws ValueError unless `text` is one of the four. */
GpuLayout ParseGpuLayout(const std::string& text);
const char* GpuLayoutName(GpuLayout layout);
/*! \brief Throws ValueError, naming `where`, unless `text` is "tma", "async", "residue", "direct",
 *         "gemv" or "strided". */
GpuLoads ParseGpuLoads(const std::string& text, const std::string& where);
const char* GpuLoadsName(GpuLoads loads);

/*! \brief A number for clusters of 1, 2, 4 and 8 blocks. */
using ClusterCounts = std::array<int32_t, 4>;
inline int ClusterIndex(int32_t blocks) { return __builtin_ctz(static_cast<unsigned>(blocks)); }

/*! \brief What it costs to add up the parts of a reduction, in microseconds. */
struct GpuSplitCost {
  /*! \brief In clusters of 1, 2, 4 and 8 blocks. */
  std::array<float, 4> cluster_us;
  /*! \brief Between slices: once, and for each. */
  float slices_us, slice_us;
};

/*!
 * \brief The ring of a kernel that uses as many of its slots as the launch gives it memory for.
 *
 * With few steps to do a launch takes little shared memory, and the next one fits beside it.
 */
struct GpuRing {
  /*! \brief Shared memory before the slots, of one slot, and of a block at least. */
  int32_t base_bytes, slot_bytes, least_bytes;
  /*! \brief Slots at most; 0 for a kernel that always takes all its memory. */
  int32_t slots;
};

/*! \brief One micro-kernel as the manifest describes it. */
struct GpuKernelSpec {
  std::string name;
  std::string symbol;
  std::string image;
  GpuLoads loads;
  /*! \brief The tile of C: rows and columns. */
  int32_t um, un;
  /*! \brief Whether x is B: rows of the tensor cores are columns of C. */
  bool swapped;
  /*! \brief Tiles along m and n that the blocks of one cluster cover. */
  int32_t cluster_m, cluster_n;
  /*! \brief Whether the reduction is shared by blocks, as many as a launch says. */
  bool split;
  /*! \brief Whether clusters may share it as well, through a workspace. */
  bool slices;
  int32_t threads;
  /*! \brief Shared memory of a block at most. */
  int32_t shared_bytes;
  GpuRing ring;
  int32_t blocks_per_sm;
  /*! \brief Clusters (blocks where there are none) that the whole GPU holds at once. */
  int32_t slots;
  /*! \brief The same of clusters of 1, 2, 4 and 8 blocks that share a reduction. */
  ClusterCounts split_slots;
  /*! \brief Rows that one load by tensor map fetches, of x and of y. */
  int32_t box_x, box_y;
  std::vector<GpuParam> params;
  /*! \brief Microseconds of a launch with whole reductions, see GpuCostGrid. */
  std::vector<float> us;
  GpuSplitCost split_cost;
  /*! \brief What a wave's tiles take more where C is stored by pairs, and by single elements. */
  std::array<float, 2> narrow_us;
  /*! \brief Weights of the terms of GpuLaunchTerms; none where launches were not recorded. */
  std::vector<float> correction;

  int32_t cluster() const { return cluster_m * cluster_n; }
};

/*! \brief Measured constants of the GPU that the plans are made for. */
struct GpuMachine {
  int32_t num_sms;
  /*! \brief Clusters with a block on each multiprocessor: those of a cluster are neighbours. */
  ClusterCounts cluster_slots;
  /*! \brief Between two launches of a stream, and how much of it an overlapped launch hides. */
  float launch_us;
  float overlap_us;
  /*! \brief Longer kernels are launched without overlap. */
  float overlap_limit_us;
  /*! \brief Shared memory of a block that others should overlap, where it does with so little. */
  int32_t overlap_bytes;
  /*!
   * \brief Shared memory of a block that leaves none for a second one on its multiprocessor.
   *
   * Where more fit than are a multiprocessor's share, blocks of an overlapped launch pile up on
   * those that are free first, and others idle: overlapped launches with no more blocks than
   * multiprocessors take so much, others so much that no more than their share fit. 0 where that
   * does no harm.
   */
  int32_t lone_bytes;
  float l2_bytes;
  float l2_gbs;
  float dram_gbs;
  /*!
   * \brief What tiles fetch from the second-level cache at most, in GB/s: where rows of A and B are
   *        whole lines of it, where whole sectors, and where parts of them, which are fetched
   *        whole. Infinite where that is not known.
   */
  std::array<float, 3> fetch_gbs;
  /*!
   * \brief The same of kernels that load straight into registers: where rows are multiples of 16,
   * of 8, of 4 and of fewer bytes, which is what one of their loads brings.
   */
  std::array<float, 4> direct_gbs;
};

/*!
 * \brief What bounds the costs of a kernel's launches from below, apart from the rest.
 *
 * A selection reads those of all kernels, and the rest of few: so they lie close together.
 */
struct GpuKernelBound {
  /*! \brief Lines of A and B that tiles fetch for each item of C, at least. */
  float lines_per_item;
  /*! \brief Rows and columns of C of a tile, or of the tiles of a cluster that shares loads. */
  int32_t group_m, group_n;
  /*! \brief Items of C of these tiles. */
  float group_items;
  bool direct, split;
};

struct GpuManifest {
  std::string target;
  std::string dtype;
  GpuTypes types;
  GpuCostGrid grid;
  GpuMachine machine;
  std::vector<GpuKernelSpec> kernels;
  /*! \brief By kernel. */
  std::vector<GpuKernelBound> bounds;
  /*! \brief Microseconds of the launch of the fewest tiles: [k][kernel], k as in `grid`. */
  std::vector<float> least_us;
  /*! \brief What each item of C adds to a launch at least, in microseconds: [k][kernel]. */
  std::vector<float> item_us;

  /*! \brief Throws ValueError naming what is missing or does not fit. */
  static GpuManifest Parse(const tvm::ffi::String& text);
};

}  // namespace moonpoly

#endif  // MOONPOLY_ARTIFACT_GPU_MANIFEST_H_
