/*!
 * \file launch/gemm.cc
 */
#include "launch/gemm.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstring>

#include "launch/region_walk.h"
#include "launch/scratch.h"
#include "launch/threads.h"

namespace moonpoly {

namespace {

int RaiseOutOfMemory() {
  TVMFFIErrorSetRaisedFromCStr("MemoryError", "can't allocate scratch memory for packing");
  return -1;
}

/*! \brief What all threads of one launch share. */
struct Launch {
  const GemmCall* call;
  /*! \brief (k_threads - 1) x m x n partial sums, where the reduction is cut. */
  float* partial;
};

/*! \brief One thread's part of a launch. */
class Worker {
 public:
  Worker(const Launch& launch, int32_t thread, TVMParallelGroupEnv* env)
      : launch_(launch),
        call_(*launch.call),
        plan_(*launch.call->plan),
        env_(env),
        thread_(thread),
        epilogue_(launch.call->epilogue),
        nothing_(nullptr) {
    place_ = thread % plan_.region_threads;
    slice_ = thread / plan_.region_threads % plan_.k_threads;
    batch_place_ = thread / (plan_.region_threads * plan_.k_threads);
  }

  int Run() {
    Scratch& scratch = Scratch::Get();
    // A thread without scratch still meets the others at the barriers.
    if (!scratch.ok()) status_ = RaiseOutOfMemory();
    const Span batches = Share(plan_.problem.batch, batch_place_, plan_.batch_threads);
    for (int64_t element = batches.begin; element < batches.end; ++element) {
      SetBatch(element);
      if (plan_.k_threads == 1) {
        RunRegions(&scratch, c_, call_.accumulate, &epilogue_);
        if (status_ != 0) return status_;
      } else {
        RunSlice(&scratch);
        if (element + 1 < batches.end) Barrier();
      }
    }
    return status_;
  }

 private:
  void SetBatch(int64_t element) {
    a_ = call_.a;
    b_ = call_.b;
    c_ = call_.c;
    const BatchDims& dims = call_.batch;
    int64_t coordinates[kMaxBatchDims];
    for (int d = dims.ndim - 1; d >= 0; --d) {
      coordinates[d] = element % dims.extent[d];
      element /= dims.extent[d];
      a_.data += coordinates[d] * dims.a[d];
      b_.data += coordinates[d] * dims.b[d];
      c_.data += coordinates[d] * dims.c[d];
    }
    epilogue_.SetBatch(coordinates, dims.ndim);
  }

  void RunRegions(Scratch* scratch, const COperand& c, bool accumulate, EpilogueRunner* epilogue) {
    if (status_ != 0) return;
    RegionWalk walk(*call_.ks, plan_.problem, a_, b_, c, accumulate, &kernel_call_, scratch);
    const Span k = KSlice(plan_.problem.k, slice_, plan_.k_threads);
    for (int i = 0; i < plan_.num_regions && status_ == 0; ++i) {
      const Region& region = plan_.regions[i];
      Block block;
      if (!ShareOfRegion(region, &block)) continue;
      block.k = k;
      status_ = walk.Run(region, block, epilogue);
    }
  }

  bool ShareOfRegion(const Region& region, Block* block) const {
    const int32_t place = CountsBackwards(region.m0) ? plan_.region_threads - 1 - place_ : place_;
    if (place >= region.row_threads * region.col_threads) return false;
    const MicroKernel& kernel = call_.ks->kernel(region.kernel);
    block->rows =
        TileShare(region.m0, region.m1, kernel.um, place / region.col_threads, region.row_threads);
    block->cols =
        TileShare(region.n0, region.n1, kernel.un, place % region.col_threads, region.col_threads);
    return true;
  }

  static Span TileShare(int64_t begin, int64_t end, int64_t step, int64_t index, int64_t count) {
    const Span tiles = Share(CeilDiv(end - begin, step), index, count);
    return {std::min(end, begin + tiles.begin * step), std::min(end, begin + tiles.end * step)};
  }

