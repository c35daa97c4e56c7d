/*!
 * \file artifact/gpu_serving.cc
 */
#include "artifact/gpu_serving.h"

namespace moonpoly {

namespace {

// Kernels that load straight into registers count (the bytes of) k in 32 bits, and go a little
// beyond the last one.
constexpr int64_t kMaxCountedDepth = int64_t{1} << 28;

std::vector<int32_t> Serving(const std::vector<GpuKernelSpec>& kernels,
                             const GpuOperands& operands) {
  std::vector<int32_t> all, particular;
  bool any_exact = false;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const GpuLoads loads = kernels[i].loads;
    if (!CanServe(kernels[i], operands)) continue;
    any_exact |= loads == operands.access && operands.access < GpuLoads::kResidue;
    all.push_back(static_cast<int32_t>(i));
    if (loads != GpuLoads::kResidue && loads != GpuLoads::kStrided)
      particular.push_back(all.back());
  }
  return any_exact ? particular : all;
}

}  // namespace

GpuOperands::GpuOperands(GpuLayout layout, GpuLoads access, int64_t m, int64_t n, int64_t k)
    : layout(layout),
      access(access),
      one_row(m == 1),
      one_column(n == 1),
      deep(k > kMaxCountedDepth) {}

bool CanServe(const GpuKernelSpec& kernel, const GpuOperands& operands) {
  if (kernel.loads == GpuLoads::kStrided) return true;
  if (operands.layout != GpuLayout::kNt) return false;
  if (kernel.loads == GpuLoads::kDirect && operands.deep) return false;
  if (kernel.loads == GpuLoads::kGemv) {
    return operands.access < GpuLoads::kGemv && !operands.deep &&
           (kernel.um == 1 ? operands.one_row : operands.one_column);
  }
  return kernel.loads >= operands.access;
}

GpuServing::GpuServing(const std::vector<GpuKernelSpec>& kernels) {
  for (int layout = 0; layout < kNumLayouts; ++layout) {
    for (int access = 0; access < kNumLoads; ++access) {
      for (const int64_t m : {1, 2}) {
        for (const int64_t n : {1, 2}) {
          for (const int64_t k : {int64_t{1}, kMaxCountedDepth + 1}) {
            const GpuOperands operands(static_cast<GpuLayout>(layout),
                                       static_cast<GpuLoads>(access), m, n, k);
            kernels_[IndexOf(operands)] = Serving(kernels, operands);
          }
        }
      }
    }
  }
}

}  // namespace moonpoly
