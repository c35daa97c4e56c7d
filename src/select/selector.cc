/*!
 * \file select/selector.cc
 * \brief Search over guillotine cuts, see Pattern.
 *
 * A candidate starts from a main kernel, which takes the whole tiles at the top left. The rows and
 * columns that remain are either padded up to the main kernel's tile, or cut off and given to the
 * kernels that suit them best. Every pair of a main kernel and a division of the threads gets a
 * lower bound; pairs are completed in the order of their bounds, until the next bound exceeds the
 * best plan found.
 */
#include "select/selector.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <limits>

namespace moonpoly {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Below this depth a slice of the reduction is not worth a thread.
constexpr int64_t kMinSliceDepth = 128;
// With so many rows for each slice the threads share out rows as well, and C is written once.
constexpr int64_t kMaxSliceRows = 256;
// Work of so many launches is shared out without asking whether one thread would do.
constexpr float kSurelyShared = 20.0f;
// From this size on the fastest kernels leave little over.
constexpr int64_t kLargeRows = 64, kLargeCols = 192;
// A kernel with a bound so many times the least one on one thread is not the best on several.
constexpr float kHopeless = 1.3f;
// What a line of C costs that two cores write, or that lies beside another core's: caches fetch
// such pairs together. Several are on their way at once.
constexpr float kSharedLineUs = 0.01f;
// Bounds kept, and how many of them are completed to plans, of those that cut the reduction as
// well: bounds of the two kinds are not near enough to the truth to be ranked together.
constexpr int32_t kMaxStarts = 256;
constexpr int32_t kMaxCompleted = 6, kMaxCutCompleted = 2;

/*! \brief Up to four cells with the pattern that they form. */
struct Candidate {
  Pattern pattern;
  int32_t count = 0;
  std::array<Cell, kMaxRegions> cells;

  void Add(const Cell& cell) { cells[count++] = cell; }
};

class Search {
 public:
  Search(const KernelSetObj& ks, const Problem& problem, CostModel model, std::vector<Plan>* all)
      : ks_(ks), problem_(problem), cost_(ks, problem, model), all_(all) {
    for (int32_t i = 0; i < ks.num_kernels(); ++i) {
      const bool dot = ks.kernel(i).family == KernelFamily::kDot;
      if (cost_.Usable(i)) (dot ? usable_dot_ : usable_outer_) |= uint64_t{1} << i;
    }
  }

  Plan Run() {
    if (problem_.batch == 0 || problem_.m == 0 || problem_.n == 0 || problem_.k == 0) {
      return EmptyPlan();
    }
    const bool exhaustive = all_ != nullptr;
    uint64_t promising = usable_outer_ | usable_dot_;
    if (promising == 0) {
      TVM_FFI_THROW(ValueError) << "the artifact has no micro-kernel that can read this layout of "
                                   "B; it needs one of family \"outer\"";
    }
    const bool large = problem_.m >= kLargeRows && problem_.n >= kLargeCols;
    if (!exhaustive && large) {
      const uint64_t bulk = ks_.BulkKernels(RowKindOf(problem_.n), problem_.k);
      if ((promising & bulk) != 0) promising &= bulk;
    }
    const float alone_us = AddStarts({1, 1, 1}, promising);
    if (!exhaustive) promising = Promising(alone_us);
    const int32_t threads = problem_.threads;
    const float launch_us = static_cast<float>(ks_.machine().launch_us);
    if (threads > 1 && (exhaustive || alone_us > launch_us)) {
      if (!exhaustive && alone_us > kSurelyShared * launch_us) num_starts_ = 0;
      for (int32_t b = 1; b <= threads; ++b) {
        if (threads % b != 0 || b > problem_.batch) continue;
        for (int32_t s = 1; s <= threads / b; ++s) {
          if ((threads / b) % s == 0 && CanCutReduction(s))
            AddStarts({b, s, threads / b / s}, promising);
        }
      }
    }
    CompleteStarts();
    cost_.SetSplit(best_split_);
    return ToPlan(best_, best_split_, best_us_);
  }

 private:
  /*! \brief A main kernel under a division of the threads. */
  struct Start {
    float bound_us;
    int32_t kernel;
    ThreadSplit split;
    ThreadGrid grid;
  };

  Plan EmptyPlan() {
    Plan plan;
    plan.problem = problem_;
    plan.pattern = Pattern::kI;
    plan.num_regions = 0;
    plan.batch_threads = plan.k_threads = plan.region_threads = 1;
    plan.predicted_us = 0.0f;
    return plan;
  }

  bool CanCutReduction(int32_t slices) const {
    if (slices == 1) return true;
    return problem_.batch == 1 && problem_.k / slices >= kMinSliceDepth &&
           problem_.m < kMaxSliceRows * slices &&
           (slices - 1) * problem_.m * problem_.n <= kMaxPartialFloats;
  }