  // The first slice is summed up in C itself, the others beside it. Adding them in the order of the
  // slices keeps the result the same from run to run.
  void RunSlice(Scratch* scratch) {
    const int64_t m = plan_.problem.m, n = plan_.problem.n;
    COperand target = c_;
    if (slice_ > 0) target = {launch_.partial + (slice_ - 1) * m * n, n};
    RunRegions(scratch, target, call_.accumulate && slice_ == 0, &nothing_);
    Barrier();
    if (status_ != 0) return;
    const int32_t members = plan_.k_threads * plan_.region_threads;
    const Span rows = Share(m, thread_ % members, members);
    if (rows.begin == rows.end) return;
    // Rows that follow one another are added as one: they may be a few elements long.
    const int64_t height = c_.ld == n ? 1 : rows.end - rows.begin;
    const int64_t width = (rows.end - rows.begin) * n / height;
    for (int32_t s = 0; s < plan_.k_threads - 1; ++s) {
      const float* from = launch_.partial + s * m * n + rows.begin * n;
      for (int64_t i = 0; i < height; ++i) {
        float* to = c_.data + (rows.begin + i) * c_.ld;
        for (int64_t j = 0; j < width; ++j) to[j] += from[i * width + j];
      }
    }
    if (epilogue_.active()) status_ = epilogue_.Run(c_, rows.begin, rows.end - rows.begin, 0, n);
  }

  void Barrier() { TVMBackendParallelBarrier(env_->num_task == 1 ? 0 : thread_, env_); }

  const Launch& launch_;
  const GemmCall& call_;
  const Plan& plan_;
  TVMParallelGroupEnv* env_;
  int32_t thread_, place_, slice_, batch_place_;
  int status_ = 0;
  AOperand a_;
  BOperand b_;
  COperand c_;
  KernelCall kernel_call_;
  EpilogueRunner epilogue_;
  EpilogueRunner nothing_;
};

int RunThread(int thread, TVMParallelGroupEnv* env, void* data) {
  return Worker(*static_cast<const Launch*>(data), thread, env).Run();
}

// With no reduction steps the product is zero, or what C holds.
int LaunchEmptyReduction(const GemmCall& call) {
  EpilogueRunner epilogue(call.epilogue);
  for (int64_t element = 0; element < call.plan->problem.batch; ++element) {
    COperand c = call.c;
    int64_t rest = element;
    int64_t coordinates[kMaxBatchDims];
    for (int d = call.batch.ndim - 1; d >= 0; --d) {
      coordinates[d] = rest % call.batch.extent[d];
      rest /= call.batch.extent[d];
      c.data += coordinates[d] * call.batch.c[d];
    }
    epilogue.SetBatch(coordinates, call.batch.ndim);
    const int64_t m = call.plan->problem.m, n = call.plan->problem.n;
    for (int64_t i = 0; i < m && !call.accumulate; ++i) {
      std::memset(c.data + i * c.ld, 0, n * sizeof(float));
    }
    if (epilogue.active()) {
      const int status = epilogue.Run(c, 0, m, 0, n);
      if (status != 0) return status;
    }
  }
  return 0;
}

}  // namespace

int LaunchGemm(const GemmCall& call) {
  const Problem& problem = call.plan->problem;
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return 0;
  if (problem.k == 0) return LaunchEmptyReduction(call);
  Launch launch{&call, nullptr};
  const int32_t num_threads = call.plan->num_threads();
  if (call.plan->k_threads > 1) {
    launch.partial = Scratch::Get().partial();
    if (launch.partial == nullptr) return RaiseOutOfMemory();
  }
  if (num_threads == 1) {
    TVMParallelGroupEnv env{nullptr, 1};
    return RunThread(0, &env, &launch);
  }
  return TVMBackendParallelLaunch(RunThread, &launch, num_threads);
}

void LaunchGemmOrThrow(const GemmCall& call) {
  if (LaunchGemm(call) != 0) throw tvm::ffi::details::MoveFromSafeCallRaised();
}

}  // namespace moonpoly
