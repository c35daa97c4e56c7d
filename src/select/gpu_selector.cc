/*!
 * \file select/gpu_selector.cc
 */
#include "select/gpu_selector.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "select/gpu_region_cost.h"
#include "select/gpu_shortlist.h"
#include "select/plan.h"

namespace moonpoly {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int32_t kMaxCluster = 8, kMaxSlices = 64;
// Two launches must be predicted to be so much faster than one. Of the many pairs that are tried,
// the one with the least prediction owes it to an error in part: of 221 shapes measured on an H200
// two launches were the fastest plan at 7, and were chosen, wrongly, at more.
constexpr float kPairWeight = 1.1f;

class GpuSearch {
 public:
  GpuSearch(const GpuKernelSetObj& ks, const GpuProblem& problem, CostModel model,
            std::vector<GpuPlan>* all)
      : ks_(ks),
        machine_(ks.manifest().machine),
        problem_(problem),
        model_(model),
        all_(all),
        serving_(ks.serving().Of(problem.operands())),
        cost_(ks, problem, model),
        shortlist_(ks, problem, model) {}

  GpuPlan Run(int32_t most_regions = kMaxGpuRegions) {
    best_ = EmptyPlan();
    if (problem_.m == 0 || problem_.n == 0 || problem_.k == 0) {
      if (all_ != nullptr) all_->push_back(best_);
      return best_;
    }
    for (const int32_t kernel : serving_) TryWhole(kernel);
    for (const int32_t kernel : serving_) TrySplits(kernel);
    if (shortlist_.least_us() == kInfinity) {
      TVM_FFI_THROW(ValueError) << "no micro-kernel of " << ks_.manifest().target << " "
                                << ks_.manifest().dtype << " can serve layout "
                                << GpuLayoutName(problem_.layout) << ", which needs kernels of "
                                << GpuLoadsName(problem_.access) << " loads or more general ones";
    }
    ChooseWhole();
    if (model_ == CostModel::kFull && most_regions > 1) TryCuts();
    return best_;
  }

 private:
  // Fewer waves leave a cut nothing to begin with; of more, the last one matters little.
  static constexpr float kMostWaves = 12.0f;
  // More tiles than give each this many multiprocessors are not shared: of 6,000 recorded launches
  // none that did was the fastest by more than a little, and all of them made 0.05 % in the mean.
  static constexpr int32_t kFewestParts = 2;
  // Slices of fewer steps take longer to be added up than to be multiplied.
  static constexpr int32_t kFewestDirectSteps = 4;

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

  void TryWhole(int32_t index) {
    const float least_us = cost_.LeastUs(index), item_us = cost_.LeastItemUs(index);
    least_task_us_ = std::min(least_task_us_, least_us);
    least_item_us_ = std::min(least_item_us_, item_us);
    const float worst_us = all_ == nullptr ? shortlist_.worst_us() : kInfinity;
    if (least_us >= worst_us) return;
    const GpuKernelBound& bound = ks_.manifest().bounds[index];
    const float line_us = cost_.LeastLineUs(bound);
    // Full tiles alone take so long, what there are of them more.
    const float full_us = cost_.items() * std::max(item_us, line_us * bound.lines_per_item);
    if (cost_.launch_us() + full_us >= worst_us) return;
    const int32_t bands = CeilDiv32(problem_.m, bound.group_m);
    const int32_t strips = CeilDiv32(problem_.n, bound.group_n);
    if (LeastTiledUs(bound, item_us, bands, strips) >= worst_us) return;
    const GpuKernelSpec& kernel = ks_.kernel(index);
    const GpuTiling tiling = TilingOfBands(kernel, bands, strips, kWholeReduction);
    const float us = cost_.RegionUs(kernel, tiling, problem_.m, problem_.n, kWholeReduction);
    OfferWhole(us, index, kWholeReduction, tiling);
    if (tiling.waves <= 1.0f || tiling.waves > kMostWaves) return;
    const float full = static_cast<float>(static_cast<int32_t>(tiling.waves));
    if (full < tiling.waves) AddStart({us * full / (full + 1.0f), index});
  }

