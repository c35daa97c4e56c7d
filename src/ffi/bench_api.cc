/*!
 * \file ffi/bench_api.cc
 * \brief Measurements that have to be taken without Python in between, and facts of the machine.
 */
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <string>
#include <vector>

#include "artifact/kernel_set.h"
#include "ffi/measurement.h"
#include "model/sites.h"
#include "select/plan_cache.h"
#include "select/selector.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

// Microseconds of each selection for the problems (m, n, k) in `flat`.
ffi::Tensor BenchSelect(const KernelSet& ks, const ffi::Shape& flat, int64_t b_mode,
                        int64_t threads, bool cached) {
  if (flat.size() % 3 != 0) {
    TVM_FFI_THROW(ValueError) << "expected triples m, n, k, got " << flat.size() << " extents";
  }
  if (b_mode < 0 || b_mode > 3 || threads < 1) {
    TVM_FFI_THROW(ValueError) << "expected b_mode 0..3 and threads of 1 or more, got " << b_mode
                              << " and " << threads;
  }
  const int64_t count = static_cast<int64_t>(flat.size()) / 3;
  std::vector<double> us;
  for (int64_t i = 0; i < count; ++i) {
    const Problem problem{1,
                          flat[i * 3],
                          flat[i * 3 + 1],
                          flat[i * 3 + 2],
                          static_cast<BMode>(b_mode),
                          static_cast<int32_t>(threads)};
    us.push_back(SelectionUs(cached, [&] {
      return cached ? CachedPlan(*ks.get(), problem).predicted_us
                    : SelectPlan(*ks.get(), problem).predicted_us;
    }));
  }
  return ToTensor(us);
}

// Nanoseconds of one look-up of a call site, over these ids in turn: the median of a few rounds.
double BenchSiteLookup(const ffi::Shape& ids) {
  if (ids.empty()) TVM_FFI_THROW(ValueError) << "expected ids of call sites, got none";
  constexpr int64_t kLookups = 1 << 20;
  constexpr int kRounds = 9;
  const int64_t passes = std::max<int64_t>(1, kLookups / static_cast<int64_t>(ids.size()));
  const Site* volatile sink = nullptr;
  for (int64_t id : ids) sink = &FindSite(id);
  double rounds[kRounds];
  for (double& round : rounds) {
    const Clock::time_point start = Clock::now();
    for (int64_t pass = 0; pass < passes; ++pass) {
      for (int64_t id : ids) sink = &FindSite(id);
    }
    round = MicrosSince(start) * 1e3 / static_cast<double>(passes * ids.size());
  }
  (void)sink;
  std::sort(rounds, rounds + kRounds);
  return rounds[kRounds / 2];
}

// The features that kernels may need and this machine has, in the operating system's spelling.
ffi::String CpuFeatures() {
  std::string out;
#if defined(__x86_64__)
  __builtin_cpu_init();
#define MOONPOLY_FEATURE(name) \
  if (__builtin_cpu_supports(name)) out += out.empty() ? name : " " name
  MOONPOLY_FEATURE("avx2");
  MOONPOLY_FEATURE("fma");
  MOONPOLY_FEATURE("avx512f");
  MOONPOLY_FEATURE("avx512bw");
  MOONPOLY_FEATURE("avx512vl");
  MOONPOLY_FEATURE("avx512dq");
#undef MOONPOLY_FEATURE
#endif
  return out;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("moonpoly.bench_select", BenchSelect)
      .def("moonpoly.bench_site_lookup", BenchSiteLookup)
      .def("moonpoly.cache_bytes",
           []() {
             const CacheSizes caches = HostCacheSizes();
             return ffi::Shape({caches.l1_bytes, caches.l2_bytes, caches.l3_bytes});
           })
      .def("moonpoly.cpu_features", CpuFeatures);
}

}  // namespace moonpoly
