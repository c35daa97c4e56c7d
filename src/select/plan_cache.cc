/*!
 * \file select/plan_cache.cc
 */
#include "select/plan_cache.h"

#include <array>
#include <memory>
#include <mutex>

#include "select/selector.h"

namespace moonpoly {

namespace {

/*! \brief A plan with the kernel set that it is for; 0 marks an empty entry. */
struct Entry {
  uint64_t set_id = 0;
  Plan plan;

  bool Matches(const KernelSetObj& ks, const Problem& problem) const {
    return set_id == ks.id() && plan.problem == problem;
  }
};

uint64_t Hash(const KernelSetObj& ks, const Problem& problem) {
  // Multiplying by odd constants spreads each field over the high bits, which are then folded.
  uint64_t hash = ks.id() * 0x9e3779b97f4a7c15ull;
  hash ^= static_cast<uint64_t>(problem.m) * 0xc2b2ae3d27d4eb4full;
  hash ^= static_cast<uint64_t>(problem.n) * 0x165667b19e3779f9ull;
  hash ^= static_cast<uint64_t>(problem.k) * 0xd6e8feb86659fd93ull;
  hash ^= static_cast<uint64_t>(problem.batch) * 0xa0761d6478bd642full;
  hash ^= (static_cast<uint64_t>(problem.b_mode) << 32 | static_cast<uint64_t>(problem.threads)) *
          0xe7037ed1a0b428dbull;
  hash ^= hash >> 32;
  return hash * 0x9fb21c651e98df25ull >> 20;
}

constexpr size_t kLocalEntries = 256;
constexpr size_t kShards = 16;
constexpr size_t kShardEntries = 256;

/*! \brief Direct-mapped: a newer problem takes the place of the one in its slot. */
struct Shard {
  std::mutex mutex;
  std::array<Entry, kShardEntries> entries;
};

Shard& ShardOf(uint64_t hash) {
  static std::array<Shard, kShards>& shards = *new std::array<Shard, kShards>;
  return shards[hash % kShards];
}

}  // namespace

const Plan& CachedPlan(const KernelSetObj& ks, const Problem& problem) {
  static thread_local const std::unique_ptr<std::array<Entry, kLocalEntries>> local =
      std::make_unique<std::array<Entry, kLocalEntries>>();
  const uint64_t hash = Hash(ks, problem);
  Entry& near = (*local)[hash % kLocalEntries];
  if (near.Matches(ks, problem)) return near.plan;

  Shard& shard = ShardOf(hash);
  Entry& far = shard.entries[hash / kShards % kShardEntries];
  {
    std::lock_guard<std::mutex> lock(shard.mutex);
    if (far.Matches(ks, problem)) {
      near = far;
      return near.plan;
    }
  }
  near.plan = SelectPlan(ks, problem);
  near.set_id = ks.id();
  std::lock_guard<std::mutex> lock(shard.mutex);
  far = near;
  return near.plan;
}

}  // namespace moonpoly
