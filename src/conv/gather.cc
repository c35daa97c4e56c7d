/*!
 * \file conv/gather.cc
 * \brief Gathers panel by panel: the columns of a panel are a few runs of output pixels, and for a
 *        position (r, s) of the kernel window each run is a run of input pixels too. What is found
 *        out about the runs serves all channels.
 */
#include "conv/gather.h"

#include <algorithm>

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns about the undefined lanes that its own header makes on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

namespace moonpoly {

namespace {

constexpr int64_t kMaxLanes = 16;

/*! \brief Neighbouring output pixels of one row: lanes [lane, lane + count) of a panel. */
struct PixelRun {
  int64_t lane, count;
  int64_t p, q;
};

/*! \brief Lanes read from plane[offset + lane * stride_w]; a bit for each. */
struct LaneLoad {
  int64_t offset;
  uint32_t lanes;
};

/*! \brief One panel: its runs, and the loads of the current window position. */
struct Panel {
  PixelRun runs[kMaxLanes];
  int32_t num_runs = 0;
  LaneLoad loads[kMaxLanes];
  int32_t num_loads = 0;
};

void FindRuns(const ConvShape& shape, int64_t column, int64_t lanes, Panel* panel) {
  const int64_t end = std::min(column + lanes, shape.pixels());
  panel->num_runs = 0;
  int64_t p = column / shape.out_w, q = column % shape.out_w;
  for (int64_t at = column; at < end;) {
    const int64_t count = std::min(end - at, shape.out_w - q);
    panel->runs[panel->num_runs++] = {at - column, count, p, q};
    at += count;
    ++p;
    q = 0;
  }
}

// The lanes of each run that fall inside the input; the others stay zero.
void FindLoads(const ConvShape& shape, int64_t r, int64_t s, Panel* panel) {
  const ConvAttrs& attrs = shape.attrs;
  const int64_t step = attrs.stride_w;
  panel->num_loads = 0;
  for (int32_t i = 0; i < panel->num_runs; ++i) {
    const PixelRun& run = panel->runs[i];
    const int64_t h = run.p * attrs.stride_h - attrs.pad_top + r * attrs.dilation_h;
    if (h < 0 || h >= shape.height) continue;
    const int64_t w = run.q * step - attrs.pad_left + s * attrs.dilation_w;
    const int64_t first = w >= 0 ? 0 : (-w + step - 1) / step;
    const int64_t last =
        w >= shape.width ? 0 : std::min(run.count, (shape.width - 1 - w) / step + 1);
    if (first >= last) continue;
    const int64_t offset = h * shape.width + w - run.lane * step;
    const uint32_t lanes = ((1u << (last - first)) - 1u) << (run.lane + first);
    // Rows of a convolution that keeps the size follow each other as the input's rows do.
    LaneLoad* previous = panel->num_loads > 0 ? &panel->loads[panel->num_loads - 1] : nullptr;
    if (previous != nullptr && previous->offset == offset) {
      previous->lanes |= lanes;
    } else {
      panel->loads[panel->num_loads++] = {offset, lanes};
    }
  }
}

/*! \brief Writes one panel row for each of `count` channels; `dst` advances by dst_step. */
using CopyChannelsFn = void (*)(const ConvShape& shape, const Panel& panel, int64_t lanes,
                                const float* plane, int64_t count, float* dst, int64_t dst_step);

void CopyChannelsPlain(const ConvShape& shape, const Panel& panel, int64_t lanes,
                       const float* plane, int64_t count, float* dst, int64_t dst_step) {
  const int64_t step = shape.attrs.stride_w, plane_size = shape.height * shape.width;
  for (int64_t c = 0; c < count; ++c, plane += plane_size, dst += dst_step) {
    std::fill(dst, dst + lanes, 0.0f);
    for (int32_t i = 0; i < panel.num_loads; ++i) {
      const LaneLoad& load = panel.loads[i];
      for (uint32_t left = load.lanes; left != 0; left &= left - 1) {
        const int64_t lane = __builtin_ctz(left);
        dst[lane] = plane[load.offset + lane * step];
      }
    }
  }
}

#if defined(__x86_64__)

// A masked load touches only the lanes of its mask, so it may reach beyond a row or the input.
__attribute__((target("avx512f"))) void CopyChannelsUnitStride(const ConvShape& shape,
                                                               const Panel& panel, int64_t lanes,
                                                               const float* plane, int64_t count,
                                                               float* dst, int64_t dst_step) {
  const int64_t plane_size = shape.height * shape.width;
  for (int64_t c = 0; c < count; ++c, plane += plane_size, dst += dst_step) {
    __m512 value = _mm512_setzero_ps();
    for (int32_t i = 0; i < panel.num_loads; ++i) {
      const LaneLoad& load = panel.loads[i];
      value = _mm512_mask_loadu_ps(value, static_cast<__mmask16>(load.lanes), plane + load.offset);
    }
    _mm512_storeu_ps(dst, value);
  }
}

// Every other pixel: 32 neighbours are read and their even ones kept.
__attribute__((target("avx512f,bmi2"))) void CopyChannelsStrideTwo(
    const ConvShape& shape, const Panel& panel, int64_t lanes, const float* plane, int64_t count,
    float* dst, int64_t dst_step) {
  const int64_t plane_size = shape.height * shape.width;
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  uint32_t wide[kMaxLanes];
  for (int32_t i = 0; i < panel.num_loads; ++i) {
    wide[i] = _pdep_u32(panel.loads[i].lanes, 0x55555555u);
  }
  for (int64_t c = 0; c < count; ++c, plane += plane_size, dst += dst_step) {
    __m512 value = _mm512_setzero_ps();
    for (int32_t i = 0; i < panel.num_loads; ++i) {
      const float* from = plane + panel.loads[i].offset;
      const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(wide[i]), from);
      const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(wide[i] >> 16), from + 16);
      value = _mm512_mask_permutex2var_ps(low, static_cast<__mmask16>(0xffff), even, high);
      if (i == 0) {
        _mm512_storeu_ps(dst, value);
      } else {
        _mm512_mask_storeu_ps(dst, static_cast<__mmask16>(panel.loads[i].lanes), value);
      }
    }
    if (panel.num_loads == 0) _mm512_storeu_ps(dst, value);
  }
}

