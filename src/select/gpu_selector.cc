/*!
 * \file select/gpu_selector.cc
 */
#include "select/gpu_selector.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "select/plan.h"

namespace moonpoly {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// What a kernel gains by being faster than the memory: it breaks ties.
constexpr float kWaiting = 0.05f;
constexpr int32_t kMaxCluster = 8, kMaxSlices = 64;

class GpuSearch {
 public:
  GpuSearch(const GpuKernelSetObj& ks, const GpuProblem& problem, CostModel model,
            std::vector<GpuPlan>* all)
      : ks_(ks),
        machine_(ks.manifest().machine),
        problem_(problem),
        model_(model),
        all_(all),
        step_(ks.manifest().types.step()),
        steps_((problem.k + step_ - 1) / step_),
        depth_(Locate(1)),
        least_us_(machine_.launch_us + StreamUs(problem.m, problem.n)) {}

  GpuPlan Run() {
    best_ = EmptyPlan();
    if (problem_.m == 0 || problem_.n == 0 || problem_.k == 0) {
      if (all_ != nullptr) all_->push_back(best_);
      return best_;
    }
    best_us_ = kInfinity;
    for (int32_t i = 0; i < ks_.num_kernels(); ++i) TryWhole(i);
    if (best_us_ == kInfinity) {
      TVM_FFI_THROW(ValueError) << "no micro-kernel of " << ks_.manifest().target << " "
                                << ks_.manifest().dtype << " can serve layout "
                                << GpuLayoutName(problem_.layout) << ", which needs kernels of "
                                << GpuLoadsName(problem_.access) << " loads or more general ones";
    }
    if (model_ == CostModel::kFull) TryCuts();
    return best_;
  }

 private:
  // Fewer waves leave a cut nothing to begin with; of more, the last one matters little.
  static constexpr float kMostWaves = 12.0f;
  static constexpr int32_t kMaxStarts = 3;

  /*! \brief A kernel for the larger region of a cut, with the least that such a plan could cost. */
  struct Start {
    float bound_us = kInfinity;
    int32_t kernel = -1;
  };

  GpuPlan EmptyPlan() const {
    GpuPlan plan{};
    plan.problem = problem_;
    plan.pattern = GpuPattern::kI;
    return plan;
  }

  GpuCostGrid::Depth Locate(int32_t parts) const {
    const int64_t steps = (steps_ + parts - 1) / parts;
    return ks_.manifest().grid.LocateK(static_cast<float>(steps * step_));
  }

  float RegionUs(const GpuKernelSpec& kernel, const GpuTiling& tiling, int64_t rows, int64_t cols,
                 GpuSplit split) const {
    const GpuCostGrid& grid = ks_.manifest().grid;
    const float* table = kernel.us.data();
    const GpuCostGrid::Depth depth = split.blocks() == 1 ? depth_ : Locate(split.blocks());
    if (model_ == CostModel::kWavesOnly) return std::ceil(tiling.waves);
    if (model_ == CostModel::kTaskOnly) {
      return grid.LaunchUs(table, depth, 1.0f / static_cast<float>(kernel.slots),
                           machine_.launch_us);
    }
    float us = grid.LaunchUs(table, depth, tiling.waves, machine_.launch_us);
    const bool all = rows == problem_.m && cols == problem_.n;
    const float least_us = all ? least_us_ : machine_.launch_us + StreamUs(rows, cols);
    // Of kernels that all wait for memory, those that need less time otherwise wait less.
    if (us < least_us) us = least_us + kWaiting * (us - least_us);
    return split.blocks() == 1 ? us : us + AddUpUs(kernel, split);
  }

  static float AddUpUs(const GpuKernelSpec& kernel, GpuSplit split) {
    const GpuSplitCost& cost = kernel.split_cost;
    const float cluster_us = cost.cluster_us[ClusterIndex(split.cluster)];
    if (split.slices == 1) return cluster_us;
    return cluster_us + cost.slices_us + cost.slice_us * static_cast<float>(split.slices);
  }

