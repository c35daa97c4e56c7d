/*!
 * \file select/selector.cc
 * \brief Search over guillotine cuts, see Pattern.
 *
 * A candidate starts from a main kernel, which takes the whole tiles at the top left. The rows and
 * columns that remain are either padded up to the main kernel's tile, or cut off and given to the
 * kernels that suit them best. Main kernels are tried in the order of what they cost per element
 * at best; the search stops when that bound alone exceeds the best plan found.
 */
#include "select/selector.h"

#include <algorithm>
#include <limits>

namespace moonpoly {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Below this depth a slice of the reduction is not worth a thread.
constexpr int64_t kMinSliceDepth = 128;

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
      : ks_(ks), problem_(problem), cost_(ks, problem, model), all_(all) {}

  Plan Run() {
    best_.problem = problem_;
    if (problem_.batch == 0 || problem_.m == 0 || problem_.n == 0 || problem_.k == 0) {
      return EmptyPlan();
    }
    TrySplit({1, 1, 1});
    const int32_t threads = problem_.threads;
    // A launch that costs as much as the work itself can't pay.
    if (threads == 1 || (all_ == nullptr && best_us_ <= ks_.machine().launch_us)) return best_;
    for (int32_t b = 1; b <= threads; ++b) {
      if (threads % b != 0 || b > problem_.batch) continue;
      for (int32_t s = 1; s <= threads / b; ++s) {
        if ((threads / b) % s != 0 || !CanCutReduction(s)) continue;
        TrySplit({b, s, threads / b / s});
      }
    }
    return best_;
  }

 private:
  Plan EmptyPlan() {
    best_.pattern = Pattern::kI;
    best_.num_regions = 0;
    best_.batch_threads = best_.k_threads = best_.region_threads = 1;
    best_.predicted_us = 0.0f;
    return best_;
  }

  bool CanCutReduction(int32_t slices) const {
    if (slices == 1) return true;
    return problem_.batch == 1 && problem_.k / slices >= kMinSliceDepth &&
           (slices - 1) * problem_.m * problem_.n <= kMaxPartialFloats;
  }

  void TrySplit(const ThreadSplit& split) {
    split_ = split;
    cost_.SetSplit(split);
    memo_count_ = 0;
    const float area = static_cast<float>(problem_.m) * static_cast<float>(problem_.n) *
                       static_cast<float>(cost_.batches()) /
                       static_cast<float>(split.region_threads);
    uint64_t open = 0;
    for (int32_t i = 0; i < ks_.num_kernels(); ++i) {
      if (cost_.Usable(i)) open |= uint64_t{1} << i;
    }
    while (open != 0) {
      int32_t next = -1;
      for (uint64_t rest = open; rest != 0; rest &= rest - 1) {
        const int32_t i = __builtin_ctzll(rest);
        if (next < 0 || cost_.BestRate(i) < cost_.BestRate(next)) next = i;
      }
      open &= ~(uint64_t{1} << next);
      const float bound = cost_.FixedUs() + cost_.BestRate(next) * area;
      if (all_ == nullptr && bound >= best_us_) break;
      TryMain(next);
    }
  }

  void TryMain(int32_t main) {
    for (int32_t rows = 1; rows <= split_.region_threads; ++rows) {
      if (split_.region_threads % rows != 0) continue;
      const ThreadGrid grid{rows, split_.region_threads / rows};
      const MicroKernel& kernel = ks_.kernel(main);
      const int64_t m = problem_.m, n = problem_.n;
      const int64_t more_rows = m % kernel.um, more_cols = n % kernel.un;
      TryCut(main, grid, m, n);
      if (more_cols > 0 && n > kernel.un) TryCut(main, grid, m, n - more_cols);
      if (more_rows > 0) {
        for (int64_t cut = m - more_rows; cut > 0 && cut >= m - more_rows - kernel.um;
             cut -= kernel.um) {
          TryCut(main, grid, cut, n);
          if (more_cols > 0 && n > kernel.un) TryCut(main, grid, cut, n - more_cols);
        }
      }
    }
  }

  // Main region [0, m) x [0, n) of the problem; the cells around it complete the candidate.
  void TryCut(int32_t main, ThreadGrid grid, int64_t m, int64_t n) {
    const int64_t all_m = problem_.m, all_n = problem_.n;
    Candidate candidate;
    candidate.Add(cost_.Evaluate(main, 0, m, 0, n, grid));
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
    // Rows first: the band below spans all columns.
    Candidate rows_first = candidate;
    rows_first.Add(BestCell(0, m, n, all_n, grid));
    AddBand(&rows_first, m, 0, all_n, grid, Pattern::kIV, Pattern::kVI);
    // Columns first: the strip at the right spans all rows.
    candidate.Add(BestCell(m, all_m, 0, n, grid));
    AddStrip(&candidate, 0, all_m, n, grid, Pattern::kVII, Pattern::kIX);
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
    const int64_t rows = m1 - m0, cols = n1 - n0;
    const int64_t panel_cols = CeilDiv(cols, ks_.panel()) * ks_.panel();
    for (int32_t i = 0; i < ks_.num_kernels(); ++i) {
      if (!cost_.Usable(i)) continue;
      const MicroKernel& kernel = ks_.kernel(i);
      if (kernel.family == KernelFamily::kOuter && n0 % ks_.panel() != 0) continue;
      // Twice the area that is needed can't be the cheapest.
      const int64_t padded =
          CeilDiv(rows, kernel.um) * kernel.um * (CeilDiv(cols, kernel.un) * kernel.un);
      if (padded >= 2 * rows * panel_cols && best_us < kInfinity) continue;
      for (const ThreadGrid& each : {grid, ThreadGrid{grid.cols, grid.rows}}) {
        const Cell cell = cost_.Evaluate(i, m0, m1, n0, n1, each);
        const float us = cell.busiest_us();
        if (us < best_us) {
          best_us = us;
          best = cell;
        }
        if (grid.rows == grid.cols) break;
      }
    }
    if (memo_count_ < kMemoSize) memo_[memo_count_++] = {grid.rows, best};
    return best;
  }

  void Offer(const Candidate& candidate) {
    const float us = cost_.FixedUs() + BusiestUs(candidate) * static_cast<float>(cost_.batches());
    if (us < best_us_) {
      best_us_ = us;
      best_ = ToPlan(candidate, us);
    }
    if (all_ != nullptr) all_->push_back(ToPlan(candidate, us));
  }

  // Every other region counts its threads backwards (see the launcher), so that the sums differ
  // from thread to thread less than the regions do.
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
        const int32_t place = i % 2 == 0 ? thread : threads - 1 - thread;
        if (place >= cell.grid.rows * cell.grid.cols) continue;
        const Span rows = Share(cell.row_tiles, place / cell.grid.cols, cell.grid.rows);
        const Span cols = Share(cell.col_tiles, place % cell.grid.cols, cell.grid.cols);
        const float tasks = static_cast<float>((rows.end - rows.begin) * (cols.end - cols.begin));
        if (tasks > 0.0f) us += tasks * cell.task_us + cell.extra_us;
      }
      busiest = std::max(busiest, us);
    }
    return busiest;
  }

  Plan ToPlan(const Candidate& candidate, float us) const {
    Plan plan;
    plan.problem = problem_;
    plan.pattern = split_.k_threads > 1 ? Pattern::kK : candidate.pattern;
    plan.num_regions = candidate.count;
    plan.batch_threads = split_.batch_threads;
    plan.k_threads = split_.k_threads;
    plan.region_threads = split_.region_threads;
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
  Plan best_;
  float best_us_ = kInfinity;
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