  // Returns the least bound.
  float AddStarts(const ThreadSplit& split, uint64_t kernels) {
    cost_.SetSplit(split);
    float least = kInfinity;
    for (int32_t rows = 1; rows <= split.region_threads; ++rows) {
      if (split.region_threads % rows != 0) continue;
      const ThreadGrid grid{rows, split.region_threads / rows};
      for (uint64_t left = kernels; left != 0 && num_starts_ < kMaxStarts; left &= left - 1) {
        const int32_t i = __builtin_ctzll(left);
        const float shared_us = SharedLinesUs(problem_.m, grid.cols);
        const float bound =
            cost_.BoundUs(i, grid) + shared_us * static_cast<float>(cost_.batches());
        least = std::min(least, bound);
        starts_[num_starts_++] = {bound, i, split, grid};
        num_cut_starts_ += split.k_threads > 1 ? 1 : 0;
      }
    }
    return least;
  }

  // The kernels whose bound on one thread is not hopelessly above the least one.
  uint64_t Promising(float least_us) const {
    uint64_t out = 0;
    for (int32_t i = 0; i < num_starts_; ++i) {
      if (starts_[i].bound_us <= kHopeless * least_us) out |= uint64_t{1} << starts_[i].kernel;
    }
    return out;
  }

  void CompleteStarts() {
    const auto later = [](const Start& a, const Start& b) { return a.bound_us > b.bound_us; };
    least_us_ = kInfinity;
    for (int32_t i = 0; i < num_starts_; ++i) least_us_ = std::min(least_us_, starts_[i].bound_us);
    std::make_heap(starts_.begin(), starts_.begin() + num_starts_, later);
    int32_t left = kMaxCompleted, left_cut = std::min(kMaxCutCompleted, num_cut_starts_);
    while (num_starts_ > 0 && (all_ != nullptr || left + left_cut > 0)) {
      std::pop_heap(starts_.begin(), starts_.begin() + num_starts_, later);
      const Start& start = starts_[--num_starts_];
      if (all_ == nullptr) {
        if (start.bound_us >= best_us_) break;
        int32_t& left_of_kind = start.split.k_threads > 1 ? left_cut : left;
        if (left_of_kind == 0) continue;
        --left_of_kind;
      }
      split_ = start.split;
      cost_.SetSplit(split_);
      memo_count_ = 0;
      Complete(start.kernel, start.grid);
    }
  }

  void Complete(int32_t main, ThreadGrid grid) {
    const MicroKernel& kernel = ks_.kernel(main);
    const int64_t m = problem_.m, n = problem_.n;
    const int64_t more_rows = m % kernel.um, more_cols = n % kernel.un;
    const bool cut_cols = more_cols > 0 && n > kernel.un;
    TryCut(main, grid, m, n);
    const float padded_us = best_us_;
    if (cut_cols) TryCut(main, grid, m, n - more_cols);
    if (more_rows == 0) return;
    // What was better for the columns is taken for the rows' sake too; all pairs when all are asked
    // for.
    const bool keep_cut = cut_cols && (all_ != nullptr || best_us_ < padded_us);
    const bool keep_padded = all_ != nullptr || !keep_cut;
    // Cut off less than a tile, or, where that is little, a tile more: two middling tiles beat a
    // tall and a flat one.
    const bool flat = all_ != nullptr || 2 * more_rows < kernel.um;
    const int64_t least = m - more_rows - (flat ? kernel.um : 0);
    for (int64_t cut = m - more_rows; cut > 0 && cut >= least; cut -= kernel.um) {
      if (keep_padded) TryCut(main, grid, cut, n);
      if (keep_cut) TryCut(main, grid, cut, n - more_cols);
    }
  }

  // Main region [0, m) x [0, n) of the problem; the cells around it complete the candidate.
  void TryCut(int32_t main, ThreadGrid grid, int64_t m, int64_t n) {
    const int64_t all_m = problem_.m, all_n = problem_.n;
    Candidate candidate;
    candidate.Add(cost_.Evaluate(main, 0, m, 0, n, grid));
    if (all_ == nullptr && AtLeastUs(candidate.cells[0]) >= best_us_) return;
    if (m == all_m && n == all_n) {
      candidate.pattern = Pattern::kI;
      Offer(candidate);
      return;
    }
    if (m == all_m) {
      AddStrip(&candidate, 0, m, n, grid, Pattern::kIII, Pattern::kVIII);
      return;
    }
    if (n == all_n) {
      AddBand(&candidate, m, 0, n, grid, Pattern::kII, Pattern::kV);
      return;
    }
    // The first cut goes along the longer side, so that the corner falls to the longer leftover.
    if (all_ != nullptr || all_n >= all_m) {
      Candidate rows_first = candidate;
      rows_first.Add(BestCell(0, m, n, all_n, grid));
      AddBand(&rows_first, m, 0, all_n, grid, Pattern::kIV, Pattern::kVI);
    }
    if (all_ != nullptr || all_n < all_m) {
      candidate.Add(BestCell(m, all_m, 0, n, grid));
      AddStrip(&candidate, 0, all_m, n, grid, Pattern::kVII, Pattern::kIX);
    }
  }

