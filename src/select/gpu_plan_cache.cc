/*!
 * \file select/gpu_plan_cache.cc
 * \brief Plans for a GPU, memoised in each thread.
 */
#include <array>
#include <memory>

#include "select/gpu_selector.h"

namespace moonpoly {

namespace {

/*! \brief A plan with the kernel set that it is for; 0 marks an empty entry. */
struct Entry {
  uint64_t set_id = 0;
  GpuPlan plan;
};

constexpr size_t kEntries = 256;

size_t Slot(uint64_t set_id, const GpuProblem& problem) {
  uint64_t hash = set_id * 0x9e3779b97f4a7c15ull;
  hash ^= static_cast<uint64_t>(problem.m) * 0xc2b2ae3d27d4eb4full;
  hash ^= static_cast<uint64_t>(problem.n) * 0x165667b19e3779f9ull;
  hash ^= static_cast<uint64_t>(problem.k) * 0xd6e8feb86659fd93ull;
  hash ^= static_cast<uint64_t>(problem.layout) * 4 + static_cast<uint64_t>(problem.access) * 16 +
          problem.overlap;
  hash ^= hash >> 32;
  return (hash * 0x9fb21c651e98df25ull >> 20) % kEntries;
}

}  // namespace

const GpuPlan& CachedGpuPlan(const GpuKernelSetObj& ks, const GpuProblem& problem) {
  static thread_local const auto entries = std::make_unique<std::array<Entry, kEntries>>();
  Entry& entry = (*entries)[Slot(ks.id(), problem)];
  if (entry.set_id != ks.id() || !(entry.plan.problem == problem)) {
    entry.plan = SelectGpuPlan(ks, problem);
    entry.set_id = ks.id();
  }
  return entry.plan;
}

}  // namespace moonpoly
