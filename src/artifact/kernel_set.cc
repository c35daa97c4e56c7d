/*!
 * \file artifact/kernel_set.cc
 */
#include "artifact/kernel_set.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <utility>

namespace moonpoly {

namespace {

// Under a hypervisor only sysfs knows the part of a shared cache that the guest has.
int64_t CacheBytes(int index, int64_t fallback) {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
  int64_t kilobytes = 0;
  char unit = 0;
  if (!(file >> kilobytes >> unit) || kilobytes <= 0 || unit != 'K') return fallback;
  return kilobytes << 10;
}

}  // namespace

CacheSizes HostCacheSizes() {
  // Index 1 is the instruction cache.
  return {CacheBytes(0, 32 << 10), CacheBytes(2, 512 << 10), CacheBytes(3, 8 << 20)};
}

namespace {

std::array<const float*, kNumRowKinds> TablesOf(
    const std::array<std::vector<float>, kNumRowKinds>& tables) {
  std::array<const float*, kNumRowKinds> out;
  for (size_t kind = 0; kind < kNumRowKinds; ++kind) out[kind] = tables[kind].data();
  return out;
}

}  // namespace

KernelSetObj::KernelSetObj(Manifest manifest, const tvm::ffi::Module& lib)
    : manifest_(std::move(manifest)), caches_(HostCacheSizes()) {
  static std::atomic<uint64_t> next_id{1};
  id_ = next_id.fetch_add(1, std::memory_order_relaxed);
  kernels_.reserve(manifest_.kernels.size());
  for (const KernelSpec& spec : manifest_.kernels) {
    const KernelCode code(ResolveFunction(lib, spec.name));
    kernels_.push_back({spec.name, spec.family, spec.um, spec.un, TablesOf(spec.packed_us),
                        TablesOf(spec.strided_us), code,
                        ResolveVersion(lib, spec.name + kFarRowsSuffix, code),
                        ResolveVersion(lib, spec.name + kFarPanelsSuffix, code)});
  }
  IndexLeftovers();
}

void KernelSetObj::IndexLeftovers() {
  for (int32_t i = 0; i < num_kernels(); ++i) all_kernels_ |= uint64_t{1} << i;
  for (size_t kind = 0; kind < kNumRowKinds; ++kind) {
    for (size_t i = 0; i < kNumDepths; ++i) {
      bulk_kernels_[kind][i] = FindBulkKernels(kind, kDepths[i]);
    }
  }
  constexpr int64_t kLong = 512;
  for (int64_t size = 1; size <= kMaxLeftover; ++size) {
    band_kernels_[size] = FindFastest(KernelFamily::kOuter, size, kLong);
    dot_band_kernels_[size] = FindFastest(KernelFamily::kDot, size, kLong);
    strip_kernels_[size] = FindFastest(KernelFamily::kOuter, kLong, size * panel());
    dot_strip_kernels_[size] = FindFastest(KernelFamily::kDot, kLong, size);
  }
}

uint64_t KernelSetObj::FindBulkKernels(size_t row_kind, int64_t depth) const {
  constexpr float kNearlyBest = 1.15f;
  constexpr int64_t kMany = 16;
  const AxisPoint m = grid().LocateRowTiles(kMany), n = grid().LocateColTiles(kMany);
  const AxisPoint k = grid().LocateK(depth);
  uint64_t bits = 0;
  for (const auto tables : {&MicroKernel::packed_us, &MicroKernel::strided_us}) {
    const auto rate = [&](const MicroKernel& kernel) {
      const float task_us = grid().TaskUs((kernel.*tables)[row_kind], k, m, n);
      return task_us / static_cast<float>(kernel.um * kernel.un);
    };
    float best = rate(kernels_.front());
    for (const MicroKernel& kernel : kernels_) best = std::min(best, rate(kernel));
    for (int32_t i = 0; i < num_kernels(); ++i) {
      if (rate(kernels_[i]) <= kNearlyBest * best) bits |= uint64_t{1} << i;
    }
  }
  return bits;
}

uint64_t KernelSetObj::FindFastest(KernelFamily family, int64_t rows, int64_t cols) const {
  constexpr size_t kFastest = 3;
  constexpr int64_t kTypicalDepth = 256;
  const AxisPoint k = grid().LocateK(kTypicalDepth);
  std::vector<std::pair<float, int32_t>> ranked;
  for (int32_t i = 0; i < num_kernels(); ++i) {
    const MicroKernel& kernel = kernels_[i];
    if (kernel.family != family) continue;
    // Padding counts.
    const int64_t row_tiles = (rows + kernel.um - 1) / kernel.um;
    const int64_t col_tiles = (cols + kernel.un - 1) / kernel.un;
    // Leftovers mean that rows are rarely whole cache lines.
    const float* table = kernel.packed_us[static_cast<size_t>(RowKind::kUnaligned)];
    const float task_us =
        grid().TaskUs(table, k, grid().LocateRowTiles(row_tiles), grid().LocateColTiles(col_tiles));
    ranked.emplace_back(task_us * static_cast<float>(row_tiles * col_tiles), i);
  }
  std::sort(ranked.begin(), ranked.end());
  uint64_t bits = 0;
  for (size_t i = 0; i < std::min(ranked.size(), kFastest); ++i) {
    bits |= uint64_t{1} << ranked[i].second;
  }
  return bits;
}

int32_t KernelSetObj::FindKernel(const std::string& name) const {
  for (int32_t i = 0; i < num_kernels(); ++i) {
    if (kernels_[i].name == name) return i;
  }
  return -1;
}

}  // namespace moonpoly
