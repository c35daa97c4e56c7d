/*!
 * \file conv/gather.cc
 */
#include "conv/gather.h"

#include <algorithm>

namespace moonpoly {

namespace {

void GatherPlain(const void* context, const float* x, int64_t k0, int64_t kc, int64_t n0,
                 int64_t cols, int64_t lanes, float* dst) {
  const ConvShape& shape = *static_cast<const ConvShape*>(context);
  const ConvAttrs& attrs = shape.attrs;
  const int64_t window = shape.kernel_h * shape.kernel_w;
  for (int64_t i = 0; i < kc; ++i) {
    const int64_t channel = (k0 + i) / window, r = (k0 + i) % window / shape.kernel_w,
                  s = (k0 + i) % shape.kernel_w;
    const float* plane = x + channel * shape.height * shape.width;
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t p = (n0 + j) / shape.out_w, q = (n0 + j) % shape.out_w;
      const int64_t h = p * attrs.stride_h - attrs.pad_top + r * attrs.dilation_h;
      const int64_t w = q * attrs.stride_w - attrs.pad_left + s * attrs.dilation_w;
      const bool inside =
          p < shape.out_h && 0 <= h && h < shape.height && 0 <= w && w < shape.width;
      dst[(j / lanes * kc + i) * lanes + j % lanes] = inside ? plane[h * shape.width + w] : 0.0f;
    }
  }
}

}  // namespace

GatherFn ChooseGather(const ConvShape& shape, int64_t lanes) { return GatherPlain; }

}  // namespace moonpoly
