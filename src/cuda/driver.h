/*!
 * \file cuda/driver.h
 * \brief The part of the CUDA driver's interface that is used here, found at run time.
 *
 * The library is built and loaded on machines without CUDA: the driver is opened when a GPU is
 * first asked for. The declarations follow the driver's documented binary interface, which keeps
 * compatible within a version suffix such as _v2.
 */
#ifndef MOONPOLY_CUDA_DRIVER_H_
#define MOONPOLY_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>

namespace moonpoly {
namespace cuda {

using Result = int;
using Device = int;
using DevicePtr = unsigned long long;  // NOLINT(runtime/int): the driver's own type
using Context = struct ContextOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Stream = struct StreamOpaque*;
using Event = struct EventOpaque*;
using Graph = struct GraphOpaque*;
using GraphExec = struct GraphExecOpaque*;

/*! \brief An opaque descriptor of a tensor in global memory, passed to kernels by value. */
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

enum LaunchAttributeId : int { kClusterDimension = 4, kProgrammaticStreamSerialization = 6 };

struct LaunchAttribute {
  LaunchAttributeId id;
  int pad;
  union {
    char bytes[64];
    unsigned cluster[3];
    int allowed;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72, "the driver's layout");

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned num_attributes;
};

enum TensorMapType : int { kMapUint8 = 0, kMapFloat16 = 6, kMapBfloat16 = 9, kMapTfloat32 = 11 };
enum DeviceAttribute : int { kMultiprocessors = 16 };
enum FunctionAttribute : int { kMaxDynamicSharedBytes = 8, kPreferredSharedPercent = 9 };
enum CaptureMode : int { kCaptureThreadLocal = 1 };
enum CaptureStatus : int { kCaptureNone = 0 };

// name in the driver, result of a call, arguments
#define MOONPOLY_CUDA_FUNCTIONS(F)                                                             \
  F(cuInit, (unsigned flags))                                                                  \
  F(cuGetErrorString, (Result error, const char** text))                                       \
  F(cuDeviceGet, (Device * device, int ordinal))                                               \
  F(cuDeviceGetAttribute, (int* value, DeviceAttribute attribute, Device device))              \
  F(cuDeviceGetName, (char* name, int length, Device device))                                  \
  F(cuDevicePrimaryCtxRetain, (Context * context, Device device))                              \
  F(cuCtxGetCurrent, (Context * context))                                                      \
  F(cuCtxSetCurrent, (Context context))                                                        \
  F(cuModuleLoadData, (Module * module, const void* image))                                    \
  F(cuModuleGetFunction, (Function * function, Module module, const char* name))               \
  F(cuFuncSetAttribute, (Function function, FunctionAttribute attribute, int value))           \
  F(cuLaunchKernelEx,                                                                          \
    (const LaunchConfig* config, Function function, void** arguments, void** extra))           \
  F(cuTensorMapEncodeTiled,                                                                    \
    (TensorMap * map, TensorMapType type, uint32_t rank, void* address, const uint64_t* shape, \
     const uint64_t* strides_bytes, const uint32_t* box, const uint32_t* element_strides,      \
     int interleave, int swizzle, int l2_promotion, int out_of_bounds_fill))                   \
  F(cuMemAlloc_v2, (DevicePtr * address, size_t bytes))                                        \
  F(cuMemFree_v2, (DevicePtr address))                                                         \
  F(cuMemsetD8Async, (DevicePtr address, unsigned char value, size_t bytes, Stream stream))    \
  F(cuMemsetD2D8Async, (DevicePtr address, size_t pitch, unsigned char value, size_t width,    \
                        size_t height, Stream stream))                                         \
  F(cuStreamCreate, (Stream * stream, unsigned flags))                                         \
  F(cuStreamSynchronize, (Stream stream))                                                      \
  F(cuStreamIsCapturing, (Stream stream, CaptureStatus * status))                              \
  F(cuStreamBeginCapture_v2, (Stream stream, CaptureMode mode))                                \
  F(cuStreamEndCapture, (Stream stream, Graph * graph))                                        \
  F(cuGraphInstantiateWithFlags, (GraphExec * exec, Graph graph, unsigned long long flags))    \
  F(cuGraphUpload, (GraphExec exec, Stream stream))                                            \
  F(cuGraphLaunch, (GraphExec exec, Stream stream))                                            \
  F(cuGraphExecDestroy, (GraphExec exec))                                                      \
  F(cuGraphDestroy, (Graph graph))                                                             \
  F(cuEventCreate, (Event * event, unsigned flags))                                            \
  F(cuEventDestroy_v2, (Event event))                                                          \
  F(cuEventRecord, (Event event, Stream stream))                                               \
  F(cuEventElapsedTime, (float* milliseconds, Event start, Event end))

/*! \brief The driver's functions, under their own names. */
struct Driver {
#define MOONPOLY_CUDA_DECLARE(name, arguments) Result(*name) arguments = nullptr;
  MOONPOLY_CUDA_FUNCTIONS(MOONPOLY_CUDA_DECLARE)
#undef MOONPOLY_CUDA_DECLARE
};

/*!
 * \brief The driver of this machine, opened and initialised on the first call.
 *
 * Throws RuntimeError if there is none. MOONPOLY_CUDA_DRIVER names another library than
 * libcuda.so.1, such as one that stands in for a GPU in tests.
 */
const Driver& GetDriver();

/*! \brief Throws RuntimeError with the driver's text unless `result` is success. */
void Check(Result result, const char* what);

/*! \brief Make the primary context of a device current in this thread, and return it. */
Context UseDevice(int ordinal);

/*! \brief Launch; `cluster` blocks form a cluster, `overlap` lets it start before the end of its
 *         predecessor in the stream. */
void Launch(Function function, unsigned blocks, unsigned threads, unsigned shared_bytes,
            unsigned cluster, bool overlap, Stream stream, void** arguments);

}  // namespace cuda
}  // namespace moonpoly

#endif  // MOONPOLY_CUDA_DRIVER_H_