  // Each operand moved once: within the cache, and what does not fit there from memory.
  float StreamUs(int64_t rows, int64_t cols) const {
    const float m = static_cast<float>(rows), n = static_cast<float>(cols);
    const float k = static_cast<float>(problem_.k);
    const GpuTypes& types = ks_.manifest().types;
    const float bytes = static_cast<float>(types.item_bytes()) * (m * k + k * n) +
                        static_cast<float>(types.output_bytes()) * m * n;
    const float beyond = std::max(0.0f, bytes - machine_.l2_bytes);
    return 1e-3f * std::max(bytes / machine_.l2_gbs, beyond / machine_.dram_gbs);
  }

  void TryWhole(int32_t index) {
    const GpuKernelSpec& kernel = ks_.kernel(index);
    if (!CanServe(kernel, problem_)) return;
    const GpuTiling tiling = TilingOf(kernel, problem_.m, problem_.n, kWholeReduction);
    const float us = RegionUs(kernel, tiling, problem_.m, problem_.n, kWholeReduction);
    least_task_us_ = std::min(least_task_us_, ks_.manifest().grid.TaskUs(kernel.us.data(), depth_));
    OfferWhole(index, kWholeReduction, us);
    if (kernel.split) TrySplits(index, tiling.tiles);
    if (tiling.waves <= 1.0f || tiling.waves > kMostWaves) return;
    AddStart(index, us * std::floor(tiling.waves) / std::ceil(tiling.waves));
  }

  // Slices as many as just fill the GPU, and a half and a quarter of them: fewer leave it idle,
  // more add up for nothing.
  void TrySplits(int32_t index, int64_t tiles) {
    const GpuKernelSpec& kernel = ks_.kernel(index);
    for (int32_t cluster = 1; cluster <= kMaxCluster && cluster <= steps_; cluster *= 2) {
      const int64_t slots = kernel.split_slots[ClusterIndex(cluster)];
      const int64_t parts = kernel.loads == GpuLoads::kGemv ? 1 : kMaxSlices;
      const int64_t most = std::min<int64_t>({slots / tiles, steps_ / cluster, parts});
      if (most == 0 && tiles > 2 * slots) break;
      int64_t before = 0;
      for (int64_t slices : {most, most / 2, most / 4, int64_t{1}}) {
        slices = std::max<int64_t>(slices, 1);
        if (slices == before) continue;
        before = slices;
        const GpuSplit split{cluster, static_cast<int32_t>(slices)};
        if (split.blocks() == 1) continue;
        // One slice is little of what fits: only as a plan to compare with.
        if (all_ == nullptr && 4 * slices < most) continue;
        const GpuTiling tiling = TilingOf(kernel, problem_.m, problem_.n, split);
        OfferWhole(index, split, RegionUs(kernel, tiling, problem_.m, problem_.n, split));
      }
    }
  }

  void OfferWhole(int32_t index, GpuSplit split, float us) {
    if (all_ == nullptr && us >= best_us_) return;
    GpuPlan plan = EmptyPlan();
    plan.pattern = split.blocks() > 1 ? GpuPattern::kK : GpuPattern::kI;
    plan.num_regions = 1;
    plan.regions[0] = {0, problem_.m, 0, problem_.n, index, split, us};
    Offer(&plan, us);
  }

  void AddStart(int32_t kernel, float bound_us) {
    Start* worst =
        std::max_element(starts_.begin(), starts_.end(),
                         [](const Start& a, const Start& b) { return a.bound_us < b.bound_us; });
    if (bound_us < worst->bound_us) *worst = {bound_us, kernel};
  }

  void TryCuts() {
    if (all_ != nullptr) {
      for (int32_t i = 0; i < ks_.num_kernels(); ++i) {
        if (CanServe(ks_.kernel(i), problem_)) TryCutsOf(i);
      }
      return;
    }
    const float whole_us = best_us_;
    for (const Start& start : starts_) {
      if (start.bound_us < whole_us) TryCutsOf(start.kernel);
    }
  }

