/*!
 * \file artifact/kernel_set.cc
 */
#include "artifact/kernel_set.h"

#include <unistd.h>

#include <atomic>
#include <utility>

namespace moonpoly {

namespace {

int64_t CacheBytes(int name, int64_t fallback) {
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<int64_t>(bytes) : fallback;
}

}  // namespace

CacheSizes HostCacheSizes() {
  constexpr int64_t kDefaultL1 = 32 << 10, kDefaultL2 = 512 << 10;
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
  return {CacheBytes(_SC_LEVEL1_DCACHE_SIZE, kDefaultL1),
          CacheBytes(_SC_LEVEL2_CACHE_SIZE, kDefaultL2)};
#else
  return {kDefaultL1, kDefaultL2};
#endif
}

KernelSetObj::KernelSetObj(Manifest manifest, const tvm::ffi::Module& lib)
    : manifest_(std::move(manifest)), caches_(HostCacheSizes()) {
  static std::atomic<uint64_t> next_id{1};
  id_ = next_id.fetch_add(1, std::memory_order_relaxed);
  kernels_.reserve(manifest_.kernels.size());
  for (const KernelSpec& spec : manifest_.kernels) {
    tvm::ffi::Function function = ResolveFunction(lib, spec.name);
    auto* cell = const_cast<tvm::ffi::FunctionObj*>(
        static_cast<const tvm::ffi::FunctionObj*>(function.get()));
    kernels_.push_back({spec.name, spec.family, spec.um, spec.un, spec.packed_us.data(),
                        spec.strided_us.data(), function, cell->safe_call, cell});
  }
}

int32_t KernelSetObj::FindKernel(const std::string& name) const {
  for (int32_t i = 0; i < num_kernels(); ++i) {
    if (kernels_[i].name == name) return i;
  }
  return -1;
}

}  // namespace moonpoly
