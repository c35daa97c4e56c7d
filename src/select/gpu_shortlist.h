/*!
 * \file select/gpu_shortlist.h
 * \brief The cheapest plans of one region, which are looked at once more.
 */
#ifndef MOONPOLY_SELECT_GPU_SHORTLIST_H_
#define MOONPOLY_SELECT_GPU_SHORTLIST_H_

#include <algorithm>
#include <array>
#include <limits>

#include "artifact/gpu_kernel_set.h"
#include "select/cost_model.h"
#include "select/gpu_correction.h"
#include "select/gpu_plan.h"

namespace moonpoly {

/*! \brief A launch for the whole output, and what its kernel's table says of it. */
struct GpuWhole {
  float us = std::numeric_limits<float>::infinity();
  int32_t kernel = -1;
  GpuSplit split;
  GpuTiling tiling;
};

class GpuShortlist {
 public:
  GpuShortlist(const GpuKernelSetObj& ks, const GpuProblem& problem, CostModel model);

  /*! \brief Launches that take as long by their tables need not be offered. */
  float worst_us() const { return std::min(wholes_[size_ - 1].us, farthest_ * wholes_[0].us); }
  /*! \brief By its table, of the cheapest. */
  float least_us() const { return wholes_[0].us; }

  void Offer(const GpuWhole& whole);

  /*! \brief The plan of least corrected cost, overlapping or not; nothing must be left to offer. */
  GpuPlan Choose() const;

  /*! \brief The plan of a launch, overlapping or not, with its corrected cost. */
  GpuPlan PlanOf(const GpuWhole& whole, bool overlap) const;

  bool MayOverlap(float us) const {
    return problem_.overlap && us < ks_.manifest().machine.overlap_limit_us;
  }

 private:
  // Of 5,023 recorded shapes that nothing was fitted to, the choice among so few reached 0.970 of
  // the fastest launch, among 4 0.969, and among 6 0.971.
  static constexpr int32_t kMostCertain = 5;
  static constexpr float kFarthestCertain = 1.2f;
  // Where tables know little. More are looked at there, of fewer kernels that can serve.
  static constexpr int32_t kMost = 8;
  static constexpr float kFarthest = 1.4f;

  GpuLaunchTerms::Ways Correct(const GpuWhole& whole) const;
  GpuPlan PlanOf(const GpuWhole& whole, bool overlap, float us) const;

  const GpuKernelSetObj& ks_;
  const GpuProblem& problem_;
  const CostModel model_;
  const GpuProductTerms terms_;
  /*! \brief How many are kept: nothing corrects the costs of other models and sets. */
  const int32_t size_;
  /*! \brief How many times the least a cost may be to be looked at once more. */
  const float farthest_;
  /*! \brief In order. */
  std::array<GpuWhole, kMost> wholes_;
};

}  // namespace moonpoly

#endif  // MOONPOLY_SELECT_GPU_SHORTLIST_H_
