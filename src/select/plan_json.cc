/*!
 * \file select/plan_json.cc
 * \brief Plans as JSON, for `inspect` and for measuring a given plan.
 */
#include <tvm/ffi/error.h>

#include <algorithm>

#include "artifact/json_reader.h"
#include "select/plan.h"
#include "select/region_json.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

constexpr const char* kPatternNames[] = {"I",  "II",  "III",  "IV", "V",
                                         "VI", "VII", "VIII", "IX", "K"};
constexpr const char* kBModeNames[] = {"packed", "row", "transposed", "gathered"};

ffi::json::Object RegionToJson(const KernelSetObj& ks, const Region& region, Span k) {
  ffi::json::Object out;
  auto set = [&out](const char* key, ffi::Any value) { out.Set(ffi::String(key), value); };
  const MicroKernel& kernel = ks.kernel(region.kernel);
  BoundsToJson(region, &out);
  set("k0", k.begin);
  set("k1", k.end);
  set("kernel", ffi::String(kernel.name));
  set("tasks", region.tasks(ks));
  set("waves", region.waves(ks));
  set("task_us", static_cast<double>(region.task_us));
  set("row_threads", static_cast<int64_t>(region.row_threads));
  set("col_threads", static_cast<int64_t>(region.col_threads));
  set("pack_b", region.pack_b);
  set("kc", region.kc);
  set("mc", region.mc);
  set("nc", region.nc);
  return out;
}

Region RegionFromJson(const KernelSetObj& ks, const JsonReader& json) {
  auto region = BoundsAndKernelFromJson<Region>(ks, json);
  region.task_us = static_cast<float>(json.GetNumber("task_us"));
  region.row_threads = static_cast<int32_t>(json.GetInt("row_threads"));
  region.col_threads = static_cast<int32_t>(json.GetInt("col_threads"));
  region.pack_b = json.GetBool("pack_b");
  region.kc = json.GetInt("kc");
  region.mc = json.GetInt("mc");
  region.nc = json.GetInt("nc");
  return region;
}

int IndexOf(const std::string& name, const char* const* names, int count, const char* what) {
  const char* const* found =
      std::find_if(names, names + count, [&name](const char* each) { return name == each; });
  if (found == names + count) TVM_FFI_THROW(ValueError) << "unknown " << what << " " << name;
  return static_cast<int>(found - names);
}

void CheckPlan(const KernelSetObj& ks, const Plan& plan) {
  const Problem& problem = plan.problem;
  if (plan.k_threads > 1 && problem.k < plan.k_threads * kSliceStep) {
    TVM_FFI_THROW(ValueError) << "a reduction of " << problem.k << " can't be cut in "
                              << plan.k_threads << " slices";
  }
  int64_t covered = 0;
  for (int i = 0; i < plan.num_regions; ++i) {
    const Region& r = plan.regions[i];
    const bool inside = 0 <= r.m0 && r.m0 < r.m1 && r.m1 <= problem.m && 0 <= r.n0 && r.n0 < r.n1 &&
                        r.n1 <= problem.n;
    const bool shared = r.row_threads >= 1 && r.col_threads >= 1 &&
                        r.row_threads * r.col_threads <= plan.region_threads;
    if (!inside || !shared || r.kc < 1 || r.mc < 1 || r.nc < 1) {
      TVM_FFI_THROW(ValueError) << "region " << i << " of the plan does not fit the problem "
                                << problem.m << "x" << problem.n << "x" << problem.k << " on "
                                << plan.region_threads << " threads";
    }
    const bool dot = ks.kernel(r.kernel).family == KernelFamily::kDot;
    if (!dot && r.n0 % ks.panel() != 0) {
      TVM_FFI_THROW(ValueError) << "region " << i << " starts at column " << r.n0
                                << ", expected a multiple of the panel width " << ks.panel();
    }
    covered += (r.m1 - r.m0) * (r.n1 - r.n0);
  }
  if (problem.k > 0 && covered != problem.m * problem.n) {
    TVM_FFI_THROW(ValueError) << "the regions cover " << covered << " elements, expected "
                              << problem.m * problem.n;
  }
}

}  // namespace

const char* PatternName(Pattern pattern) { return kPatternNames[static_cast<int>(pattern)]; }

ffi::String PlanToJson(const KernelSetObj& ks, const Plan& plan) {
  ffi::json::Object out;
  auto set = [&out](const char* key, ffi::Any value) { out.Set(ffi::String(key), value); };
  set("pattern", ffi::String(PatternName(plan.pattern)));
  set("batch", plan.problem.batch);
  set("m", plan.problem.m);
  set("n", plan.problem.n);
  set("k", plan.problem.k);
  set("b_mode", ffi::String(kBModeNames[static_cast<int>(plan.problem.b_mode)]));
  set("max_threads", static_cast<int64_t>(plan.problem.threads));
  set("threads", static_cast<int64_t>(plan.num_threads()));
  set("batch_threads", static_cast<int64_t>(plan.batch_threads));
  set("k_threads", static_cast<int64_t>(plan.k_threads));
  set("region_threads", static_cast<int64_t>(plan.region_threads));
  set("predicted_us", static_cast<double>(plan.predicted_us));
  ffi::json::Array regions;
  for (int i = 0; i < plan.num_regions; ++i) {
    for (int slice = 0; slice < plan.k_threads; ++slice) {
      const Span k = KSlice(plan.problem.k, slice, plan.k_threads);
      regions.push_back(RegionToJson(ks, plan.regions[i], k));
    }
  }
  set("regions", regions);
  return ffi::json::Stringify(out);
}

Plan PlanFromJson(const KernelSetObj& ks, const ffi::String& text) {
  const JsonReader json = JsonReader::Parse(text, "plan");
  Plan plan{};
  plan.pattern =
      static_cast<Pattern>(IndexOf(json.GetString("pattern"), kPatternNames, 10, "pattern"));
  const int b_mode = IndexOf(json.GetString("b_mode"), kBModeNames, 4, "b_mode");
  plan.problem = {json.GetInt("batch"),       json.GetInt("m"),
                  json.GetInt("n"),           json.GetInt("k"),
                  static_cast<BMode>(b_mode), static_cast<int32_t>(json.GetInt("max_threads"))};
  plan.batch_threads = static_cast<int32_t>(json.GetInt("batch_threads"));
  plan.k_threads = static_cast<int32_t>(json.GetInt("k_threads"));
  plan.region_threads = static_cast<int32_t>(json.GetInt("region_threads"));
  plan.predicted_us = static_cast<float>(json.GetNumber("predicted_us"));
  if (plan.batch_threads < 1 || plan.k_threads < 1 || plan.region_threads < 1) {
    TVM_FFI_THROW(ValueError) << "a plan must have positive thread counts";
  }
  for (const JsonReader& entry : json.GetObjects("regions")) {
    if (entry.GetInt("k0") != 0) continue;
    if (plan.num_regions == kMaxRegions) {
      TVM_FFI_THROW(ValueError) << "a plan has at most " << kMaxRegions << " regions";
    }
    plan.regions[plan.num_regions++] = RegionFromJson(ks, entry);
  }
  CheckPlan(ks, plan);
  return plan;
}

}  // namespace moonpoly
