/*!
 * \file select/gpu_shortlist.cc
 */
#include "select/gpu_shortlist.h"

namespace moonpoly {

namespace {

// Tables know little of how unaligned rows slow a kernel that loads a few bytes at a time, and
// nothing of tiles of which a single row or column is used.
bool IsUncertain(const GpuProblem& problem) {
  return problem.access > GpuLoads::kAsync || problem.m == 1 || problem.n == 1;
}

}  // namespace

GpuShortlist::GpuShortlist(const GpuKernelSetObj& ks, const GpuProblem& problem, CostModel model)
    : ks_(ks),
      problem_(problem),
      model_(model),
      terms_(ks, problem),
      size_(model != CostModel::kFull || !ks.corrected() ? 1
            : IsUncertain(problem)                       ? kMost
                                                         : kMostCertain),
      farthest_(IsUncertain(problem) ? kFarthest : kFarthestCertain) {}

void GpuShortlist::Offer(const GpuWhole& whole) {
  if (whole.us >= worst_us()) return;
  int32_t i = size_ - 1;
  for (; i > 0 && wholes_[i - 1].us > whole.us; --i) wholes_[i] = wholes_[i - 1];
  wholes_[i] = whole;
}

GpuLaunchTerms::Ways GpuShortlist::Correct(const GpuWhole& whole) const {
  const GpuKernelSpec& kernel = ks_.kernel(whole.kernel);
  if (model_ != CostModel::kFull || kernel.correction.empty()) {
    return {whole.us, whole.us - ks_.manifest().machine.overlap_us};
  }
  return GpuLaunchTerms(terms_, kernel, whole.tiling, whole.split, whole.us)
      .Correct(kernel.correction);
}

GpuPlan GpuShortlist::Choose() const {
  const GpuWhole* best = nullptr;
  bool best_overlaps = false;
  float best_us = std::numeric_limits<float>::infinity();
  for (const GpuWhole& whole : wholes_) {
    // The cheapest is looked at even where costs are so wrong that it takes less than nothing.
    if (whole.kernel < 0 || (best != nullptr && whole.us > farthest_ * least_us())) break;
    const GpuLaunchTerms::Ways us = Correct(whole);
    const bool overlaps = MayOverlap(whole.us) && us.overlapping_us < us.apart_us;
    const float taken_us = overlaps ? us.overlapping_us : us.apart_us;
    if (taken_us >= best_us) continue;
    best_us = taken_us;
    best = &whole;
    best_overlaps = overlaps;
  }
  return PlanOf(*best, best_overlaps, best_us);
}

GpuPlan GpuShortlist::PlanOf(const GpuWhole& whole, bool overlap) const {
  const GpuLaunchTerms::Ways us = Correct(whole);
  return PlanOf(whole, overlap, overlap ? us.overlapping_us : us.apart_us);
}

GpuPlan GpuShortlist::PlanOf(const GpuWhole& whole, bool overlap, float us) const {
  GpuPlan plan{};
  plan.problem = problem_;
  plan.pattern = whole.split.blocks() > 1 ? GpuPattern::kK : GpuPattern::kI;
  plan.num_regions = 1;
  plan.overlap = overlap;
  plan.predicted_us = us;
  plan.regions[0] = {0, problem_.m, 0, problem_.n, whole.kernel, whole.split, whole.us};
  return plan;
}

}  // namespace moonpoly
