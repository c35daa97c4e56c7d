/*!
 * \file select/gpu_correction.h
 * \brief What a launch takes more or less than its kernel's cost table says.
 *
 * A table knows of k and the load. A launch also depends on how full its tiles are, how the rows of
 * A, B and C lie, how much is moved and fetched again, and on what runs beside it where launches
 * overlap. Each kernel has a weight for each of a number of terms, most of them functions that are
 * linear between points; the weighted terms add up to the logarithm of measured over predicted
 * time. Logarithms here are those that are linear between powers of two: they need no more than the
 * bits of a number, and the weights are fitted to them.
 */
#ifndef MOONPOLY_SELECT_GPU_CORRECTION_H_
#define MOONPOLY_SELECT_GPU_CORRECTION_H_

#include <array>

#include "artifact/gpu_kernel_set.h"
#include "select/gpu_plan.h"

namespace moonpoly {

/*! \brief What the terms of all launches for a product have in common. */
struct GpuProductTerms {
  GpuProductTerms(const GpuKernelSetObj& ks, const GpuProblem& problem);

  /*! \brief Extents, and steps of the whole reduction. */
  float m, n, k, steps;
  /*! \brief Of an item of A or B, in megabytes. */
  float item_mb;
  /*! \brief Base-2 logarithms of the megabytes that are moved at least, and of k. */
  float megabytes, depth;
  /*! \brief One over the multiprocessors. */
  float inverse_sms;
  /*! \brief See RowsOf and NarrowOf. */
  int32_t rows, narrow;
};

/*! \brief A launch for the whole output, and what its terms are made of. */
class GpuLaunchTerms {
 public:
  /*!
   * \param product Must outlive this.
   * \param us What the launch takes by its kernel's table, launches not overlapping.
   */
  GpuLaunchTerms(const GpuProductTerms& product, const GpuKernelSpec& kernel,
                 const GpuTiling& tiling, GpuSplit split, float us);

  /*! \brief Corrected microseconds, of launches that don't overlap and of such that do. */
  struct Ways {
    float apart_us, overlapping_us;
  };
  Ways Correct(const std::vector<float>& weights) const;

  /*! \brief All terms, for fitting; those of overlapping are 0 unless `overlap`. */
  std::array<float, kGpuCorrectionTerms> Dense(bool overlap) const;

 private:
  template <typename Add>
  void Visit(Add&& add) const;
  template <typename Add>
  void VisitOverlap(Add&& add) const;

  const GpuProductTerms& product_;
  // Base-2 logarithms.
  float us_, part_steps_, load_, fill_m_, fill_n_, fetched_, aspect_, slices_;
  /*! \brief Blocks in units of multiprocessors. */
  float share_;
  int32_t cluster_;
};

}  // namespace moonpoly

#endif  // MOONPOLY_SELECT_GPU_CORRECTION_H_
