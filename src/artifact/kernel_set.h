/*!
 * \file artifact/kernel_set.h
 * \brief A loaded artifact: micro-kernels with their costs and compiled code.
 */
#ifndef MOONPOLY_ARTIFACT_KERNEL_SET_H_
#define MOONPOLY_ARTIFACT_KERNEL_SET_H_

#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/object.h>

#include <array>
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

  /*! \brief Kernels that can be the best for a large problem of about this depth, as bits. */
  uint64_t BulkKernels(RowKind rows, int64_t depth) const {
    const auto& bits = bulk_kernels_[static_cast<size_t>(rows)];
    size_t next = 0;
    while (next + 1 < kNumDepths && kDepths[next] < depth) ++next;
    return bits[next] | bits[next == 0 ? 0 : next - 1];
  }
  /*! \brief The fastest kernels for a wide band of `rows` rows that is left over, as bits. */
  uint64_t BandKernels(int64_t rows) const {
    return rows <= kMaxLeftover ? band_kernels_[rows] : all_kernels_;
  }
  /*! \brief The fastest outer kernels for a tall strip of `panels` panels, as bits. */
  uint64_t StripKernels(int64_t panels) const {
    return panels <= kMaxLeftover ? strip_kernels_[panels] : all_kernels_;
  }
  /*! \brief The fastest dot kernels for a wide band, or a tall strip of so many columns. */
  uint64_t DotBandKernels(int64_t rows) const {
    return rows <= kMaxLeftover ? dot_band_kernels_[rows] : all_kernels_;
  }
  uint64_t DotStripKernels(int64_t cols) const {
    return cols <= kMaxLeftover ? dot_strip_kernels_[cols] : all_kernels_;
  }
  /*! \brief Distinct for every set made in this process: what cached plans are kept under. */
  uint64_t id() const { return id_; }

  static constexpr bool _type_mutable = false;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("moonpoly.KernelSet", KernelSetObj, tvm::ffi::Object);

 private:
  // Leftovers are smaller than two tiles.
  static constexpr int64_t kMaxLeftover = 128;
  static constexpr size_t kNumDepths = 5;
  static constexpr std::array<int64_t, kNumDepths> kDepths = {4, 16, 64, 256, 1024};
  using KernelBits = std::array<uint64_t, kMaxLeftover + 1>;

  void IndexLeftovers();
  uint64_t FindBulkKernels(size_t row_kind, int64_t depth) const;
  uint64_t FindFastest(KernelFamily family, int64_t rows, int64_t cols) const;

  Manifest manifest_;
  std::vector<MicroKernel> kernels_;
  CacheSizes caches_;
  uint64_t id_;
  uint64_t all_kernels_ = 0;
  std::array<std::array<uint64_t, kNumDepths>, kNumRowKinds> bulk_kernels_{};
  KernelBits band_kernels_{};
  KernelBits dot_band_kernels_{};
  KernelBits strip_kernels_{};
  KernelBits dot_strip_kernels_{};
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
