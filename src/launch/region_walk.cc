/*!
 * \file launch/region_walk.cc
 */
#include "launch/region_walk.h"

#include <algorithm>
#include <cstring>

#include "launch/pack.h"

namespace moonpoly {

namespace {

// Rows of a packed block of A are this much longer than the block, so that they don't fall on one
// cache set.
constexpr int64_t kRowPadding = 16;

// A sum is rounded at every step, in proportion to how far it has come; parts of this length that
// are added up afterwards round less than one long sum. That takes a further pass over C for each
// part, which is little where a convolution has so few rows that gathering B is most of the work.
constexpr int64_t kShortSum = 128;
constexpr int64_t kFewRows = 48;
// Elements of C that stay near while their parts are added up.
constexpr int64_t kNearFloats = 4 << 10;

// The rows of A that a tile fetches for the next one take this part of the second cache at most.
constexpr int64_t kNextRowsPart = 8;
// Of shorter rows the processor guesses as much as it can fetch beside what is written to C.
constexpr int64_t kLeastFarDepth = 32;
// Panels of so many steps are worth calls of their own for the first rows that meet them.
constexpr int64_t kLeastFarPanels = 256;

int64_t RoundDown(int64_t value, int64_t step) { return std::max(step, value / step * step); }

void CopyTile(const float* tile, int64_t tile_ld, int64_t rows, int64_t cols, bool accumulate,
              float* c, int64_t ldc) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* from = tile + i * tile_ld;
    float* to = c + i * ldc;
    if (accumulate) {
      for (int64_t j = 0; j < cols; ++j) to[j] += from[j];
    } else {
      std::memcpy(to, from, cols * sizeof(float));
    }
  }
}

}  // namespace

RegionWalk::RegionWalk(const KernelSetObj& ks, const Problem& problem, const AOperand& a,
                       const BOperand& b, const COperand& c, bool accumulate, KernelCall* call,
                       Scratch* scratch)
    : ks_(ks),
      problem_(problem),
      a_(a),
      b_(b),
      c_(c),
      accumulate_(accumulate),
      call_(call),
      scratch_(scratch) {}

int RegionWalk::Run(const Region& region, const Block& block, EpilogueRunner* epilogue) {
  if (block.rows.begin >= block.rows.end || block.cols.begin >= block.cols.end) return 0;
  region_ = &region;
  kernel_ = &ks_.kernel(region.kernel);
  const int64_t cols = block.cols.end - block.cols.begin;
  const int64_t whole = cols / kernel_->un * kernel_->un;
  const bool gathered = b_.mode == BMode::kGathered;
  if (gathered && is_dot()) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError",
                                 "the plan gives a dot kernel to a convolution, whose gathered "
                                 "panels it can't read; select the plan with b_mode 3");
    return -1;
  }
  const bool pack_b = region.pack_b || gathered || (is_dot() && b_.mode != BMode::kTransposed) ||
                      (!is_dot() && b_.mode == BMode::kTransposed);
  if (pack_b || whole == cols || whole == 0) return RunColumns(block, pack_b, epilogue);
  // Whole tiles read B in place; only the ragged ones are packed with padding.
  const int64_t middle = block.cols.begin + whole;
  const int status = RunColumns({block.rows, {block.cols.begin, middle}, block.k}, false, epilogue);
  if (status != 0) return status;
  return RunColumns({block.rows, {middle, block.cols.end}, block.k}, false, epilogue);
}