#endif  // defined(__x86_64__)

template <CopyChannelsFn kCopy>
void Gather(const void* context, const float* x, int64_t k0, int64_t kc, int64_t n0, int64_t cols,
            int64_t lanes, float* dst) {
  const ConvShape& shape = *static_cast<const ConvShape*>(context);
  const int64_t window = shape.kernel_h * shape.kernel_w;
  const int64_t plane_size = shape.height * shape.width;
  for (int64_t j = 0; j < cols; j += lanes, dst += kc * lanes) {
    Panel panel;
    FindRuns(shape, n0 + j, lanes, &panel);
    for (int64_t at = 0; at < std::min(window, kc); ++at) {
      // The rows of this slice at one window position: every window-th from the at-th on.
      const int64_t row = k0 + at, position = row % window, channel = row / window;
      FindLoads(shape, position / shape.kernel_w, position % shape.kernel_w, &panel);
      kCopy(shape, panel, lanes, x + channel * plane_size, (kc - at + window - 1) / window,
            dst + at * lanes, window * lanes);
    }
  }
}

}  // namespace

GatherFn ChooseGather(const ConvShape& shape, int64_t lanes) {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("bmi2");
  if (wide && lanes == 16) {
    if (shape.attrs.stride_w == 1) return Gather<CopyChannelsUnitStride>;
    if (shape.attrs.stride_w == 2) return Gather<CopyChannelsStrideTwo>;
  }
#endif
  return Gather<CopyChannelsPlain>;
}

}  // namespace moonpoly
