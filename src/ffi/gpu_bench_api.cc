/*!
 * \file ffi/gpu_bench_api.cc
 * \brief Measurements on a GPU that have to be taken without Python in between.
 */
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "artifact/gpu_kernel_set.h"
#include "ffi/measurement.h"
#include "launch/cuda/gemm.h"
#include "launch/cuda/graph.h"
#include "launch/cuda/tensor_map.h"
#include "select/gpu_selector.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

cuda::Stream ToStream(int64_t handle) { return reinterpret_cast<cuda::Stream>(handle); }

// The operands rotate: call i uses set i modulo their number.
GpuGraph CapturePlan(const GpuKernelSet& ks, const ffi::String& text,
                     const ffi::Array<ffi::Tensor>& a, const ffi::Array<ffi::Tensor>& b,
                     const ffi::Array<ffi::Tensor>& c, int64_t calls, int64_t stream_handle) {
  if (a.size() == 0 || b.size() != a.size() || c.size() != a.size()) {
    TVM_FFI_THROW(ValueError) << "expected as many A as B and C, got " << a.size() << ", "
                              << b.size() << " and " << c.size();
  }
  const GpuPlan plan = GpuPlanFromJson(*ks.get(), text);
  const cuda::Stream stream = ToStream(stream_handle);
  std::vector<GpuMatmul> sets;
  for (size_t i = 0; i < a.size(); ++i) {
    sets.push_back(BindGpuMatmul(*ks.get(), a[i].GetDLTensorPtr(), b[i].GetDLTensorPtr(),
                                 c[i].GetDLTensorPtr(), plan.problem.overlap));
    if (!(sets.back().problem == plan.problem)) {
      TVM_FFI_THROW(ValueError) << "the plan is for another problem than the tensors of set " << i;
    }
  }
  const int device = sets[0].device;
  cuda::UseDevice(device);
  ks->Functions(device, stream);
  BeginCapture(device, stream);
  for (int64_t i = 0; i < calls; ++i) {
    LaunchGpuMatmul(*ks.get(), sets[i % sets.size()], plan, stream);
  }
  return EndCapture(device, stream);
}

// Microseconds of one run of each graph of so many calls of a work, [rounds][works].
std::vector<double> TimeInGraphs(const std::vector<Enqueue>& works, int64_t calls, int64_t rounds,
                                 int device, cuda::Stream stream) {
  std::vector<TimedGraph> graphs;
  for (const Enqueue& work : works) {
    // The first run takes the memory that a captured one must find.
    work(stream);
    BeginCapture(device, stream);
    for (int64_t i = 0; i < calls; ++i) work(stream);
    graphs.push_back({EndCapture(device, stream), 1});
  }
  return TimeGraphs(graphs, rounds, stream);
}

// Microseconds of one call of each plan, [rounds][plans], in graphs or launched one by one.
ffi::Tensor TimePlans(const GpuKernelSet& ks, const ffi::Array<ffi::String>& texts,
                      const ffi::Tensor& a, const ffi::Tensor& b, const ffi::Tensor& c,
                      int64_t calls, int64_t rounds, int64_t stream_handle, bool in_graphs) {
  constexpr double kHostUs = 5.0;
  const cuda::Stream stream = ToStream(stream_handle);
  std::vector<std::pair<GpuMatmul, GpuPlan>> bound;
  for (const ffi::String& text : texts) {
    const GpuPlan plan = GpuPlanFromJson(*ks.get(), text);
    bound.emplace_back(BindGpuMatmul(*ks.get(), a.GetDLTensorPtr(), b.GetDLTensorPtr(),
                                     c.GetDLTensorPtr(), plan.problem.overlap),
                       plan);
    if (!(bound.back().first.problem == plan.problem)) {
      TVM_FFI_THROW(ValueError) << "a plan is for another problem than the tensors";
    }
  }
  std::vector<Enqueue> works;
  for (const auto& each : bound) {
    works.push_back(
        [&ks, &each](cuda::Stream on) { LaunchGpuMatmul(*ks.get(), each.first, each.second, on); });
  }
  if (bound.empty()) return ToTensor({});
  const int device = bound[0].first.device;
  if (!in_graphs) return ToTensor(TimeLaunches(works, calls, rounds, kHostUs, device, stream));
  std::vector<double> us = TimeInGraphs(works, calls, rounds, device, stream);
  for (double& each : us) each /= static_cast<double>(calls);
  return ToTensor(us);
}

ffi::Tensor Time(const ffi::Array<GpuGraph>& graphs, const ffi::Shape& replays, int64_t rounds,
                 int64_t stream) {
  if (graphs.size() != replays.size()) {
    TVM_FFI_THROW(ValueError) << "expected a number of replays for each of " << graphs.size()
                              << " graphs, got " << replays.size();
  }
  std::vector<TimedGraph> timed;
  for (size_t i = 0; i < graphs.size(); ++i) timed.push_back({graphs[i], replays[i]});
  return ToTensor(TimeGraphs(timed, rounds, ToStream(stream)));
}

