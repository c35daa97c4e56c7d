/*!
 * \file launch/threads.cc
 */
#include "launch/threads.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

namespace tvm {
namespace runtime {
namespace threading {
// Exported by libtvm_runtime; its header is not part of the package.
TVM_RUNTIME_DLL int NumThreads();
TVM_RUNTIME_DLL int MaxConcurrency();
TVM_RUNTIME_DLL void SetMaxConcurrency(int value);
}  // namespace threading
}  // namespace runtime
}  // namespace tvm

namespace moonpoly {

namespace {

std::atomic<int32_t> g_requested{0};

int32_t PositiveFromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  const int32_t count = text == nullptr ? 0 : std::atoi(text);
  return count > 0 ? count : 0;
}

int32_t UsableCores() {
#if defined(__linux__)
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
#endif
  return static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
}

int32_t PoolThreads() {
  namespace threading = tvm::runtime::threading;
  // Left alone, TVM takes half of the cores, as if each were a hyper-thread of two.
  if (PositiveFromEnvironment("TVM_NUM_THREADS") == 0 &&
      PositiveFromEnvironment("OMP_NUM_THREADS") == 0) {
    const int32_t requested = PositiveFromEnvironment("MOONPOLY_NUM_THREADS");
    threading::SetMaxConcurrency(requested > 0 ? requested : UsableCores());
  }
  // A pool of one runs the caller only; asking for its size would start it for nothing.
  if (threading::MaxConcurrency() == 1) return 1;
  return std::max(1, threading::NumThreads());
}

}  // namespace

int32_t MaxThreads() {
  // Reading the pool's size costs more than selecting a cached plan.
  static thread_local const int32_t pool = PoolThreads();
  return pool;
}

int32_t NumThreads() {
  static const int32_t environment = PositiveFromEnvironment("MOONPOLY_NUM_THREADS");
  const int32_t pool = MaxThreads();
  int32_t requested = g_requested.load(std::memory_order_relaxed);
  if (requested == 0) requested = environment;
  return requested == 0 ? pool : std::min(requested, pool);
}

void SetNumThreads(int32_t count) { g_requested.store(count, std::memory_order_relaxed); }

}  // namespace moonpoly