int RegionWalk::RunColumns(const Block& block, bool pack_b, EpilogueRunner* epilogue) {
  const int64_t um = kernel_->um, un = kernel_->un;
  const int64_t steps = CeilDiv(block.k.end - block.k.begin, kSliceStep);
  // Scratch bounds a slice: one tile of B when it is packed or ragged, one row tile of A. The last
  // step may be a part of one; it is no reason for another slice.
  int64_t kc = std::min(region_->kc, steps * kSliceStep);
  kc = std::max(std::min({kc, kScratchB / un, kScratchA / um - kRowPadding}), kSliceStep);
  const int64_t nc = RoundDown(pack_b ? std::min(region_->nc, kScratchB / kc) : region_->nc, un);
  const int64_t num_slices = CeilDiv(steps, kc / kSliceStep);
  for (int64_t n0 = block.cols.begin; n0 < block.cols.end; n0 += nc) {
    const int64_t cols = std::min(nc, block.cols.end - n0);
    for (int64_t slice = 0; slice < num_slices; ++slice) {
      const Span part = KSlice(block.k.end - block.k.begin, slice, num_slices);
      const Span k{block.k.begin + part.begin, block.k.begin + part.end};
      const int64_t depth = k.end - k.begin;
      const BBlock b = LoadB(n0, TileCols(cols), k, pack_b);
      const bool pack_a = ShouldPackA(block.rows.end - block.rows.begin, cols, depth);
      const int64_t a_ld = depth + kRowPadding;
      far_rows_ = !pack_a && RowsAreFar(block.rows.end - block.rows.begin, depth);
      far_panels_ = PanelsAreFar(cols, depth);
      const int64_t mc =
          RoundDown(pack_a ? std::min(region_->mc, kScratchA / a_ld) : region_->mc, um);
      for (int64_t m0 = block.rows.begin; m0 < block.rows.end; m0 += mc) {
        const int64_t rows = std::min(mc, block.rows.end - m0);
        const float* a = a_.data + m0 * a_.row + k.begin * a_.col;
        float* c = c_.data + m0 * c_.ld + n0;
        const bool accumulate = accumulate_ || slice > 0;
        int status = 0;
        if (pack_a) {
          const int64_t tile_rows = std::min(TileRows(rows), RoundDown(kScratchA / a_ld, um));
          PackRows(a_, m0, rows, tile_rows, k.begin, depth, scratch_->a(), a_ld);
          status = RunTiles(scratch_->a(), a_ld, 1, b, c, rows, cols, depth, accumulate);
        } else {
          const int64_t whole = rows / um * um, rest = rows - whole;
          if (whole > 0) {
            status = RunTiles(a, a_.row, a_.col, b, c, whole, cols, depth, accumulate);
          }
          if (rest > 0 && status == 0) {
            far_rows_ = false;
            PackRows(a_, m0 + whole, rest, um, k.begin, depth, scratch_->a(), a_ld);
            status = RunTiles(scratch_->a(), a_ld, 1, b, c + whole * c_.ld, rest, cols, depth,
                              accumulate);
          }
        }
        if (status == 0 && epilogue->active() && slice + 1 == num_slices) {
          status = epilogue->Run(c_, m0, rows, n0, cols);
        }
        if (status != 0) return status;
      }
    }
  }
  return 0;
}

bool RegionWalk::ShouldPackA(int64_t rows, int64_t cols, int64_t kc) const {
  if (is_dot()) return a_.col != 1;
  if (rows < kernel_->um) return false;
  // A tile re-reads its rows for every column tile; a copy pays when there are a few of them.
  constexpr int64_t kPageFloats = 1024;
  const bool aliased = a_.col == 1 && a_.row % kPageFloats == 0 && kernel_->um > 8;
  return (a_.col != 1 || aliased) && cols >= 4 * kernel_->un;
}

bool RegionWalk::RowsAreFar(int64_t rows, int64_t kc) const {
  const auto row_bytes = static_cast<int64_t>(sizeof(float)) * kc;
  const int64_t cache_bytes = ks_.caches().l2_bytes;
  return kc >= kLeastFarDepth && a_.col == 1 && a_.row == kc && rows * row_bytes > cache_bytes &&
         kernel_->um * row_bytes <= cache_bytes / kNextRowsPart;
}

bool RegionWalk::PanelsAreFar(int64_t cols, int64_t kc) const {
  return !is_dot() && kc >= kLeastFarPanels &&
         cols * kc * static_cast<int64_t>(sizeof(float)) > ks_.caches().l2_bytes / 2;
}

RegionWalk::BBlock RegionWalk::LoadB(int64_t n0, int64_t padded_cols, Span k, bool pack_b) {
  const int64_t lanes = ks_.panel(), depth = k.end - k.begin;
  const int64_t n = problem_.n;
  if (is_dot()) {
    if (!pack_b && n0 + padded_cols <= n) return {b_.data + n0 * b_.ld + k.begin, b_.ld, 1};
    PackColumns(b_, n, problem_.k, lanes, n0, padded_cols, k.begin, depth, scratch_->b());
    return {scratch_->b(), depth, 1};
  }
  if (!pack_b && b_.mode == BMode::kPacked && n0 + padded_cols <= CeilDiv(n, lanes) * lanes) {
    return {b_.data + (n0 / lanes * problem_.k + k.begin) * lanes, problem_.k * lanes, lanes};
  }
  if (!pack_b && b_.mode == BMode::kRowMajor && n0 + padded_cols <= n) {
    return {b_.data + k.begin * b_.ld + n0, lanes, b_.ld};
  }
  PackPanels(b_, n, problem_.k, lanes, n0, padded_cols, k.begin, depth, scratch_->b());
  return {scratch_->b(), depth * lanes, lanes};
}

int RegionWalk::RunTiles(const float* a, int64_t a_m, int64_t a_k, const BBlock& b, float* c,
                         int64_t rows, int64_t cols, int64_t kc, bool accumulate) {
  const bool in_parts = b_.mode == BMode::kGathered && problem_.m <= kFewRows;
  const int64_t num_parts = in_parts ? kc / kShortSum : 1;
  if (num_parts <= 1) return RunPart(a, a_m, a_k, b, c, rows, cols, kc, accumulate);
  const int64_t step = RoundDown(kNearFloats / TileRows(rows), kernel_->un);
  for (int64_t j = 0; j < cols; j += step) {
    const int64_t width = std::min(step, cols - j);
    for (int64_t part = 0; part < num_parts; ++part) {
      const Span k = KSlice(kc, part, num_parts);
      const float* a_part = a + k.begin * a_k;
      const float* b_part = b.data + j / ks_.panel() * b.b_n + k.begin * b.b_k;
      const int64_t depth = k.end - k.begin;
      // Given C to accumulate in, a micro-kernel would go on from what it holds.
      const int status =
          part == 0 ? RunPart(a_part, a_m, a_k, {b_part, b.b_n, b.b_k}, c + j, rows, width, depth,
                              accumulate)
                    : RunRagged(a_part, a_m, a_k, b_part, b, c + j, rows, width, depth, true);
      if (status != 0) return status;
    }
  }
  return 0;
}