  /*! \brief No launch of so many rows of tiles, each so many tiles, takes less. */
  float LeastTiledUs(const GpuKernelBound& bound, float item_us, int32_t bands,
                     int32_t strips) const {
    const float down = static_cast<float>(bands), across = static_cast<float>(strips);
    const float lines =
        down * static_cast<float>(problem_.n) + across * static_cast<float>(problem_.m);
    const float line_us = cost_.LeastLineUs(bound);
    return cost_.launch_us() +
           std::max(item_us * down * across * bound.group_items, line_us * lines);
  }

  // Slices as many as just fill the GPU, and a half and a quarter of them: fewer leave it idle,
  // more add up for nothing. Tiles that fill it by themselves are not shared. Kernels that load
  // straight into registers are for reductions that a cluster may be enough for.
  void TrySplits(int32_t index) {
    const GpuKernelBound& bound = ks_.manifest().bounds[index];
    if (!bound.split) return;
    const float most_tiles = static_cast<float>(machine_.num_sms / kFewestParts);
    if (all_ == nullptr && cost_.items() > most_tiles * bound.group_items) return;
    const int32_t bands = CeilDiv32(problem_.m, bound.group_m);
    const int32_t strips = CeilDiv32(problem_.n, bound.group_n);
    const int64_t all_tiles = int64_t{bands} * strips;
    if (all_ == nullptr && all_tiles > machine_.num_sms / kFewestParts) return;
    // Sharing a reduction makes no item take less of the GPU.
    if (all_ == nullptr &&
        LeastTiledUs(bound, cost_.LeastItemUs(index), bands, strips) >= shortlist_.worst_us()) {
      return;
    }
    const GpuKernelSpec& kernel = ks_.kernel(index);
    const bool direct = kernel.loads == GpuLoads::kDirect || kernel.loads == GpuLoads::kGemv;
    const int32_t limit = kernel.slices ? kMaxSlices : 1;
    const int32_t steps = direct ? cost_.steps() / kFewestDirectSteps : cost_.steps();
    for (int32_t cluster = kernel.slices ? 1 : 2;
         cluster <= kMaxCluster && cluster <= cost_.steps(); cluster *= 2) {
      const int32_t slots = kernel.split_slots[ClusterIndex(cluster)];
      if (all_tiles > slots) return;
      const int32_t tiles = static_cast<int32_t>(all_tiles);
      const int32_t most = std::max(1, std::min({slots / tiles, steps / cluster, limit}));
      const float least_us = cost_.LeastSplitUs(kernel, cluster, most);
      if (all_ == nullptr && least_us >= shortlist_.worst_us()) continue;
      int32_t before = 0;
      for (int32_t slices : {most, most / 2, most / 4, 1}) {
        slices = std::max(slices, 1);
        if (slices == before) continue;
        before = slices;
        const GpuSplit split{cluster, slices};
        if (split.blocks() == 1) continue;
        // One slice is little of what fits: only as a plan to compare with.
        if (all_ == nullptr && !direct && 4 * slices < most) continue;
        const GpuCostGrid::Depth depth = cost_.DepthOf(split);
        if (all_ == nullptr && cost_.LeastUs(kernel, split, depth) >= shortlist_.worst_us()) {
          continue;
        }
        const GpuTiling tiling = TilingOfBands(kernel, bands, strips, split);
        const float us = cost_.RegionUs(kernel, tiling, problem_.m, problem_.n, split, depth);
        OfferWhole(us, index, split, tiling);
      }
    }
  }

  void OfferWhole(float us, int32_t kernel, GpuSplit split, const GpuTiling& tiling) {
    if (all_ == nullptr && us >= shortlist_.worst_us()) return;
    const GpuWhole whole{us, kernel, split, tiling};
    shortlist_.Offer(whole);
    if (all_ == nullptr) return;
    all_->push_back(shortlist_.PlanOf(whole, false));
    if (shortlist_.MayOverlap(whole.us)) all_->push_back(shortlist_.PlanOf(whole, true));
  }

  // Two launches have to beat the chosen one, and any one by the tables, which is all that is known
  // of them.
  void ChooseWhole() {
    best_ = shortlist_.Choose();
    const float hidden_us = best_.overlap ? machine_.overlap_us : 0.0f;
    best_us_ = std::min(shortlist_.least_us(), best_.predicted_us + hidden_us);
  }

