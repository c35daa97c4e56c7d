/*!
 * \file artifact/kernel_set.h
 * \brief A loaded artifact: micro-kernels with their costs and compiled code.
 */
#ifndef MOONPOLY_ARTIFACT_KERNEL_SET_H_
#define MOONPOLY_ARTIFACT_KERNEL_SET_H_

#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/object.h>

#include <cstdint>
#include <string>
#include <vector>

#include "artifact/manifest.h"
#include "artifact/micro_kernel.h"

namespace moonpoly {

/*! \brief Cache sizes: the first two are one processing unit's own, the last is shared by all. */
struct CacheSizes {
  int64_t l1_bytes;
  int64_t l2_bytes;
  int64_t l3_bytes;
};

/*! \brief Read the cache sizes of this machine; modest defaults where it does not tell. */
CacheSizes HostCacheSizes();

/*! \brief Immutable after construction, so safe to use from many threads at once. */
class KernelSetObj : public tvm::ffi::Object {
 public:
  /*! \brief Resolve every kernel of the manifest in `lib`. Throws ValueError. */
  KernelSetObj(Manifest manifest, const tvm::ffi::Module& lib);

  int32_t num_kernels() const { return static_cast<int32_t>(kernels_.size()); }
  const MicroKernel& kernel(int32_t index) const { return kernels_[index]; }
  /*! \brief Index of the kernel called `name`, or -1. */
  int32_t FindKernel(const std::string& name) const;
  const CostGrid& grid() const { return manifest_.grid; }
  const MachineSpec& machine() const { return manifest_.machine; }
  const Manifest& manifest() const { return manifest_; }
  const CacheSizes& caches() const { return caches_; }
  int32_t panel() const { return manifest_.panel; }
  /*! \brief Distinct for every set made in this process: what cached plans are kept under. */
  uint64_t id() const { return id_; }

  static constexpr bool _type_mutable = false;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("moonpoly.KernelSet", KernelSetObj, tvm::ffi::Object);

 private:
  Manifest manifest_;
  std::vector<MicroKernel> kernels_;
  CacheSizes caches_;
  uint64_t id_;
};

class KernelSet : public tvm::ffi::ObjectRef {
 public:
  KernelSet(Manifest manifest, const tvm::ffi::Module& lib)
      : KernelSet(tvm::ffi::make_object<KernelSetObj>(std::move(manifest), lib)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(KernelSet, tvm::ffi::ObjectRef, KernelSetObj);
  explicit KernelSet(tvm::ffi::ObjectPtr<KernelSetObj> n) : tvm::ffi::ObjectRef(std::move(n)) {}
};

}  // namespace moonpoly

#endif  // MOONPOLY_ARTIFACT_KERNEL_SET_H_
