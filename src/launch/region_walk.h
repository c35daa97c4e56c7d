/*!
 * \file launch/region_walk.h
 * \brief One thread's walk over its share of a region, block by block.
 */
#ifndef MOONPOLY_LAUNCH_REGION_WALK_H_
#define MOONPOLY_LAUNCH_REGION_WALK_H_

#include "artifact/micro_kernel.h"
#include "launch/epilogue.h"
#include "launch/operands.h"
#include "launch/scratch.h"
#include "select/plan.h"

namespace moonpoly {

/*! \brief A rectangle of C and a slice of the reduction. */
struct Block {
  Span rows;
  Span cols;
  Span k;
};

/*!
 * \brief Runs one micro-kernel over rectangles of one product, which is written to C or added to
 * it.
 *
 * Loops, outermost first: column blocks (nc), reduction slices (kc), row blocks (mc), and inside
 * the micro-kernel column tiles over row tiles. A slice of B is packed once for all rows; what a
 * micro-kernel can't touch without leaving the operands goes through zero-padded scratch.
 */
class RegionWalk {
 public:
  RegionWalk(const KernelSetObj& ks, const Problem& problem, const AOperand& a, const BOperand& b,
             const COperand& c, bool accumulate, KernelCall* call, Scratch* scratch);

  /*! \brief Compute `block` of C as `region` says; `epilogue` runs on what is finished.
   *  \return 0, or -1 with the error raised in this thread's FFI state. */
  int Run(const Region& region, const Block& block, EpilogueRunner* epilogue);

 private:
  struct BBlock {
    const float* data;
    int64_t b_n;
    int64_t b_k;
  };

  int RunColumns(const Block& block, bool pack_b, EpilogueRunner* epilogue);
  BBlock LoadB(int64_t n0, int64_t padded_cols, Span k, bool pack_b);
  int RunTiles(const float* a, int64_t a_m, int64_t a_k, const BBlock& b, float* c, int64_t rows,
               int64_t cols, int64_t kc, bool accumulate);
  int RunPart(const float* a, int64_t a_m, int64_t a_k, const BBlock& b, float* c, int64_t rows,
              int64_t cols, int64_t kc, bool accumulate);
  // Rows and columns in whole tiles.
  int RunWhole(const float* a, int64_t a_m, int64_t a_k, const BBlock& b, float* c, int64_t rows,
               int64_t cols, int64_t kc, bool accumulate);
  int RunRagged(const float* a, int64_t a_m, int64_t a_k, const float* b, const BBlock& strides,
                float* c, int64_t rows, int64_t cols, int64_t kc, bool accumulate);
  bool ShouldPackA(int64_t rows, int64_t cols, int64_t kc) const;
  // Whether so many rows of A are one piece of memory too large for the thread's own caches.
  bool RowsAreFar(int64_t rows, int64_t kc) const;
  // Whether so many columns of B are too much to stay in the thread's own caches.
  bool PanelsAreFar(int64_t cols, int64_t kc) const;

  int64_t TileCols(int64_t cols) const { return CeilDiv(cols, kernel_->un) * kernel_->un; }
  int64_t TileRows(int64_t rows) const { return CeilDiv(rows, kernel_->um) * kernel_->um; }
  bool is_dot() const { return kernel_->family == KernelFamily::kDot; }

  const KernelSetObj& ks_;
  const Problem& problem_;
  const AOperand& a_;
  const BOperand& b_;
  const COperand& c_;
  bool accumulate_;
  KernelCall* call_;
  Scratch* scratch_;
  const Region* region_ = nullptr;
  const MicroKernel* kernel_ = nullptr;
  bool far_rows_ = false;
  bool far_panels_ = false;
};

}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_REGION_WALK_H_
