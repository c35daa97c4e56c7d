/*!
 * \file cuda/driver.cc
 */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <tvm/ffi/error.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>

namespace moonpoly {
namespace cuda {

namespace {

constexpr int kMaxDevices = 64;

Driver OpenDriver() {
  const char* named = std::getenv("MOONPOLY_CUDA_DRIVER");
  const char* path = named != nullptr && named[0] != '\0' ? named : "libcuda.so.1";
  // Kept open for the life of the process, as every CUDA program does.
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    TVM_FFI_THROW(RuntimeError) << "no CUDA driver: " << dlerror()
                                << "; run on a machine with an NVIDIA GPU and its driver";
  }
  Driver driver;
#define MOONPOLY_CUDA_RESOLVE(name, arguments)                                      \
  driver.name = reinterpret_cast<Result(*) arguments>(dlsym(library, #name));       \
  if (driver.name == nullptr) {                                                     \
    TVM_FFI_THROW(RuntimeError) << "the CUDA driver " << path << " lacks " << #name \
                                << "; a driver for CUDA 12.0 or newer is needed";   \
  }
  MOONPOLY_CUDA_FUNCTIONS(MOONPOLY_CUDA_RESOLVE)
#undef MOONPOLY_CUDA_RESOLVE
  if (const Result result = driver.cuInit(0); result != 0) {
    TVM_FFI_THROW(RuntimeError) << "the CUDA driver can't be used: error " << result
                                << " from cuInit; is there a GPU that this process may see?";
  }
  return driver;
}

}  // namespace

const Driver& GetDriver() {
  // A failed attempt throws and is repeated by the next call.
  static const Driver driver = OpenDriver();
  return driver;
}

void Check(Result result, const char* what) {
  if (result == 0) return;
  const char* text = nullptr;
  GetDriver().cuGetErrorString(result, &text);
  TVM_FFI_THROW(RuntimeError) << what << " failed: CUDA error " << result << " ("
                              << (text != nullptr ? text : "unknown") << ")";
}

Context UseDevice(int ordinal) {
  static std::array<std::atomic<Context>, kMaxDevices> contexts{};
  static std::mutex mutex;
  if (ordinal < 0 || ordinal >= kMaxDevices) {
    TVM_FFI_THROW(ValueError) << "a CUDA device must be 0.." << kMaxDevices - 1 << ", got "
                              << ordinal;
  }
  const Driver& driver = GetDriver();
  Context context = contexts[ordinal].load(std::memory_order_acquire);
  if (context == nullptr) {
    std::lock_guard<std::mutex> lock(mutex);
    context = contexts[ordinal].load(std::memory_order_relaxed);
    if (context == nullptr) {
      Device device = 0;
      Check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
      // Retained for the life of the process: modules live in it.
      Check(driver.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
      contexts[ordinal].store(context, std::memory_order_release);
    }
  }
  Context current = nullptr;
  Check(driver.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  if (current != context) Check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
  return context;
}

void Launch(Function function, unsigned blocks, unsigned threads, unsigned shared_bytes,
            unsigned cluster, bool overlap, Stream stream, void** arguments) {
  LaunchAttribute attributes[2];
  LaunchConfig config{{blocks, 1, 1}, {threads, 1, 1}, shared_bytes, stream, attributes, 0};
  if (cluster > 1) {
    LaunchAttribute& each = attributes[config.num_attributes++];
    each.id = kClusterDimension;
    each.value.cluster[0] = cluster;
    each.value.cluster[1] = each.value.cluster[2] = 1;
  }
  if (overlap) {
    LaunchAttribute& each = attributes[config.num_attributes++];
    each.id = kProgrammaticStreamSerialization;
    each.value.allowed = 1;
  }
  Check(GetDriver().cuLaunchKernelEx(&config, function, arguments, nullptr), "cuLaunchKernelEx");
}

}  // namespace cuda
}  // namespace moonpoly
