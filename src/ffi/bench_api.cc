/*!
 * \file ffi/bench_api.cc
 * \brief Measurements that have to be taken without Python in between, and facts of the machine.
 */
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "artifact/kernel_set.h"
#include "artifact/micro_kernel.h"
#include "launch/scratch.h"
#include "model/sites.h"
#include "select/plan_cache.h"
#include "select/selector.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

using Clock = std::chrono::steady_clock;

double MicrosSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

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
  struct Allocator {
    void AllocData(DLTensor* tensor) { tensor->data = new double[tensor->shape[0]]; }
    void FreeData(DLTensor* tensor) { delete[] static_cast<double*>(tensor->data); }
  };
  const int64_t count = static_cast<int64_t>(flat.size()) / 3;
  ffi::Tensor out = ffi::Tensor::FromNDAlloc(Allocator(), ffi::ShapeView(&count, 1),
                                             DLDataType{kDLFloat, 64, 1}, DLDevice{kDLCPU, 0});
  double* us = static_cast<double*>(out.data_ptr());
  // A look-up is shorter than the clock's step: many are timed together.
  constexpr int kLookups = 1000, kSelections = 3;
  volatile float sink = 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    const Problem problem{1,
                          flat[i * 3],
                          flat[i * 3 + 1],
                          flat[i * 3 + 2],
                          static_cast<BMode>(b_mode),
                          static_cast<int32_t>(threads)};
    if (cached) {
      sink = CachedPlan(*ks.get(), problem).predicted_us;
      const Clock::time_point start = Clock::now();
      for (int j = 0; j < kLookups; ++j) sink = CachedPlan(*ks.get(), problem).predicted_us;
      us[i] = MicrosSince(start) / kLookups;
    } else {
      // The median of three: an interrupt during one is not the selector's time.
      double times[kSelections];
      for (double& time : times) {
        const Clock::time_point start = Clock::now();
        sink = SelectPlan(*ks.get(), problem).predicted_us;
        time = MicrosSince(start);
      }
      std::sort(times, times + kSelections);
      us[i] = times[kSelections / 2];
    }
  }
  (void)sink;
  return out;
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

/*! \brief Floats on huge pages for the time of a measurement. */
class Buffer {
 public:
  explicit Buffer(int64_t count) : data_(AllocateFloats(count)) {
    if (data_ == nullptr) TVM_FFI_THROW(MemoryError) << "can't allocate " << count << " floats";
    std::fill(data_, data_ + count, 0.5f);
  }
  ~Buffer() { FreeFloats(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  float* get() const { return data_; }

 private:
  float* data_;
};

// Rows of a strided B are this much longer than the tiles, as a B that is part of something wider.
constexpr int64_t kStridedMargin = 16;

// Median microseconds of one task, called on m_tiles x n_tiles of them.
double SampleTask(const ffi::String& name, const ffi::Module& lib, int64_t um, int64_t un,
                  int64_t m_tiles, int64_t n_tiles, int64_t k, bool strided, double min_us,
                  int64_t panel) {
  const int64_t extents[] = {um, un, m_tiles, n_tiles, k};
  for (int64_t extent : extents) {
    if (extent < 1) TVM_FFI_THROW(ValueError) << "extents must be positive, got " << extent;
  }
  const ffi::Function function = ResolveFunction(lib, name);
  auto* cell = const_cast<ffi::FunctionObj*>(static_cast<const ffi::FunctionObj*>(function.get()));
  const bool dot = std::string(name).find("_dot_") != std::string::npos;
  if (panel < 1 || (!dot && un % panel != 0)) {
    TVM_FFI_THROW(ValueError) << "the panel must divide the tile width " << un << ", got " << panel;
  }
  const MicroKernel kernel{std::string(name),
                           dot ? KernelFamily::kDot : KernelFamily::kOuter,
                           static_cast<int32_t>(um),
                           static_cast<int32_t>(un),
                           nullptr,
                           nullptr,
                           function,
                           cell->safe_call,
                           cell};
  const int64_t m = um * m_tiles, n = un * n_tiles, ldb = n + kStridedMargin;
  const Buffer a(m * k), b(dot ? n * k : (strided ? ldb : n) * k), c(m * n);
  const int64_t b_n = dot ? k : (strided ? panel : k * panel);
  const int64_t b_k = dot ? 1 : (strided ? ldb : panel);
  KernelCall call;
  const auto run = [&](int64_t times) {
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < times; ++i) {
      if (call.Run(kernel, m, n, k, a.get(), k, 1, b.get(), b_n, b_k, static_cast<int32_t>(panel),
                   c.get(), n, false) != 0) {
        throw ffi::details::MoveFromSafeCallRaised();
      }
    }
    return MicrosSince(start) / static_cast<double>(times);
  };
  run(1);
  // Bursts long enough for the clock; the median over them drops interrupts.
  constexpr double kBurstUs = 20.0;
  constexpr int kMinBursts = 5;
  const double once = std::max(run(1), 0.01);
  const int64_t times = std::max<int64_t>(1, static_cast<int64_t>(kBurstUs / once));
  std::vector<double> bursts;
  const Clock::time_point start = Clock::now();
  while (static_cast<int>(bursts.size()) < kMinBursts || MicrosSince(start) < min_us) {
    bursts.push_back(run(times));
  }
  std::nth_element(bursts.begin(), bursts.begin() + bursts.size() / 2, bursts.end());
  return bursts[bursts.size() / 2] / static_cast<double>(m_tiles * n_tiles);
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
      .def("moonpoly.sample_task", SampleTask)
      .def("moonpoly.cpu_features", CpuFeatures);
}

}  // namespace moonpoly