int RegionWalk::RunPart(const float* a, int64_t a_m, int64_t a_k, const BBlock& b, float* c,
                        int64_t rows, int64_t cols, int64_t kc, bool accumulate) {
  const int64_t um = kernel_->um, un = kernel_->un;
  const int64_t whole_rows = rows / um * um, whole_cols = cols / un * un;
  int status = 0;
  if (whole_rows > 0 && whole_cols > 0) {
    status = RunWhole(a, a_m, a_k, b, c, whole_rows, whole_cols, kc, accumulate);
  }
  if (status == 0 && whole_cols < cols) {
    const int64_t steps = is_dot() ? whole_cols : whole_cols / ks_.panel();
    status = RunRagged(a, a_m, a_k, b.data + steps * b.b_n, b, c + whole_cols, rows,
                       cols - whole_cols, kc, accumulate);
  }
  if (status == 0 && whole_rows < rows && whole_cols > 0) {
    // One tile of rows, all whole columns at a time as scratch allows.
    const int64_t step = RoundDown(kScratchC / um, un);
    for (int64_t j = 0; j < whole_cols && status == 0; j += step) {
      const int64_t offset = is_dot() ? j : j / ks_.panel();
      status = RunRagged(a + whole_rows * a_m, a_m, a_k, b.data + offset * b.b_n, b,
                         c + whole_rows * c_.ld + j, rows - whole_rows,
                         std::min(step, whole_cols - j), kc, accumulate);
    }
  }
  return status;
}

int RegionWalk::RunWhole(const float* a, int64_t a_m, int64_t a_k, const BBlock& b, float* c,
                         int64_t rows, int64_t cols, int64_t kc, bool accumulate) {
  const auto run = [&](const KernelCode& code, int64_t i, int64_t num_rows, int64_t j,
                       int64_t num_cols) {
    if (num_rows == 0 || num_cols == 0) return 0;
    const int64_t steps = is_dot() ? j : j / ks_.panel();
    return call_->Run(code, kernel_->family, num_rows, num_cols, kc, a + i * a_m, a_m, a_k,
                      b.data + steps * b.b_n, b.b_n, b.b_k, ks_.panel(), c + i * c_.ld + j, c_.ld,
                      accumulate);
  };
  const int64_t um = kernel_->um, un = kernel_->un;
  if (!far_panels_) {
    // The first column of tiles finds rows of A in memory, the others in cache.
    const int64_t first = far_rows_ ? un : 0;
    const int status = run(kernel_->far_rows_code, 0, rows, 0, first);
    return status != 0 ? status : run(kernel_->code, 0, rows, first, cols - first);
  }
  if (rows == um) return run(kernel_->far_panels_code, 0, rows, 0, cols);
  for (int64_t j = 0; j < cols; j += un) {
    const bool far_rows = far_rows_ && j == 0;
    int status = run(kernel_->far_panels_code, 0, um, j, un);
    if (status != 0) return status;
    status = run(far_rows ? kernel_->far_rows_code : kernel_->code, um, rows - um, j, un);
    if (status != 0) return status;
  }
  return 0;
}

int RegionWalk::RunRagged(const float* a, int64_t a_m, int64_t a_k, const float* b,
                          const BBlock& strides, float* c, int64_t rows, int64_t cols, int64_t kc,
                          bool accumulate) {
  const int64_t tile_cols = TileCols(cols);
  const int64_t step = RoundDown(kScratchC / tile_cols, kernel_->um);
  const bool far_panels = far_panels_ && rows <= kernel_->um;
  const KernelCode& code = far_panels  ? kernel_->far_panels_code
                           : far_rows_ ? kernel_->far_rows_code
                                       : kernel_->code;
  for (int64_t i = 0; i < rows; i += step) {
    const int64_t part = std::min(step, rows - i);
    const int status =
        call_->Run(code, kernel_->family, TileRows(part), tile_cols, kc, a + i * a_m, a_m, a_k, b,
                   strides.b_n, strides.b_k, ks_.panel(), scratch_->c(), tile_cols, false);
    if (status != 0) return status;
    CopyTile(scratch_->c(), tile_cols, part, cols, accumulate, c + i * c_.ld, c_.ld);
  }
  return 0;
}

}  // namespace moonpoly
