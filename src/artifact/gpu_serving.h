/*!
 * \file artifact/gpu_serving.h
 * \brief Which kernels of a set can serve a product, by how its operands lie.
 */
#ifndef MOONPOLY_ARTIFACT_GPU_SERVING_H_
#define MOONPOLY_ARTIFACT_GPU_SERVING_H_

#include <array>
#include <cstdint>
#include <vector>

#include "artifact/gpu_manifest.h"

namespace moonpoly {

/*! \brief All of a product that decides which kernels can serve it. */
struct GpuOperands {
  GpuLayout layout;
  /*! \brief The most particular way in which A and B can both be read. */
  GpuLoads access;
  /*! \brief Whether C is one row, or one column. */
  bool one_row, one_column;
  /*! \brief Whether k is longer than kernels of direct loads can count. */
  bool deep;

  GpuOperands(GpuLayout layout, GpuLoads access, int64_t m, int64_t n, int64_t k);
};

/*! \brief Whether a kernel can read the operands. */
bool CanServe(const GpuKernelSpec& kernel, const GpuOperands& operands);

/*! \brief The kernels of a set for operands of every kind, so that no selection looks at all. */
class GpuServing {
 public:
  explicit GpuServing(const std::vector<GpuKernelSpec>& kernels);

  /*!
   * \brief Indices, increasing, of the kernels that can serve, less those that are left out.
   *
   * Kernels that read operands of any alignment take twice as long where maps of them can be used,
   * so they are left out there: on recorded launches they reached 0.67 of the best at most.
   */
  const std::vector<int32_t>& Of(const GpuOperands& operands) const {
    return kernels_[IndexOf(operands)];
  }

 private:
  static constexpr int kNumLoads = 6, kNumLayouts = 4;

  static size_t IndexOf(const GpuOperands& operands) {
    const int lies =
        static_cast<int>(operands.layout) * kNumLoads + static_cast<int>(operands.access);
    return lies * 8 + operands.one_row * 4 + operands.one_column * 2 + operands.deep;
  }

  std::array<std::vector<int32_t>, kNumLayouts * kNumLoads * 8> kernels_;
};

}  // namespace moonpoly

#endif  // MOONPOLY_ARTIFACT_GPU_SERVING_H_