  void AddStart(const Start& start) {
    if (start.bound_us >= starts_[1].bound_us) return;
    starts_[1] = start;
    if (start.bound_us < starts_[0].bound_us) std::swap(starts_[0], starts_[1]);
  }

  void TryCuts() {
    if (all_ != nullptr) {
      for (const int32_t kernel : serving_) TryCutsOf(kernel);
      return;
    }
    const float whole_us = best_us_;
    for (const Start& start : starts_) {
      if (kPairWeight * start.bound_us < whole_us) TryCutsOf(start.kernel);
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
    main.us = cost_.RegionUs(kernel, TilingOf(kernel, main.rows(), main.cols(), main.split),
                             main.rows(), main.cols(), main.split);
    // What lies between two launches is hidden in part where they may overlap.
    const float saved_us = problem_.overlap ? machine_.overlap_us : 0.0f;
    const float items = static_cast<float>(rest.rows() * rest.cols());
    const float least_rest_us =
        std::max(least_task_us_, cost_.launch_us() + items * least_item_us_);
    if (all_ == nullptr && kPairWeight * (main.us + least_rest_us - saved_us) >= best_us_) return;
    rest.us = kInfinity;
    // What the second launch may take at most, with something for rounding.
    const float most_us =
        all_ == nullptr ? 1.0001f * best_us_ / kPairWeight + saved_us - main.us : kInfinity;
    for (const int32_t i : serving_) {
      const float limit_us = std::min(rest.us, most_us);
      if (cost_.LeastUs(i) >= limit_us) continue;
      if (cost_.launch_us() + items * cost_.LeastItemUs(i) >= limit_us) continue;
      const GpuKernelSpec& each = ks_.kernel(i);
      const GpuTiling tiling = TilingOf(each, rest.rows(), rest.cols(), rest.split);
      const float us = cost_.RegionUs(each, tiling, rest.rows(), rest.cols(), rest.split);
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
    Offer(&plan, main.us + rest.us - saved_us, kPairWeight);
  }

  void Offer(GpuPlan* plan, float us, float weight) {
    plan->overlap = shortlist_.MayOverlap(us);
    plan->predicted_us = plan->overlap ? us - machine_.overlap_us : us;
    if (all_ != nullptr) OfferBothWays(*plan, us);
    if (weight * us < best_us_) {
      best_us_ = weight * us;
      best_ = *plan;
    }
  }

  void OfferBothWays(const GpuPlan& plan, float apart_us) {
    all_->push_back(plan);
    if (!plan.overlap) return;
    all_->push_back(plan);
    all_->back().overlap = false;
    all_->back().predicted_us = apart_us;
  }

  const GpuKernelSetObj& ks_;
  const GpuMachine& machine_;
  const GpuProblem& problem_;
  const CostModel model_;
  std::vector<GpuPlan>* all_;
  /*! \brief The kernels that take part. */
  const std::vector<int32_t>& serving_;
  const GpuRegionCost cost_;
  /*! \brief Of any launch that leaves the GPU nearly idle. */
  float least_task_us_ = kInfinity;
  /*! \brief Of any launch, for each item of C beyond launching. */
  float least_item_us_ = kInfinity;
  /*! \brief The two least, in order: a third would change next to no plan. */
  std::array<Start, 2> starts_;
  GpuPlan best_;
  /*! \brief What the best plan is predicted to take, weighed; before launches overlap. */
  float best_us_ = kInfinity;
  /*! \brief Of the plans of one region. */
  GpuShortlist shortlist_;
};

}  // namespace

GpuPlan SelectGpuPlan(const GpuKernelSetObj& ks, const GpuProblem& problem, CostModel model) {
  return GpuSearch(ks, problem, model, nullptr).Run();
}

std::vector<GpuPlan> EnumerateGpuPlans(const GpuKernelSetObj& ks, const GpuProblem& problem,
                                       int32_t most_regions) {
  std::vector<GpuPlan> all;
  GpuSearch(ks, problem, CostModel::kFull, &all).Run(most_regions);
  return all;
}

}  // namespace moonpoly