  // The larger region takes the whole waves of its kernel, or as near as its rows or columns come.
  void TryCutsOf(int32_t index) {
    const GpuKernelSpec& kernel = ks_.kernel(index);
    const int64_t step_m = int64_t{kernel.um} * kernel.cluster_m;
    const int64_t step_n = int64_t{kernel.un} * kernel.cluster_n;
    const int64_t bands = CeilDiv(problem_.m, step_m), strips = CeilDiv(problem_.n, step_n);
    const int64_t whole = bands * strips / kernel.slots * kernel.slots;
    if (whole == 0 || whole == bands * strips) return;
    const int64_t m = whole / strips * step_m, n = whole / bands * step_n;
    if (0 < m && m < problem_.m) {
      TryPair(GpuPattern::kII, {0, m, 0, problem_.n, index, kWholeReduction, 0.0f},
              {m, problem_.m, 0, problem_.n, -1, kWholeReduction, 0.0f});
    }
    if (0 < n && n < problem_.n) {
      TryPair(GpuPattern::kIII, {0, problem_.m, 0, n, index, kWholeReduction, 0.0f},
              {0, problem_.m, n, problem_.n, -1, kWholeReduction, 0.0f});
    }
  }

  void TryPair(GpuPattern pattern, GpuRegion main, GpuRegion rest) {
    const GpuKernelSpec& kernel = ks_.kernel(main.kernel);
    main.us = RegionUs(kernel, TilingOf(kernel, main.rows(), main.cols(), main.split), main.rows(),
                       main.cols(), main.split);
    // What lies between two launches is hidden in part where they may overlap.
    const float saved_us = problem_.overlap ? machine_.overlap_us : 0.0f;
    if (all_ == nullptr && main.us + least_task_us_ - saved_us >= best_us_) return;
    rest.us = kInfinity;
    for (int32_t i = 0; i < ks_.num_kernels(); ++i) {
      const GpuKernelSpec& each = ks_.kernel(i);
      if (!CanServe(each, problem_)) continue;
      const GpuTiling tiling = TilingOf(each, rest.rows(), rest.cols(), rest.split);
      const float us = RegionUs(each, tiling, rest.rows(), rest.cols(), rest.split);
      if (us < rest.us) {
        rest.us = us;
        rest.kernel = i;
      }
    }
    if (rest.kernel < 0) return;
    GpuPlan plan = EmptyPlan();
    plan.pattern = pattern;
    plan.num_regions = 2;
    plan.regions = {main, rest};
    Offer(&plan, main.us + rest.us - saved_us);
  }

  void Offer(GpuPlan* plan, float us) {
    plan->overlap = problem_.overlap && us < machine_.overlap_limit_us;
    plan->predicted_us = plan->overlap ? us - machine_.overlap_us : us;
    if (all_ != nullptr) all_->push_back(*plan);
    if (us < best_us_) {
      best_us_ = us;
      best_ = *plan;
    }
  }

  const GpuKernelSetObj& ks_;
  const GpuMachine& machine_;
  const GpuProblem& problem_;
  const CostModel model_;
  std::vector<GpuPlan>* all_;
  /*! \brief Elements of k that kernels take at a time. */
  const int64_t step_;
  /*! \brief Steps of the reduction, and where all of them lie on the k axis. */
  const int64_t steps_;
  const GpuCostGrid::Depth depth_;
  /*! \brief Of any plan of one region: launching, and moving the operands. */
  const float least_us_;
  /*! \brief Of any launch that leaves the GPU nearly idle. */
  float least_task_us_ = kInfinity;
  std::array<Start, kMaxStarts> starts_;
  GpuPlan best_;
  float best_us_ = 0.0f;
};

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

GpuPlan SelectGpuPlan(const GpuKernelSetObj& ks, const GpuProblem& problem, CostModel model) {
  return GpuSearch(ks, problem, model, nullptr).Run();
}

const GpuPlan& CachedGpuPlan(const GpuKernelSetObj& ks, const GpuProblem& problem) {
  static thread_local const auto entries = std::make_unique<std::array<Entry, kEntries>>();
  Entry& entry = (*entries)[Slot(ks.id(), problem)];
  if (entry.set_id != ks.id() || !(entry.plan.problem == problem)) {
    entry.plan = SelectGpuPlan(ks, problem);
    entry.set_id = ks.id();
  }
  return entry.plan;
}

std::vector<GpuPlan> EnumerateGpuPlans(const GpuKernelSetObj& ks, const GpuProblem& problem) {
  std::vector<GpuPlan> all;
  GpuSearch(ks, problem, CostModel::kFull, &all).Run();
  return all;
}

}  // namespace moonpoly
