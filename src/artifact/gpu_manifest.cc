/*!
 * \file artifact/gpu_manifest.cc
 */
#include "artifact/gpu_manifest.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace moonpoly {

namespace {

constexpr int64_t kGpuManifestSchema = 1;
constexpr int64_t kMaxTile = 512;
constexpr int64_t kMaxSharedBytes = 227 << 10;
// What every GPU with clusters allows.
constexpr int64_t kMaxCluster = 8;

int32_t GetSmall(const JsonReader& json, const char* key, int64_t low, int64_t high) {
  const int64_t value = json.GetInt(key);
  if (value < low || value > high) {
    TVM_FFI_THROW(ValueError) << json.where() << "." << key << " must be " << low << ".." << high
                              << ", got " << value;
  }
  return static_cast<int32_t>(value);
}

float GetPositive(const JsonReader& json, const char* key) {
  const double value = json.GetNumber(key);
  if (!(value > 0.0)) {
    TVM_FFI_THROW(ValueError) << json.where() << "." << key << " must be positive, got " << value;
  }
  return static_cast<float>(value);
}

std::vector<GpuParam> ReadParams(const JsonReader& json) {
  std::vector<GpuParam> params;
  for (const std::string& name : json.GetStrings("params")) {
    params.push_back(ParseGpuParam(name, json.where() + ".params"));
  }
  if (params.empty() || params.size() > kMaxGpuParams) {
    TVM_FFI_THROW(ValueError) << json.where() << ".params must name 1.." << kMaxGpuParams
                              << " arguments, got " << params.size();
  }
  return params;
}

GpuSplitCost ReadSplitCost(const JsonReader& cost) {
  GpuSplitCost out{};
  const std::vector<float> cluster_us = cost.GetFloats("cluster_us");
  if (cluster_us.size() != out.cluster_us.size()) {
    TVM_FFI_THROW(ValueError) << cost.where() << ".cluster_us must hold 4 numbers, for clusters of "
                              << "1, 2, 4 and 8 blocks, got " << cluster_us.size();
  }
  std::copy(cluster_us.begin(), cluster_us.end(), out.cluster_us.begin());
  out.slices_us = static_cast<float>(cost.GetNumber("slices_us"));
  out.slice_us = static_cast<float>(cost.GetNumber("slice_us"));
  return out;
}

std::vector<float> ReadCosts(const JsonReader& json, const GpuCostGrid& grid) {
  std::vector<float> us = json.GetObject("cost").GetFloats("us");
  if (us.size() != grid.table_size() ||
      std::any_of(us.begin(), us.end(), [](float x) { return !(x > 0.0f) || x > 1e9f; })) {
    TVM_FFI_THROW(ValueError) << json.where() << ".cost.us must hold " << grid.table_size()
                              << " positive microseconds, one for each point of the grid, got "
                              << us.size() << " numbers";
  }
  return us;
}

// Without it, such stores take no longer than whole vectors.
std::array<float, 2> ReadNarrow(const JsonReader& cost) {
  std::array<float, 2> out{};
  if (!cost.Has("narrow_us")) return out;
  const std::vector<float> given = cost.GetFloats("narrow_us");
  if (given.size() != out.size() || !(given[0] >= 0.0f) || !(given[1] >= 0.0f)) {
    TVM_FFI_THROW(ValueError) << cost.where() << ".narrow_us must hold 2 numbers of 0 or more, for "
                              << "stores of pairs and of single elements";
  }
  std::copy(given.begin(), given.end(), out.begin());
  return out;
}

// Without it, launches take what their tables say.
std::vector<float> ReadCorrection(const JsonReader& cost) {
  if (!cost.Has("correction")) return {};
  std::vector<float> given = cost.GetFloats("correction");
  if (given.size() != kGpuCorrectionTerms) {
    TVM_FFI_THROW(ValueError) << cost.where() << ".correction must hold " << kGpuCorrectionTerms
                              << " numbers, got " << given.size();
  }
  return given;
}

// Without it, tiles fetch as fast as their tables say.
template <size_t kCount>
std::array<float, kCount> ReadRates(const JsonReader& machine, const char* key) {
  std::array<float, kCount> out;
  out.fill(std::numeric_limits<float>::infinity());
  if (!machine.Has(key)) return out;
  const std::vector<float> given = machine.GetFloats(key);
  if (given.size() != out.size() ||
      std::any_of(given.begin(), given.end(), [](float x) { return !(x > 0.0f); })) {
    TVM_FFI_THROW(ValueError) << machine.where() << "." << key << " must hold " << kCount
                              << " positive numbers, one for each way in which rows can lie";
  }
  std::copy(given.begin(), given.end(), out.begin());
  return out;
}

GpuRing ReadRing(const JsonReader& json, int32_t shared_bytes) {
  if (!json.Has("ring")) return {shared_bytes, 0, shared_bytes, 0};
  const JsonReader ring = json.GetObject("ring");
  GpuRing out;
  out.base_bytes = GetSmall(ring, "base_bytes", 0, shared_bytes);
  out.slot_bytes = GetSmall(ring, "slot_bytes", 1, shared_bytes);
  out.least_bytes = GetSmall(ring, "least_bytes", 0, shared_bytes);
  out.slots = GetSmall(ring, "slots", 1, shared_bytes / out.slot_bytes);
  if (out.base_bytes + out.slots * out.slot_bytes > shared_bytes) {
    TVM_FFI_THROW(ValueError) << ring.where() << " has " << out.slots << " slots, which do not fit "
                              << shared_bytes << " bytes of shared memory";
  }
  return out;
}

GpuKernelSpec ReadKernel(const JsonReader& json, const GpuCostGrid& grid,
                         const ClusterCounts& cluster_slots) {
  GpuKernelSpec kernel{};
  kernel.name = json.GetString("name");
  kernel.symbol = json.GetString("symbol");
  kernel.image = json.GetString("cubin");
  kernel.loads = ParseGpuLoads(json.GetString("loads"), json.where() + ".loads");
  kernel.um = GetSmall(json, "um", 1, kMaxTile);
  kernel.un = GetSmall(json, "un", 1, kMaxTile);
  kernel.swapped = json.GetBool("swapped");
  const int32_t p = GetSmall(json, "cluster_p", 1, kMaxCluster);
  const int32_t q = GetSmall(json, "cluster_q", 1, kMaxCluster);
  kernel.cluster_m = kernel.swapped ? q : p;
  kernel.cluster_n = kernel.swapped ? p : q;
  kernel.split = json.GetBool("split");
  kernel.threads = GetSmall(json, "threads", 32, 1024);
  kernel.shared_bytes = GetSmall(json, "smem_bytes", 0, kMaxSharedBytes);
  kernel.ring = ReadRing(json, kernel.shared_bytes);
  kernel.blocks_per_sm = GetSmall(json, "blocks", 1, 32);
  if (kernel.cluster() > kMaxCluster || (kernel.split && kernel.cluster() > 1)) {
    TVM_FFI_THROW(ValueError) << json.where() << " (" << kernel.name << ") shares loads among "
                              << kernel.cluster() << " blocks, at most " << kMaxCluster
                              << " are possible, and 1 where the reduction is split";
  }
  if ((kernel.cluster() & (kernel.cluster() - 1)) != 0) {
    TVM_FFI_THROW(ValueError) << json.where() << " (" << kernel.name << ") has clusters of "
                              << kernel.cluster() << " blocks, expected a power of two";
  }
  for (size_t i = 0; i < cluster_slots.size(); ++i) {
    kernel.split_slots[i] = cluster_slots[i] * kernel.blocks_per_sm;
  }
  kernel.slots = kernel.split_slots[ClusterIndex(kernel.cluster())];
  const bool by_map = kernel.loads == GpuLoads::kTma || kernel.loads == GpuLoads::kResidue;
  kernel.box_x = by_map ? GetSmall(json, "box_x", 1, 256) : 0;
  kernel.box_y = by_map ? GetSmall(json, "box_y", 1, 256) : 0;
  if (kernel.split) kernel.split_cost = ReadSplitCost(json.GetObject("cost"));
  kernel.params = ReadParams(json);
  kernel.slices = std::find(kernel.params.begin(), kernel.params.end(), GpuParam::kSlices) !=
                  kernel.params.end();
  kernel.us = ReadCosts(json, grid);
  kernel.narrow_us = ReadNarrow(json.GetObject("cost"));
  kernel.correction = ReadCorrection(json.GetObject("cost"));
  return kernel;
}

void FillBounds(GpuManifest* manifest) {
  for (const GpuKernelSpec& kernel : manifest->kernels) {
    const int32_t rows = kernel.um * kernel.cluster_m, cols = kernel.un * kernel.cluster_n;
    const float down = static_cast<float>(rows), across = static_cast<float>(cols);
    manifest->bounds.push_back({1.0f / down + 1.0f / across, rows, cols, down * across,
                                kernel.loads == GpuLoads::kDirect, kernel.split});
  }
  const size_t num_loads = manifest->grid.num_loads();
  for (size_t entry = 0; entry < manifest->grid.table_size(); entry += num_loads) {
    for (size_t i = 0; i < manifest->kernels.size(); ++i) {
      const GpuKernelSpec& kernel = manifest->kernels[i];
      const float* row = kernel.us.data() + entry;
      manifest->least_us.push_back(row[0]);
      const float wave_us = manifest->grid.LeastPerWaveUs(row, manifest->machine.launch_us);
      const float wave_items = manifest->bounds[i].group_items * static_cast<float>(kernel.slots);
      manifest->item_us.push_back(wave_us / wave_items);
    }
  }
}

// Without it, as many as there are multiprocessors for.
ClusterCounts ReadClusterSlots(const JsonReader& machine, int32_t num_sms) {
  ClusterCounts out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::max(1, num_sms >> i);
  if (!machine.Has("cluster_slots")) return out;
  const std::vector<int64_t> given = machine.GetInts("cluster_slots");
  for (size_t i = 0; i < out.size(); ++i) {
    if (given.size() != out.size() || given[i] < 1 || given[i] > out[i]) {
      TVM_FFI_THROW(ValueError) << machine.where() << ".cluster_slots must hold how many clusters "
                                << "of 1, 2, 4 and 8 blocks fit " << num_sms << " multiprocessors";
    }
    out[i] = static_cast<int32_t>(given[i]);
  }
  return out;
}

}  // namespace

