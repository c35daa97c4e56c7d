/*!
 * \file ffi/gemm_api.cc
 * \brief The stand-alone operator and the inspection of plans, as global functions.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <vector>

#include "artifact/kernel_set.h"
#include "ffi/measurement.h"
#include "launch/gemm.h"
#include "launch/matmul.h"
#include "launch/pack.h"
#include "launch/scratch.h"
#include "launch/tensor_check.h"
#include "launch/threads.h"
#include "select/plan_cache.h"
#include "select/selector.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

BMode ToBMode(int64_t mode) {
  if (mode < 0 || mode > 3) {
    TVM_FFI_THROW(ValueError) << "b_mode must be 0 (packed), 1 (row-major), 2 (transposed) or 3 "
                                 "(gathered), got "
                              << mode;
  }
  return static_cast<BMode>(mode);
}

Problem ToProblem(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t b_mode, int64_t threads) {
  const int64_t extents[] = {batch, m, n, k};
  for (int64_t extent : extents) {
    if (extent < 0) TVM_FFI_THROW(ValueError) << "an extent must not be negative, got " << extent;
  }
  if (threads < 1 || threads > 1024) {
    TVM_FFI_THROW(ValueError) << "threads must be 1..1024, got " << threads;
  }
  BMode mode = ToBMode(b_mode);
  // The operator reads a row-major B of one column as the contiguous column that it is.
  if (mode == BMode::kRowMajor && n == 1) mode = BMode::kTransposed;
  return {batch, m, n, k, mode, static_cast<int32_t>(threads)};
}

KernelSet MakeKernelSet(const ffi::String& manifest, const ffi::Module& lib) {
  return KernelSet(Manifest::Parse(manifest), lib);
}

ffi::String PlanJson(const KernelSet& ks, int64_t batch, int64_t m, int64_t n, int64_t k,
                     int64_t b_mode, int64_t threads, int64_t cost_model) {
  const Problem problem = ToProblem(batch, m, n, k, b_mode, threads);
  return PlanToJson(*ks.get(), SelectPlan(*ks.get(), problem, ToCostModel(cost_model)));
}

ffi::Array<ffi::String> AllPlansJson(const KernelSet& ks, int64_t batch, int64_t m, int64_t n,
                                     int64_t k, int64_t b_mode, int64_t threads) {
  ffi::Array<ffi::String> out;
  for (const Plan& plan : EnumeratePlans(*ks.get(), ToProblem(batch, m, n, k, b_mode, threads))) {
    out.push_back(PlanToJson(*ks.get(), plan));
  }
  return out;
}

void Gemm(const KernelSet& ks, DLTensor* a, DLTensor* b, DLTensor* c, int64_t b_mode,
          bool trans_a) {
  BoundMatmul bound;
  BindMatmul(*ks.get(), {ToBMode(b_mode), trans_a}, a, b, c, nullptr, nullptr, &bound);
  LaunchMatmul(*ks.get(), bound, CachedPlan(*ks.get(), bound.problem), false);
}

/*! \brief A plan that was read once, to be run many times. */
class LoadedPlanObj : public ffi::Object {
 public:
  LoadedPlanObj(KernelSet kernels, const Plan& plan) : kernels(std::move(kernels)), plan(plan) {}

  const KernelSet kernels;
  const Plan plan;

  static constexpr bool _type_mutable = false;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("moonpoly.LoadedPlan", LoadedPlanObj, ffi::Object);
};

class LoadedPlan : public ffi::ObjectRef {
 public:
  LoadedPlan(const KernelSet& ks, const ffi::String& text)
      : LoadedPlan(ffi::make_object<LoadedPlanObj>(ks, PlanFromJson(*ks.get(), text))) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(LoadedPlan, ffi::ObjectRef, LoadedPlanObj);
  explicit LoadedPlan(ffi::ObjectPtr<LoadedPlanObj> n) : ffi::ObjectRef(std::move(n)) {}
};

// Find the problem in the tensors; throws unless it is the one that the plan is for.
void BindToPlan(const LoadedPlan& loaded, DLTensor* a, DLTensor* b, DLTensor* c, int64_t b_mode,
                bool trans_a, BoundMatmul* bound) {
  const Plan& plan = loaded->plan;
  BindMatmul(*loaded->kernels.get(), {ToBMode(b_mode), trans_a}, a, b, c, nullptr, nullptr, bound);
  bound->problem.threads = plan.problem.threads;
  if (plan.problem.b_mode != bound->problem.b_mode || plan.problem.batch != bound->problem.batch ||
      plan.problem.m != bound->problem.m || plan.problem.n != bound->problem.n ||
      plan.problem.k != bound->problem.k) {
    TVM_FFI_THROW(ValueError) << "the plan is for batch " << plan.problem.batch << ", "
                              << plan.problem.m << "x" << plan.problem.n << "x" << plan.problem.k
                              << " with b_mode " << static_cast<int>(plan.problem.b_mode)
                              << ", the tensors are batch " << bound->problem.batch << ", "
                              << bound->problem.m << "x" << bound->problem.n << "x"
                              << bound->problem.k << " with b_mode "
                              << static_cast<int>(bound->problem.b_mode);
  }
  if (plan.num_threads() > MaxThreads()) {
    TVM_FFI_THROW(ValueError) << "the plan needs " << plan.num_threads() << " threads, "
                              << MaxThreads() << " are available";
  }
}

