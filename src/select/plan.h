/*!
 * \file select/plan.h
 * \brief The problem, and the plan that is made for it.
 */
#ifndef MOONPOLY_SELECT_PLAN_H_
#define MOONPOLY_SELECT_PLAN_H_

#include <tvm/ffi/string.h>

#include <array>
#include <cstdint>

#include "artifact/kernel_set.h"

namespace moonpoly {

/*! \brief How the right operand B arrives. */
enum class BMode : int32_t {
  /*! \brief In panels (n/L, k, L), zero-padded, as pack_b lays it out. */
  kPacked = 0,
  /*! \brief Row-major (k, n). */
  kRowMajor = 1,
  /*! \brief Transposed: row-major (n, k). */
  kTransposed = 2,
  /*! \brief Produced block by block by a gather (convolution). */
  kGathered = 3,
};

/*! \brief One problem shape: `batch` products C(m, n) = A(m, k) B(k, n) on `threads` threads. */
struct Problem {
  int64_t batch;
  int64_t m;
  int64_t n;
  int64_t k;
  BMode b_mode;
  int32_t threads;

  bool operator==(const Problem& other) const {
    return batch == other.batch && m == other.m && n == other.n && k == other.k &&
           b_mode == other.b_mode && threads == other.threads;
  }
};

/*!
 * \brief The shape of the cut. All guillotine cuts of depth two or less, one cut a level with
 * alternating axis, and the cut of the reduction.
 */
enum class Pattern : int32_t {
  kI,     // one region
  kII,    // two bands of rows
  kIII,   // two strips of columns
  kIV,    // two bands, the upper cut into two along the columns
  kV,     // two bands, the lower cut
  kVI,    // two bands, both cut
  kVII,   // two strips, the left cut into two along the rows
  kVIII,  // two strips, the right cut
  kIX,    // two strips, both cut
  kK,     // the reduction in slices, one for each group of threads
};

const char* PatternName(Pattern pattern);

/*! \brief A rectangle of the output, given to one micro-kernel. All extents in elements. */
struct Region {
  int64_t m0, m1, n0, n1;
  int32_t kernel;
  /*! \brief The grid of threads that shares the region's row tiles and column tiles. */
  int32_t row_threads, col_threads;
  /*! \brief Whether B is copied into panels block by block (for dot kernels: transposed). */
  bool pack_b;
  /*! \brief Cache blocking: reduction slice, rows and columns of a block. */
  int64_t kc, mc, nc;
  /*! \brief Predicted microseconds of one task, with its whole reduction. */
  float task_us;

  int64_t tasks(const KernelSetObj& ks) const;
  /*! \brief Rounds of tasks that the busiest thread runs. */
  int64_t waves(const KernelSetObj& ks) const;
};

constexpr int kMaxRegions = 4;
/*! \brief Room for the partial sums of a cut reduction, for all slices together. */
constexpr int64_t kMaxPartialFloats = 1 << 20;

/*!
 * \brief Whether the region that begins at row m0 counts its threads from the last to the first.
 *
 * Bands below the first do, so that threads that got a tile more of one get one less of the other.
 * Strips beside each other don't: there the same thread keeps the same rows, and no line of C is
 * written by two of them.
 */
inline bool CountsBackwards(int64_t m0) { return m0 > 0; }

/*! \brief A plan. Threads are numbered batch-major, then reduction slice, then place in a region.
 */
struct Plan {
  Problem problem;
  Pattern pattern;
  int32_t num_regions;
  int32_t batch_threads;
  int32_t k_threads;
  int32_t region_threads;
  float predicted_us;
  std::array<Region, kMaxRegions> regions;

  int32_t num_threads() const { return batch_threads * k_threads * region_threads; }
};

/*! \brief Part `index` of `count` nearly equal parts of `total`; the last ones are the larger. */
struct Span {
  int64_t begin;
  int64_t end;
};
inline Span Share(int64_t total, int64_t index, int64_t count) {
  const int64_t each = total / count, extra = total % count;
  const int64_t first_large = count - extra;
  const int64_t begin = index * each + (index > first_large ? index - first_large : 0);
  return {begin, begin + each + (index >= first_large ? 1 : 0)};
}

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
/*! \brief The same for tile counts, where the shorter division matters: it is half of selecting. */
inline int32_t CeilDiv32(int64_t a, int32_t b) {
  return static_cast<int32_t>((static_cast<uint32_t>(a) + static_cast<uint32_t>(b) - 1) /
                              static_cast<uint32_t>(b));
}

/*! \brief Slices begin at a multiple of this many steps, so that vectors along k stay aligned. */
constexpr int64_t kSliceStep = 16;

/*! \brief The k range of slice `index` when the reduction is cut for `count` groups of threads. */
Span KSlice(int64_t k, int64_t index, int64_t count);

/*! \brief All numbers of a plan as JSON. */
tvm::ffi::String PlanToJson(const KernelSetObj& ks, const Plan& plan);

/*! \brief Read what PlanToJson wrote. Throws ValueError for what can't be run. */
Plan PlanFromJson(const KernelSetObj& ks, const tvm::ffi::String& text);

}  // namespace moonpoly

#endif  // MOONPOLY_SELECT_PLAN_H_