GpuManifest GpuManifest::Parse(const tvm::ffi::String& text) {
  const JsonReader json = JsonReader::Parse(text, "manifest");
  const int64_t schema = json.GetInt("schema");
  if (schema != kGpuManifestSchema) {
    TVM_FFI_THROW(ValueError) << "the manifest has schema " << schema << ", this library reads "
                              << kGpuManifestSchema
                              << "; rebuild the artifact with `moonpoly export`";
  }
  GpuManifest out;
  out.target = json.GetObject("target").GetString("name");
  out.dtype = json.GetString("dtype");
  if (json.GetString("op") != "gemm") {
    TVM_FFI_THROW(ValueError) << "the manifest is for " << json.GetString("op")
                              << ", expected gemm";
  }
  out.types = ParseGpuTypes(out.dtype, json.Has("out_dtype") ? json.GetString("out_dtype") : "");
  const JsonReader grid = json.GetObject("grid");
  out.grid = GpuCostGrid(grid.GetInts("k"), grid.GetFloats("load"));
  const JsonReader machine = json.GetObject("machine");
  out.machine.num_sms = GetSmall(machine, "num_sms", 1, 4096);
  out.machine.cluster_slots = ReadClusterSlots(machine, out.machine.num_sms);
  out.machine.launch_us = GetPositive(machine, "launch_us");
  out.machine.overlap_us = GetPositive(machine, "overlap_us");
  out.machine.overlap_limit_us = GetPositive(machine, "overlap_limit_us");
  for (const auto& [key, bytes] : {std::pair("overlap_bytes", &out.machine.overlap_bytes),
                                   std::pair("lone_bytes", &out.machine.lone_bytes)}) {
    *bytes = machine.Has(key) ? GetSmall(machine, key, 0, kMaxSharedBytes) : 0;
  }
  out.machine.l2_bytes = GetPositive(machine, "l2_bytes");
  out.machine.l2_gbs = GetPositive(machine, "l2_gbs");
  out.machine.dram_gbs = GetPositive(machine, "dram_gbs");
  out.machine.fetch_gbs = ReadRates<3>(machine, "fetch_gbs");
  out.machine.direct_gbs = ReadRates<4>(machine, "direct_gbs");
  std::set<std::string> names;
  for (const JsonReader& entry : json.GetObjects("kernels")) {
    out.kernels.push_back(ReadKernel(entry, out.grid, out.machine.cluster_slots));
    if (!names.insert(out.kernels.back().name).second) {
      TVM_FFI_THROW(ValueError) << entry.where() << " repeats the kernel "
                                << out.kernels.back().name;
    }
  }
  if (out.kernels.empty() || out.kernels.size() > kMaxGpuKernels) {
    TVM_FFI_THROW(ValueError) << "the manifest must hold 1.." << kMaxGpuKernels << " kernels, got "
                              << out.kernels.size();
  }
  FillBounds(&out);
  return out;
}

}  // namespace moonpoly