  // The main region's cost, and what is left at the rate of the best bound.
  float AtLeastUs(const Cell& main) const {
    const float part = static_cast<float>(main.m1) / static_cast<float>(problem_.m) *
                       (static_cast<float>(main.n1) / static_cast<float>(problem_.n));
    // A thread may get less of the main region than the busiest one.
    const float shared = main.grid.rows * main.grid.cols > 1 ? 0.9f : 1.0f;
    return cost_.FixedUs() + shared * main.busiest_us() * static_cast<float>(cost_.batches()) +
           (1.0f - part) * (least_us_ - cost_.FixedUs());
  }

  // Complete with the band [m0, end) x [n0, n1): as one cell, and cut along the columns.
  void AddBand(Candidate* candidate, int64_t m0, int64_t n0, int64_t n1, ThreadGrid grid,
               Pattern whole, Pattern cut) {
    const Cell band = BestCell(m0, problem_.m, n0, n1, grid);
    candidate->Add(band);
    candidate->pattern = whole;
    Offer(*candidate);
    const int64_t more = (n1 - n0) % ks_.kernel(band.kernel).un;
    if (more == 0 || n1 - n0 <= more) return;
    const int64_t middle = n1 - more;
    candidate->cells[candidate->count - 1] =
        cost_.Evaluate(band.kernel, m0, problem_.m, n0, middle, band.grid);
    candidate->Add(BestCell(m0, problem_.m, middle, n1, grid));
    candidate->pattern = cut;
    Offer(*candidate);
  }

  // Complete with the strip [m0, m1) x [n0, end): as one cell, and cut along the rows.
  void AddStrip(Candidate* candidate, int64_t m0, int64_t m1, int64_t n0, ThreadGrid grid,
                Pattern whole, Pattern cut) {
    const Cell strip = BestCell(m0, m1, n0, problem_.n, grid);
    candidate->Add(strip);
    candidate->pattern = whole;
    Offer(*candidate);
    const int64_t more = (m1 - m0) % ks_.kernel(strip.kernel).um;
    if (more == 0 || m1 - m0 <= more) return;
    const int64_t middle = m1 - more;
    candidate->cells[candidate->count - 1] =
        cost_.Evaluate(strip.kernel, m0, middle, n0, problem_.n, strip.grid);
    candidate->Add(BestCell(middle, m1, n0, problem_.n, grid));
    candidate->pattern = cut;
    Offer(*candidate);
  }

  // The cheapest single kernel for a region beside the main one.
  Cell BestCell(int64_t m0, int64_t m1, int64_t n0, int64_t n1, ThreadGrid grid) {
    for (int32_t i = 0; i < memo_count_; ++i) {
      const Cell& cell = memo_[i].cell;
      if (memo_[i].rows == grid.rows && cell.m0 == m0 && cell.m1 == m1 && cell.n0 == n0 &&
          cell.n1 == n1) {
        return cell;
      }
    }
    Cell best;
    float best_us = kInfinity;
    for (uint64_t left = Suitable(m1 - m0, n0, n1 - n0); left != 0; left &= left - 1) {
      const int32_t i = __builtin_ctzll(left);
      const MicroKernel& kernel = ks_.kernel(i);
      for (ThreadGrid each : {grid, ThreadGrid{grid.cols, grid.rows}}) {
        // A single tile along an axis can't be shared out along it.
        if (m1 - m0 <= kernel.um) each = {1, split_.region_threads};
        if (n1 - n0 <= kernel.un && m1 - m0 > kernel.um) each = {split_.region_threads, 1};
        const Cell cell = cost_.Evaluate(i, m0, m1, n0, n1, each);
        const float us = cell.busiest_us();
        if (us < best_us) {
          best_us = us;
          best = cell;
        }
        if (each.rows == each.cols || each.rows != grid.rows) break;
      }
    }
    if (memo_count_ < kMemoSize) memo_[memo_count_++] = {grid.rows, best};
    return best;
  }

  // The kernels worth trying for a leftover of this size, as bits.
  uint64_t Suitable(int64_t rows, int64_t n0, int64_t cols) const {
    const bool aligned = n0 % ks_.panel() == 0, band = rows < problem_.m;
    uint64_t suitable = 0;
    if (aligned) {
      suitable |= band ? ks_.BandKernels(rows) : ks_.StripKernels(CeilDiv(cols, ks_.panel()));
    }
    if (usable_dot_ != 0 && (!aligned || cols < ks_.panel())) {
      suitable |= band ? ks_.DotBandKernels(rows) : ks_.DotStripKernels(cols);
    }
    // The lists name kernels of both families: dot kernels can't read every kind of B, the others
    // can't start within a panel.
    const uint64_t usable = aligned ? usable_outer_ | usable_dot_ : usable_dot_;
    return (suitable & usable) != 0 ? suitable & usable : usable;
  }

