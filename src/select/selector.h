/*!
 * \file select/selector.h
 * \brief Choosing a plan: which cuts, which micro-kernels, how many threads.
 */
#ifndef MOONPOLY_SELECT_SELECTOR_H_
#define MOONPOLY_SELECT_SELECTOR_H_

#include <vector>

#include "artifact/kernel_set.h"
#include "select/plan.h"
#include "select/region_cost.h"

namespace moonpoly {

/*! \brief The plan of least predicted cost. Allocates nothing. */
Plan SelectPlan(const KernelSetObj& ks, const Problem& problem, CostModel model = CostModel::kFull);

/*!
 * \brief Every plan that the search can make: each split of the threads, each micro-kernel for the
 *        main region, each cut; what remains beside the main region gets its cheapest kernel.
 */
std::vector<Plan> EnumeratePlans(const KernelSetObj& ks, const Problem& problem);

}  // namespace moonpoly

#endif  // MOONPOLY_SELECT_SELECTOR_H_
