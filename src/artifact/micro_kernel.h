/*!
 * \file artifact/micro_kernel.h
 * \brief A compiled micro-kernel and how it is called.
 */
#ifndef MOONPOLY_ARTIFACT_MICRO_KERNEL_H_
#define MOONPOLY_ARTIFACT_MICRO_KERNEL_H_

#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <array>
#include <cstdint>
#include <string>

#include "artifact/manifest.h"

namespace moonpoly {

/*! \brief A compiled function. */
struct KernelCode {
  explicit KernelCode(tvm::ffi::Function compiled);

  /*! \brief Keeps the library loaded. */
  tvm::ffi::Function function;
  TVMFFISafeCallType safe_call;
  void* handle;
};

/*! \brief One micro-kernel: its tile, its costs and its compiled code. */
struct MicroKernel {
  std::string name;
  KernelFamily family;
  int32_t um;
  int32_t un;
  /*! \brief Task costs by RowKind: with B in packed panels, and with B as it lies. */
  std::array<const float*, kNumRowKinds> packed_us;
  std::array<const float*, kNumRowKinds> strided_us;
  KernelCode code;
  // The same product with prefetches; `code` where there is no such version.
  /*! \brief Fetches the rows of A that follow a tile's while it is computed: for rows from memory.
   */
  KernelCode far_rows_code;
  /*! \brief Fetches B some steps ahead: for the first rows to meet panels beyond the own caches. */
  KernelCode far_panels_code;
};

/*! \brief What the names of a kernel's versions end in. */
constexpr const char* kFarRowsSuffix = "_far_rows";
constexpr const char* kFarPanelsSuffix = "_far_panels";

/*!
 * \brief The arguments of micro-kernel calls, kept on the caller's stack and updated in place.
 *
 * All dtypes, ranks and the device are set once; a call sets addresses, extents and strides.
 */
class KernelCall {
 public:
  KernelCall();
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

  /*!
   * \brief C = A B, or C += A B with `accumulate`, on whole tiles.
   * \param m,n,k Extents in elements: m and n multiples of the tile, k >= 1.
   * \param a,a_m,a_k A and its strides in elements.
   * \param b,b_n,b_k B: for outer kernels the strides of a panel and of a k step,
   *        for dot kernels the stride of a column (b_k is 1).
   * \return 0, or -1 with the error raised in this thread's FFI state.
   */
  int Run(const KernelCode& code, KernelFamily family, int64_t m, int64_t n, int64_t k,
          const float* a, int64_t a_m, int64_t a_k, const float* b, int64_t b_n, int64_t b_k,
          int32_t panel, float* c, int64_t ldc, bool accumulate);

 private:
  DLTensor a_;
  DLTensor b_;
  DLTensor c_;
  int64_t a_shape_[2], a_strides_[2];
  int64_t b_shape_[3], b_strides_[3];
  int64_t c_shape_[2], c_strides_[2];
  TVMFFIAny args_[4];
};

/*! \brief Look up `name` in `lib`. Throws ValueError if the library has no such function. */
tvm::ffi::Function ResolveFunction(const tvm::ffi::Module& lib, const std::string& name);
/*! \brief Look up a version of a kernel in `lib`; `code` where there is none. */
KernelCode ResolveVersion(const tvm::ffi::Module& lib, const std::string& name,
                          const KernelCode& code);

}  // namespace moonpoly

#endif  // MOONPOLY_ARTIFACT_MICRO_KERNEL_H_
