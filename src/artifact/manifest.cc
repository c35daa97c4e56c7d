/*!
 * \file artifact/manifest.cc
 */
#include "artifact/manifest.h"

#include <tvm/ffi/error.h>

#include <set>

namespace moonpoly {

namespace {

// Bounds the arrays that the selector keeps on the stack.
constexpr size_t kMaxKernels = 64;
constexpr int64_t kMaxTileRows = 64;
constexpr int64_t kMaxTileCols = 128;

std::vector<float> ReadCosts(const JsonReader& cost, const char* key, const CostGrid& grid) {
  std::vector<float> values = cost.GetFloats(key);
  if (values.size() != grid.table_size()) {
    TVM_FFI_THROW(ValueError) << cost.where() << "." << key << " must hold " << grid.table_size()
                              << " costs, one for each point of the grid, got " << values.size();
  }
  for (float value : values) {
    if (!(value > 0.0f) || value > 1e12f) {
      TVM_FFI_THROW(ValueError) << cost.where() << "." << key
                                << " must hold positive microseconds, got " << value;
    }
  }
  return values;
}

KernelSpec ReadKernel(const JsonReader& json, const CostGrid& grid, int32_t panel) {
  KernelSpec kernel;
  kernel.name = json.GetString("name");
  const std::string family = json.GetString("family");
  if (family == "outer") {
    kernel.family = KernelFamily::kOuter;
  } else if (family == "dot") {
    kernel.family = KernelFamily::kDot;
  } else {
    TVM_FFI_THROW(ValueError) << json.where() << ".family must be \"outer\" or \"dot\", got \""
                              << family << "\"";
  }
  const int64_t um = json.GetInt("um"), un = json.GetInt("un");
  const bool whole_panels = kernel.family == KernelFamily::kDot || un % panel == 0;
  if (um < 1 || um > kMaxTileRows || un < 1 || un > kMaxTileCols || !whole_panels) {
    TVM_FFI_THROW(ValueError) << json.where() << " (" << kernel.name << ") has the tile " << um
                              << "x" << un << ", expected 1.." << kMaxTileRows << " rows and 1.."
                              << kMaxTileCols << " columns in whole panels of " << panel;
  }
  kernel.um = static_cast<int32_t>(um);
  kernel.un = static_cast<int32_t>(un);
  const JsonReader cost = json.GetObject("cost");
  const std::vector<float> packed_us = ReadCosts(cost, "packed", grid);
  // A kernel that reads one layout only has one table.
  const auto read_or = [&](const char* key, const std::vector<float>& other) {
    return cost.Has(key) ? ReadCosts(cost, key, grid) : other;
  };
  kernel.packed_us = {packed_us, read_or("packed_aliased", packed_us),
                      read_or("packed_unaligned", packed_us)};
  const std::vector<float> strided_us = read_or("strided", packed_us);
  kernel.strided_us = {strided_us, read_or("aliased", strided_us),
                       read_or("unaligned", strided_us)};
  return kernel;
}

}  // namespace

Manifest Manifest::Parse(const tvm::ffi::String& text) {
  return FromJson(JsonReader::Parse(text, "manifest"));
}

Manifest Manifest::FromJson(const JsonReader& json) {
  const int64_t schema = json.GetInt("schema");
  if (schema != kManifestSchema) {
    TVM_FFI_THROW(ValueError) << json.where() << " has schema " << schema
                              << ", this library reads schema " << kManifestSchema
                              << "; rebuild the artifact with `moonpoly export`";
  }
  Manifest out;
  const JsonReader target = json.GetObject("target");
  out.target = target.GetString("name");
  out.num_pes = static_cast<int32_t>(target.GetInt("num_pes"));
  out.op = json.GetString("op");
  out.dtype = json.GetString("dtype");
  if (out.op != "gemm" || out.dtype != "float32") {
    TVM_FFI_THROW(ValueError) << json.where() << " is for " << out.op << "/" << out.dtype
                              << ", expected gemm/float32";
  }
  const int64_t panel = json.GetInt("panel");
  if (panel != 8 && panel != 16) {
    TVM_FFI_THROW(ValueError) << json.where() << ".panel must be 8 or 16, got " << panel;
  }
  out.panel = static_cast<int32_t>(panel);
  const JsonReader grid = json.GetObject("grid");
  out.grid = CostGrid(grid.GetInts("k"), grid.GetInts("m_tiles"), grid.GetInts("n_tiles"));
  const JsonReader machine = json.GetObject("machine");
  out.machine = {machine.GetNumber("launch_us"), machine.GetNumber("call_us"),
                 machine.GetNumber("pack_us_per_kb"), machine.GetNumber("copy_us_per_kb")};
  std::set<std::string> names;
  for (const JsonReader& entry : json.GetObjects("kernels")) {
    out.kernels.push_back(ReadKernel(entry, out.grid, out.panel));
    if (!names.insert(out.kernels.back().name).second) {
      TVM_FFI_THROW(ValueError) << entry.where() << " repeats the kernel "
                                << out.kernels.back().name;
    }
  }
  if (out.kernels.empty() || out.kernels.size() > kMaxKernels) {
    TVM_FFI_THROW(ValueError) << json.where() << " must hold 1.." << kMaxKernels << " kernels, got "
                              << out.kernels.size();
  }
  return out;
}

}  // namespace moonpoly