  void Offer(const Candidate& candidate) {
    const float us = cost_.FixedUs() + (BusiestUs(candidate) + SharedLinesUs(candidate)) *
                                           static_cast<float>(cost_.batches());
    if (us < best_us_) {
      best_us_ = us;
      best_ = candidate;
      best_split_ = split_;
    }
    if (all_ != nullptr) all_->push_back(ToPlan(candidate, split_, us));
  }

  // What it costs that two threads write lines of C side by side, or the same lines where rows
  // don't begin on a line: along every cut between threads' columns.
  static float SharedLinesUs(int64_t rows, int32_t grid_cols) {
    return static_cast<float>(rows * (grid_cols - 1)) * kSharedLineUs;
  }

  float SharedLinesUs(const Candidate& candidate) const {
    float us = 0.0f;
    for (int32_t i = 0; i < candidate.count; ++i) {
      const Cell& cell = candidate.cells[i];
      us += SharedLinesUs(cell.m1 - cell.m0, cell.grid.cols);
    }
    return us;
  }

  // The size of a share, see Share.
  static int32_t TilesOf(int32_t tiles, int32_t index, int32_t count) {
    if (count == 1) return tiles;
    const uint32_t each = static_cast<uint32_t>(tiles) / static_cast<uint32_t>(count);
    const uint32_t extra = static_cast<uint32_t>(tiles) - each * static_cast<uint32_t>(count);
    return static_cast<int32_t>(each) + (index >= count - static_cast<int32_t>(extra) ? 1 : 0);
  }

  // Sums differ from thread to thread less than the regions do, see CountsBackwards.
  float BusiestUs(const Candidate& candidate) const {
    const int32_t threads = split_.region_threads;
    float busiest = 0.0f;
    for (int32_t thread = 0; thread < threads; ++thread) {
      float us = 0.0f;
      for (int32_t i = 0; i < candidate.count; ++i) {
        const Cell& cell = candidate.cells[i];
        if (threads == 1) {
          us += cell.busiest_us();
          continue;
        }
        const int32_t place = CountsBackwards(cell.m0) ? threads - 1 - thread : thread;
        if (place >= cell.grid.rows * cell.grid.cols) continue;
        const float tasks =
            static_cast<float>(TilesOf(cell.row_tiles, place / cell.grid.cols, cell.grid.rows) *
                               TilesOf(cell.col_tiles, place % cell.grid.cols, cell.grid.cols));
        if (tasks > 0.0f) us += tasks * cell.task_us + cell.extra_us;
      }
      busiest = std::max(busiest, us);
    }
    return busiest;
  }

  Plan ToPlan(const Candidate& candidate, const ThreadSplit& split, float us) const {
    Plan plan;
    plan.problem = problem_;
    plan.pattern = split.k_threads > 1 ? Pattern::kK : candidate.pattern;
    plan.num_regions = candidate.count;
    plan.batch_threads = split.batch_threads;
    plan.k_threads = split.k_threads;
    plan.region_threads = split.region_threads;
    plan.predicted_us = us;
    for (int32_t i = 0; i < candidate.count; ++i) {
      plan.regions[i] = cost_.ToRegion(candidate.cells[i]);
    }
    return plan;
  }

  static constexpr int32_t kMemoSize = 8;
  struct Memo {
    int32_t rows;
    Cell cell;
  };

  const KernelSetObj& ks_;
  const Problem& problem_;
  RegionCost cost_;
  std::vector<Plan>* all_;
  ThreadSplit split_{};
  Candidate best_;
  ThreadSplit best_split_{};
  float best_us_ = kInfinity;
  float least_us_ = kInfinity;
  uint64_t usable_outer_ = 0;
  uint64_t usable_dot_ = 0;
  std::array<Start, kMaxStarts> starts_;
  int32_t num_starts_ = 0;
  int32_t num_cut_starts_ = 0;
  std::array<Memo, kMemoSize> memo_;
  int32_t memo_count_ = 0;
};

}  // namespace

Plan SelectPlan(const KernelSetObj& ks, const Problem& problem, CostModel model) {
  return Search(ks, problem, model, nullptr).Run();
}

std::vector<Plan> EnumeratePlans(const KernelSetObj& ks, const Problem& problem) {
  std::vector<Plan> all;
  Search(ks, problem, CostModel::kFull, &all).Run();
  return all;
}

}  // namespace moonpoly
