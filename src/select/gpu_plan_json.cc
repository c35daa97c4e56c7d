/*!
 * \file select/gpu_plan_json.cc
 * \brief Plans for a GPU as JSON, for `inspect` and for measuring a given plan.
 */
#include <tvm/ffi/error.h>

#include <algorithm>
#include <cmath>

#include "artifact/json_reader.h"
#include "select/gpu_plan.h"
#include "select/region_json.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

ffi::json::Object RegionToJson(const GpuKernelSetObj& ks, const GpuPlan& plan,
                               const GpuRegion& region) {
  ffi::json::Object out;
  auto set = [&out](const char* key, ffi::Any value) { out.Set(ffi::String(key), value); };
  const GpuKernelSpec& kernel = ks.kernel(region.kernel);
  const GpuTiling tiling = TilingOf(kernel, region.rows(), region.cols(), region.split);
  BoundsToJson(region, &out);
  set("k0", int64_t{0});
  set("k1", plan.problem.k);
  set("kernel", ffi::String(kernel.name));
  set("tile", ffi::json::Array{int64_t{kernel.um}, int64_t{kernel.un}});
  set("cluster", int64_t{region.split.cluster});
  set("slices", int64_t{region.split.slices});
  set("tasks", tiling.tiles * kernel.cluster() * region.split.blocks());
  set("blocks", tiling.blocks);
  set("load", static_cast<double>(tiling.waves));
  set("waves", std::ceil(static_cast<double>(tiling.waves)));
  set("task_us", static_cast<double>(region.us) / std::ceil(tiling.waves));
  set("us", static_cast<double>(region.us));
  return out;
}

GpuRegion RegionFromJson(const GpuKernelSetObj& ks, const JsonReader& json) {
  auto region = BoundsAndKernelFromJson<GpuRegion>(ks, json);
  const int64_t cluster = json.GetInt("cluster"), slices = json.GetInt("slices");
  const bool cut = cluster != 1 || slices != 1;
  constexpr int64_t kMaxCluster = 8, kMaxSlices = 1024;
  if (cluster < 1 || cluster > kMaxCluster || slices < 1 || slices > kMaxSlices ||
      (cut && !ks.kernel(region.kernel).split)) {
    TVM_FFI_THROW(ValueError) << json.where() << " shares the reduction among clusters of "
                              << cluster << " in " << slices << " slices, which "
                              << ks.kernel(region.kernel).name << " can't do";
  }
  region.split = {static_cast<int32_t>(cluster), static_cast<int32_t>(slices)};
  region.us = static_cast<float>(json.GetNumber("us"));
  return region;
}

GpuPattern ParsePattern(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(GpuPattern::kK); ++i) {
    if (name == GpuPatternName(static_cast<GpuPattern>(i))) return static_cast<GpuPattern>(i);
  }
  TVM_FFI_THROW(ValueError) << "plan.pattern must be I, II, III or K, got \"" << name << "\"";
}

void CheckPlan(const GpuKernelSetObj& ks, const GpuPlan& plan) {
  const GpuProblem& problem = plan.problem;
  int64_t covered = 0;
  for (int i = 0; i < plan.num_regions; ++i) {
    const GpuRegion& r = plan.regions[i];
    const bool inside = 0 <= r.m0 && r.m0 < r.m1 && r.m1 <= problem.m && 0 <= r.n0 && r.n0 < r.n1 &&
                        r.n1 <= problem.n;
    if (!inside || !CanServe(ks.kernel(r.kernel), problem.operands())) {
      TVM_FFI_THROW(ValueError) << "region " << i << " of the plan (" << ks.kernel(r.kernel).name
                                << ") can't serve the problem " << problem.m << "x" << problem.n
                                << "x" << problem.k << " " << GpuLayoutName(problem.layout);
    }
    covered += (r.m1 - r.m0) * (r.n1 - r.n0);
  }
  const GpuRegion &first = plan.regions[0], &second = plan.regions[1];
  const bool apart = plan.num_regions < 2 || first.m1 <= second.m0 || first.n1 <= second.n0;
  if (problem.k > 0 && (!apart || covered != problem.m * problem.n)) {
    TVM_FFI_THROW(ValueError) << "the regions cover " << covered << " elements, expected each of "
                              << problem.m * problem.n << " once";
  }
}

}  // namespace

ffi::String GpuPlanToJson(const GpuKernelSetObj& ks, const GpuPlan& plan) {
  ffi::json::Object out;
  auto set = [&out](const char* key, ffi::Any value) { out.Set(ffi::String(key), value); };
  int64_t blocks = 0;
  for (int i = 0; i < plan.num_regions; ++i) {
    const GpuRegion& region = plan.regions[i];
    const GpuKernelSpec& kernel = ks.kernel(region.kernel);
    blocks = std::max(blocks, TilingOf(kernel, region.rows(), region.cols(), region.split).blocks);
  }
  set("pattern", ffi::String(GpuPatternName(plan.pattern)));
  set("threads", blocks);
  set("unit", ffi::String("block"));
  set("m", plan.problem.m);
  set("n", plan.problem.n);
  set("k", plan.problem.k);
  set("layout", ffi::String(GpuLayoutName(plan.problem.layout)));
  set("access", ffi::String(GpuLoadsName(plan.problem.access)));
  set("may_overlap", plan.problem.overlap);
  set("overlap", plan.overlap);
  set("predicted_us", static_cast<double>(plan.predicted_us));
  ffi::json::Array regions;
  for (int i = 0; i < plan.num_regions; ++i) {
    regions.push_back(RegionToJson(ks, plan, plan.regions[i]));
  }
  set("regions", regions);
  return ffi::json::Stringify(out);
}

GpuPlan GpuPlanFromJson(const GpuKernelSetObj& ks, const ffi::String& text) {
  const JsonReader json = JsonReader::Parse(text, "plan");
  GpuPlan plan{};
  plan.pattern = ParsePattern(json.GetString("pattern"));
  plan.problem = {json.GetInt("m"),
                  json.GetInt("n"),
                  json.GetInt("k"),
                  ParseGpuLayout(json.GetString("layout")),
                  ParseGpuLoads(json.GetString("access"), "plan.access"),
                  json.GetBool("may_overlap")};
  plan.overlap = json.GetBool("overlap");
  plan.predicted_us = static_cast<float>(json.GetNumber("predicted_us"));
  for (const JsonReader& entry : json.GetObjects("regions")) {
    if (plan.num_regions == kMaxGpuRegions) {
      TVM_FFI_THROW(ValueError) << "a plan has at most " << kMaxGpuRegions << " regions";
    }
    plan.regions[plan.num_regions++] = RegionFromJson(ks, entry);
  }
  CheckPlan(ks, plan);
  return plan;
}

}  // namespace moonpoly
