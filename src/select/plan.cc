/*!
 * \file select/plan.cc
 */
#include "select/plan.h"

#include <algorithm>

namespace moonpoly {

int64_t Region::tasks(const KernelSetObj& ks) const {
  const MicroKernel& k = ks.kernel(kernel);
  return CeilDiv(m1 - m0, k.um) * CeilDiv(n1 - n0, k.un);
}

int64_t Region::waves(const KernelSetObj& ks) const {
  const MicroKernel& k = ks.kernel(kernel);
  return CeilDiv(CeilDiv(m1 - m0, k.um), row_threads) *
         CeilDiv(CeilDiv(n1 - n0, k.un), col_threads);
}

Span KSlice(int64_t k, int64_t index, int64_t count) {
  if (count == 1) return {0, k};
  const Span steps = Share(CeilDiv(k, kSliceStep), index, count);
  return {std::min(k, steps.begin * kSliceStep), std::min(k, steps.end * kSliceStep)};
}

}  // namespace moonpoly