void RunPlan(const LoadedPlan& loaded, DLTensor* a, DLTensor* b, DLTensor* c, int64_t b_mode,
             bool trans_a) {
  BoundMatmul bound;
  BindToPlan(loaded, a, b, c, b_mode, trans_a, &bound);
  LaunchMatmul(*loaded->kernels.get(), bound, loaded->plan, false);
}

// Median microseconds of one run of a plan, over bursts that take `min_us` or more in all. The
// first run is not counted.
double TimePlan(const LoadedPlan& loaded, DLTensor* a, DLTensor* b, DLTensor* c, int64_t b_mode,
                double min_us) {
  BoundMatmul bound;
  BindToPlan(loaded, a, b, c, b_mode, false, &bound);
  const auto burst_us = [&](int64_t runs) {
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < runs; ++i) {
      LaunchMatmul(*loaded->kernels.get(), bound, loaded->plan, false);
    }
    return MicrosSince(start) / static_cast<double>(runs);
  };
  // A burst is long enough for the clock, and short enough that an interrupt spoils few of them.
  constexpr double kBurstUs = 20.0, kShortestUs = 0.01;
  burst_us(1);
  const Clock::time_point start = Clock::now();
  std::vector<double> bursts = {burst_us(1)};
  const double once = std::max(bursts.front(), kShortestUs);
  const int64_t runs = std::max<int64_t>(1, static_cast<int64_t>(kBurstUs / once));
  if (runs > 1) bursts.clear();
  while (bursts.empty() || MicrosSince(start) < min_us) bursts.push_back(burst_us(runs));
  std::nth_element(bursts.begin(), bursts.begin() + bursts.size() / 2, bursts.end());
  return bursts[bursts.size() / 2];
}

/*! \brief Allocates tensors that kernels read fastest: aligned, on huge pages. */
struct PackedAllocator {
  void AllocData(DLTensor* tensor) {
    int64_t count = 1;
    for (int i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
    tensor->data = AllocateFloats(count);
    if (tensor->data == nullptr) {
      TVM_FFI_THROW(MemoryError) << "can't allocate " << count * sizeof(float)
                                 << " bytes for packed B";
    }
  }
  void FreeData(DLTensor* tensor) { FreeFloats(static_cast<float*>(tensor->data)); }
};

ffi::Tensor PackB(DLTensor* b, bool transposed, int64_t panel) {
  CheckFloat32(b, "B");
  CheckRank(b, 2, "B");
  CheckLastContiguous(b, "B");
  if (panel != 8 && panel != 16) {
    TVM_FFI_THROW(ValueError) << "panel must be 8 or 16, got " << panel;
  }
  const int64_t k = b->shape[transposed ? 1 : 0], n = b->shape[transposed ? 0 : 1];
  const int64_t shape[] = {CeilDiv(n, panel), k, panel};
  ffi::Tensor out = ffi::Tensor::FromNDAlloc(PackedAllocator(), ffi::ShapeView(shape, 3),
                                             DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
  const BOperand operand{FloatData(b), transposed ? BMode::kTransposed : BMode::kRowMajor,
                         StrideOf(b, 0), nullptr, nullptr};
  PackPanels(operand, n, k, panel, 0, shape[0] * panel, 0, k, static_cast<float*>(out.data_ptr()));
  return out;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::ObjectDef<KernelSetObj>();
  refl::ObjectDef<LoadedPlanObj>();
  refl::GlobalDef()
      .def("moonpoly.KernelSet", MakeKernelSet)
      .def("moonpoly.plan", PlanJson)
      .def("moonpoly.enumerate_plans", AllPlansJson)
      .def("moonpoly.gemm", Gemm)
      .def("moonpoly.load_plan",
           [](const KernelSet& ks, const ffi::String& text) { return LoadedPlan(ks, text); })
      .def("moonpoly.run_plan", RunPlan)
      .def("moonpoly.time_plan", TimePlan)
      .def("moonpoly.pack_b", PackB)
      .def("moonpoly.num_threads", []() -> int64_t { return NumThreads(); })
      .def("moonpoly.set_num_threads", [](int64_t count) {
        if (count < 0 || count > 1024) {
          TVM_FFI_THROW(ValueError) << "the number of threads must be 0..1024, got " << count;
        }
        SetNumThreads(static_cast<int32_t>(count));
      });
}

}  // namespace moonpoly
