/*!
 * \file ffi/gpu_api.cc
 * \brief The product on a GPU and the inspection of its plans, as global functions.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <string>
#include <vector>

#include "artifact/gpu_kernel_set.h"
#include "ffi/measurement.h"
#include "launch/cuda/gemm.h"
#include "launch/tensor_check.h"
#include "select/gpu_correction.h"
#include "select/gpu_selector.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

GpuProblem ToProblem(int64_t m, int64_t n, int64_t k, const ffi::String& layout,
                     const ffi::String& access, bool overlap) {
  constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;
  for (int64_t extent : {m, n, k}) {
    if (extent < 0 || extent > kMaxExtent) {
      TVM_FFI_THROW(ValueError) << "an extent must be 0..2^31-1, got " << extent;
    }
  }
  return {m, n, k, ParseGpuLayout(layout), ParseGpuLoads(access, "access"), overlap};
}

ffi::String PlanJson(const GpuKernelSet& ks, int64_t m, int64_t n, int64_t k,
                     const ffi::String& layout, const ffi::String& access, bool overlap,
                     int64_t cost_model) {
  const GpuProblem problem = ToProblem(m, n, k, layout, access, overlap);
  return GpuPlanToJson(*ks.get(), SelectGpuPlan(*ks.get(), problem, ToCostModel(cost_model)));
}

ffi::Array<ffi::String> AllPlansJson(const GpuKernelSet& ks, int64_t m, int64_t n, int64_t k,
                                     const ffi::String& layout, const ffi::String& access,
                                     bool overlap) {
  ffi::Array<ffi::String> out;
  const GpuProblem problem = ToProblem(m, n, k, layout, access, overlap);
  for (const GpuPlan& plan : EnumerateGpuPlans(*ks.get(), problem)) {
    out.push_back(GpuPlanToJson(*ks.get(), plan));
  }
  return out;
}

// Of each plan of one region: kernel, cluster, slices, whether it overlaps, the launch's
// microseconds by its kernel's table, those predicted, its load, and the terms of its correction.
ffi::Tensor Launches(const GpuKernelSet& ks, int64_t m, int64_t n, int64_t k,
                     const ffi::String& layout, const ffi::String& access, bool overlap) {
  std::vector<double> out;
  const GpuProblem problem = ToProblem(m, n, k, layout, access, overlap);
  for (const GpuPlan& plan : EnumerateGpuPlans(*ks.get(), problem, 1)) {
    if (plan.num_regions == 0) continue;
    const GpuRegion& region = plan.regions[0];
    const GpuKernelSpec& kernel = ks->kernel(region.kernel);
    const GpuTiling tiling = TilingOf(kernel, region.rows(), region.cols(), region.split);
    out.insert(out.end(),
               {static_cast<double>(region.kernel), static_cast<double>(region.split.cluster),
                static_cast<double>(region.split.slices), plan.overlap ? 1.0 : 0.0, region.us,
                plan.predicted_us, tiling.waves});
    const auto terms =
        GpuLaunchTerms(GpuProductTerms(*ks.get(), problem), kernel, tiling, region.split, region.us)
            .Dense(plan.overlap);
    out.insert(out.end(), terms.begin(), terms.end());
  }
  return ToTensor(out);
}

void Gemm(const GpuKernelSet& ks, const DLTensor* a, const DLTensor* b, const DLTensor* c,
          bool overlap) {
  const GpuMatmul matmul = BindGpuMatmul(*ks.get(), a, b, c, overlap);
  LaunchGpuMatmul(*ks.get(), matmul, CachedGpuPlan(*ks.get(), matmul.problem),
                  CurrentStream(matmul.device));
}

// B (n, k) as the (k, n) that its transpose is; `shape` and `strides` hold the view.
DLTensor TransposedView(const DLTensor* b, int64_t* shape, int64_t* strides) {
  CheckRank(b, 2, "B");
  for (int axis = 0; axis < 2; ++axis) {
    shape[axis] = b->shape[1 - axis];
    strides[axis] = StrideOf(b, 1 - axis);
  }
  DLTensor out = *b;
  out.shape = shape;
  out.strides = strides;
  return out;
}

// The product as a function (A, B, C) of its own, for callers that know functions by name.
ffi::Function Product(const GpuKernelSet& ks, bool trans_b, bool overlap) {
  return ffi::Function::FromTyped([ks, trans_b, overlap](DLTensor* a, DLTensor* b, DLTensor* c) {
    if (!trans_b) return Gemm(ks, a, b, c, overlap);
    int64_t shape[2], strides[2];
    const DLTensor view = TransposedView(b, shape, strides);
    Gemm(ks, a, &view, c, overlap);
  });
}

void RunPlan(const GpuKernelSet& ks, const ffi::String& text, DLTensor* a, DLTensor* b,
             DLTensor* c) {
  const GpuPlan plan = GpuPlanFromJson(*ks.get(), text);
  const GpuMatmul matmul = BindGpuMatmul(*ks.get(), a, b, c, plan.problem.overlap);
  if (!(matmul.problem == plan.problem)) {
    TVM_FFI_THROW(ValueError) << "the plan is for " << plan.problem.m << "x" << plan.problem.n
                              << "x" << plan.problem.k << " " << GpuLayoutName(plan.problem.layout)
                              << " " << GpuLoadsName(plan.problem.access) << ", the tensors are "
                              << matmul.problem.m << "x" << matmul.problem.n << "x"
                              << matmul.problem.k << " " << GpuLayoutName(matmul.problem.layout)
                              << " " << GpuLoadsName(matmul.problem.access);
  }
  LaunchGpuMatmul(*ks.get(), matmul, plan, CurrentStream(matmul.device));
}

ffi::String DeviceName(int64_t ordinal) {
  const cuda::Driver& driver = cuda::GetDriver();
  cuda::Device device = 0;
  char name[256] = "";
  cuda::Check(driver.cuDeviceGet(&device, static_cast<int>(ordinal)), "cuDeviceGet");
  cuda::Check(driver.cuDeviceGetName(name, sizeof(name), device), "cuDeviceGetName");
  return ffi::String(name);
}

int64_t DeviceAttributeOf(int64_t ordinal, cuda::DeviceAttribute attribute) {
  const cuda::Driver& driver = cuda::GetDriver();
  cuda::Device device = 0;
  int value = 0;
  cuda::Check(driver.cuDeviceGet(&device, static_cast<int>(ordinal)), "cuDeviceGet");
  cuda::Check(driver.cuDeviceGetAttribute(&value, attribute, device), "cuDeviceGetAttribute");
  return value;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::ObjectDef<GpuKernelSetObj>();
  refl::GlobalDef()
      .def("moonpoly.GpuKernelSet",
           [](const ffi::String& manifest, const GpuKernelSetObj::Images& images) {
             return GpuKernelSet(GpuManifest::Parse(manifest), images);
           })
      .def("moonpoly.gpu_plan", PlanJson)
      .def("moonpoly.gpu_enumerate_plans", AllPlansJson)
      .def("moonpoly.gpu_launches", Launches)
      .def("moonpoly.gpu_gemm", [](const GpuKernelSet& ks, DLTensor* a, DLTensor* b, DLTensor* c,
                                   bool overlap) { Gemm(ks, a, b, c, overlap); })
      .def("moonpoly.gpu_product", Product)
      .def("moonpoly.gpu_run_plan", RunPlan)
      .def("moonpoly.gpu_name", DeviceName)
      .def("moonpoly.gpu_num_sms",
           [](int64_t device) { return DeviceAttributeOf(device, cuda::kMultiprocessors); });
}

}  // namespace moonpoly
