/*!
 * \file artifact/gpu_kernel_set.h
 * \brief A loaded artifact of a GPU: micro-kernels with their costs and compiled code.
 */
#ifndef MOONPOLY_ARTIFACT_GPU_KERNEL_SET_H_
#define MOONPOLY_ARTIFACT_GPU_KERNEL_SET_H_

#include <tvm/ffi/container/map.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/string.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "artifact/gpu_manifest.h"
#include "artifact/gpu_serving.h"
#include "cuda/driver.h"

namespace moonpoly {

/*!
 * \brief Choosing a plan needs no GPU; the code is put on a device when it first runs there.
 *
 * Nothing that is read changes after construction, so many threads may use a set at once.
 */
class GpuKernelSetObj : public tvm::ffi::Object {
 public:
  using Images = tvm::ffi::Map<tvm::ffi::String, tvm::ffi::Bytes>;

  /*! \param images The compiled code by the names that the manifest gives; empty to only plan. */
  GpuKernelSetObj(GpuManifest manifest, Images images);

  int32_t num_kernels() const { return static_cast<int32_t>(manifest_.kernels.size()); }
  const GpuKernelSpec& kernel(int32_t index) const { return manifest_.kernels[index]; }
  /*! \brief Index of the kernel called `name`, or -1. */
  int32_t FindKernel(const std::string& name) const;
  const GpuManifest& manifest() const { return manifest_; }
  const GpuServing& serving() const { return serving_; }
  /*! \brief Whether any kernel's costs are corrected by what launches took. */
  bool corrected() const { return corrected_; }
  /*! \brief Distinct for every set made in this process: what memoised plans are kept under. */
  uint64_t id() const { return id_; }

  /*!
   * \brief The functions of all kernels on a device, whose context must be current.
   *
   * The first call for a device loads the code; it throws RuntimeError if that fails, as it does
   * while `stream` captures a graph.
   */
  const std::vector<cuda::Function>& Functions(int device, cuda::Stream stream) const;

  static constexpr bool _type_mutable = false;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("moonpoly.GpuKernelSet", GpuKernelSetObj, tvm::ffi::Object);

 private:
  using FunctionTable = std::vector<cuda::Function>;
  static constexpr int kMaxDevices = 64;

  std::unique_ptr<FunctionTable> Load(cuda::Stream stream) const;

  GpuManifest manifest_;
  GpuServing serving_;
  Images images_;
  uint64_t id_;
  bool corrected_;
  mutable std::mutex mutex_;
  mutable std::array<std::atomic<const FunctionTable*>, kMaxDevices> loaded_{};
  mutable std::vector<std::unique_ptr<FunctionTable>> tables_;
};

class GpuKernelSet : public tvm::ffi::ObjectRef {
 public:
  GpuKernelSet(GpuManifest manifest, GpuKernelSetObj::Images images)
      : GpuKernelSet(
            tvm::ffi::make_object<GpuKernelSetObj>(std::move(manifest), std::move(images))) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(GpuKernelSet, tvm::ffi::ObjectRef, GpuKernelSetObj);
  explicit GpuKernelSet(tvm::ffi::ObjectPtr<GpuKernelSetObj> n)
      : tvm::ffi::ObjectRef(std::move(n)) {}
};

}  // namespace moonpoly

#endif  // MOONPOLY_ARTIFACT_GPU_KERNEL_SET_H_