// Microseconds of each selection for the problems (m, n, k) in `flat`.
ffi::Tensor BenchSelect(const GpuKernelSet& ks, const ffi::Shape& flat, const ffi::String& layout,
                        bool cached) {
  if (flat.size() % 3 != 0) {
    TVM_FFI_THROW(ValueError) << "expected triples m, n, k, got " << flat.size() << " extents";
  }
  std::vector<double> us;
  for (size_t i = 0; i < flat.size(); i += 3) {
    const GpuLoads access = AccessOfRows(ks->manifest().types, flat[i + 2]);
    const GpuProblem problem{flat[i], flat[i + 1], flat[i + 2], ParseGpuLayout(layout),
                             access,  true};
    us.push_back(SelectionUs(cached, [&] {
      return cached ? CachedGpuPlan(*ks.get(), problem).predicted_us
                    : SelectGpuPlan(*ks.get(), problem).predicted_us;
    }));
  }
  return ToTensor(us);
}

/*! \brief What of a call's work on the host is timed. */
enum class HostStep { kEncode, kLookUp, kPlan, kCall };

HostStep ParseHostStep(const std::string& name) {
  if (name == "encode") return HostStep::kEncode;
  if (name == "look_up") return HostStep::kLookUp;
  if (name == "plan") return HostStep::kPlan;
  if (name == "call") return HostStep::kCall;
  TVM_FFI_THROW(ValueError) << "a step must be encode, look_up, plan or call, got " << name;
}

// The map of A by rows, in boxes of 64 rows of 128 bytes.
cuda::MappedMatrix MapOfA(const GpuKernelSetObj& ks, const GpuMatmul& matmul) {
  const GpuTypes& types = ks.manifest().types;
  const int64_t stride_bytes = matmul.lda * types.item_bytes();
  return {matmul.a, matmul.problem.k, matmul.problem.m, stride_bytes, types.step(), 64,
          true,     types.map};
}

// Microseconds of one step on the host, the mean of each batch of calls. Call i uses operand set i
// modulo their number. The GPU catches up between batches, so that no call waits for it.
ffi::Tensor BenchHost(const GpuKernelSet& ks, const ffi::String& step_name,
                      const ffi::Array<ffi::Tensor>& a, const ffi::Array<ffi::Tensor>& b,
                      const ffi::Array<ffi::Tensor>& c, int64_t calls, int64_t batches) {
  if (a.size() == 0 || b.size() != a.size() || c.size() != a.size()) {
    TVM_FFI_THROW(ValueError) << "expected as many A as B and C, got " << a.size() << ", "
                              << b.size() << " and " << c.size();
  }
  const HostStep step = ParseHostStep(step_name);
  const ffi::Function gemm = ffi::Function::GetGlobalRequired("moonpoly.gpu_gemm");
  std::vector<GpuMatmul> bound;
  for (size_t i = 0; i < a.size(); ++i) {
    bound.push_back(BindGpuMatmul(*ks.get(), a[i].GetDLTensorPtr(), b[i].GetDLTensorPtr(),
                                  c[i].GetDLTensorPtr(), true));
  }
  cuda::TensorMap map;
  volatile float sink = 0.0f;
  const auto run = [&](size_t i) {
    switch (step) {
      case HostStep::kEncode:
        return cuda::EncodeTensorMap(MapOfA(*ks.get(), bound[i]), &map);
      case HostStep::kLookUp:
        map = cuda::CachedTensorMap(MapOfA(*ks.get(), bound[i]));
        return;
      case HostStep::kPlan:
        sink = CachedGpuPlan(*ks.get(),
                             BindGpuMatmul(*ks.get(), a[i].GetDLTensorPtr(), b[i].GetDLTensorPtr(),
                                           c[i].GetDLTensorPtr(), true)
                                 .problem)
                   .predicted_us;
        return;
      case HostStep::kCall:
        gemm(ks, a[i], b[i], c[i], true);
        return;
    }
  };
  const int device = bound[0].device;
  cuda::UseDevice(device);
  const cuda::Stream stream = CurrentStream(device);
  std::vector<double> us;
  size_t at = 0;
  const auto batch = [&] {
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < calls; ++i, at = (at + 1) % bound.size()) run(at);
    us.push_back(MicrosSince(start) / static_cast<double>(calls));
    cuda::Check(cuda::GetDriver().cuStreamSynchronize(stream), "cuStreamSynchronize");
  };
  batch();
  us.clear();
  for (int64_t i = 0; i < batches; ++i) batch();
  (void)sink;
  return ToTensor(us);
}

int64_t CreateStream(int64_t device) {
  constexpr unsigned kNonBlocking = 1;
  cuda::UseDevice(static_cast<int>(device));
  cuda::Stream stream = nullptr;
  cuda::Check(cuda::GetDriver().cuStreamCreate(&stream, kNonBlocking), "cuStreamCreate");
  return reinterpret_cast<int64_t>(stream);
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::ObjectDef<GpuGraphObj>();
  refl::GlobalDef()
      .def("moonpoly.gpu_create_stream", CreateStream)
      .def("moonpoly.gpu_begin_capture",
           [](int64_t device, int64_t stream) {
             BeginCapture(static_cast<int>(device), ToStream(stream));
           })
      .def("moonpoly.gpu_end_capture",
           [](int64_t device, int64_t stream) {
             return EndCapture(static_cast<int>(device), ToStream(stream));
           })
      .def("moonpoly.gpu_capture_plan", CapturePlan)
      .def("moonpoly.gpu_time", Time)
      .def("moonpoly.gpu_time_plans", TimePlans)
      .def("moonpoly.gpu_bench_host", BenchHost)
      .def("moonpoly.gpu_bench_select", BenchSelect);
}

}  // namespace moonpoly
