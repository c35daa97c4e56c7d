/*!
 * \file select/plan_cache.h
 * \brief Plans memoised per problem: bounded memory, safe from many threads at once.
 */
#ifndef MOONPOLY_SELECT_PLAN_CACHE_H_
#define MOONPOLY_SELECT_PLAN_CACHE_H_

#include "artifact/kernel_set.h"
#include "select/plan.h"

namespace moonpoly {

/*!
 * \brief The plan for a problem: from this thread's own small table, else from the table that all
 *        threads share, else selected and put into both.
 *
 * The reference holds until this thread asks for its next plan.
 */
const Plan& CachedPlan(const KernelSetObj& ks, const Problem& problem);

}  // namespace moonpoly

#endif  // MOONPOLY_SELECT_PLAN_CACHE_H_
