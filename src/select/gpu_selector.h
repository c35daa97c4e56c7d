/*!
 * \file select/gpu_selector.h
 * \brief Choosing a plan for a GPU: which micro-kernel, one launch or two, how the reduction is
 * cut.
 */
#ifndef MOONPOLY_SELECT_GPU_SELECTOR_H_
#define MOONPOLY_SELECT_GPU_SELECTOR_H_

#include <vector>

#include "artifact/gpu_kernel_set.h"
#include "select/cost_model.h"
#include "select/gpu_plan.h"

namespace moonpoly {

/*!
 * \brief The plan of least predicted cost, which is
 *
 *   launch + waves x task cost        of each region, see GpuCostGrid,
 *   but no less than launch + bytes / bandwidth
 *
 * with the bandwidth of the second-level cache as long as the operands fit there, less what
 * overlapped launches hide. The cheapest few are looked at once more, with and without overlap: see
 * GpuLaunchTerms. Allocates nothing. Throws ValueError if no kernel of the set can serve
 * the problem.
 */
GpuPlan SelectGpuPlan(const GpuKernelSetObj& ks, const GpuProblem& problem,
                      CostModel model = CostModel::kFull);

/*! \brief The same, memoised in this thread; the reference holds until its next call. */
const GpuPlan& CachedGpuPlan(const GpuKernelSetObj& ks, const GpuProblem& problem);

/*!
 * \brief Every plan that is considered: each micro-kernel alone, and with the tiles of its last,
 *        broken wave given to the cheapest other one, cut off along either axis; where launches may
 *        overlap, with and without.
 * \param most_regions Plans of more are left out.
 */
std::vector<GpuPlan> EnumerateGpuPlans(const GpuKernelSetObj& ks, const GpuProblem& problem,
                                       int32_t most_regions = kMaxGpuRegions);

}  // namespace moonpoly

#endif  // MOONPOLY_SELECT_GPU_SELECTOR_H_
