/*!
 * \file conv/gather.cc
 * \brief Gathers panel by panel: the columns of a panel are a few runs of output pixels, and for a
 *        position (r, s) of the kernel window each run is a run of input pixels too. Where they lie
 *        is found out once for all channels.
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

// Window positions whose lanes are found out at once.
constexpr int64_t kMaxPositions = 64;
// Panels filled side by side: their pixels follow each other in a plane, and planes are far apart.
constexpr int64_t kPanelsAtOnce = 8;

/*! \brief The rows [k0, k0 + kc) of a panel, at the window positions [begin, end). */
struct Slice {
  int64_t k0, kc;
  int64_t window;
  int64_t begin, end;

  int64_t first_channel() const { return k0 / window; }
  int64_t end_channel() const { return CeilDiv(k0 + kc, window); }
  /*! \brief The positions of one channel, and the row of the first of them. */
  Span Positions(int64_t channel) const {
    const int64_t first_row = channel * window;
    return {std::max(begin, k0 - first_row), std::min(end, k0 + kc - first_row)};
  }
  int64_t Row(int64_t channel, int64_t position) const { return channel * window + position - k0; }
};

/*!
 * \brief Lanes of a panel whose pixels are evenly spaced. At position i lane l is
 *        plane[base + offsets[i] + l * stride_w] where bit l of lanes[i] is set.
 */
struct Segment {
  int64_t base;
  uint16_t lanes[kMaxPositions];
};

/*! \brief Where the lanes of one panel come from; the same for all channels. */
struct Panel {
  Segment segments[kMaxLanes];
  int32_t num_segments = 0;
};

/*! \brief `count` neighbouring pixels of one output row, from (p, q) on, in lanes from `lane` on.
 */
struct PixelRun {
  int64_t lane, count;
  int64_t p, q;
};

// Sets the lanes of a run that fall inside the input; the others stay zero.
template <int64_t kStride>
void MarkLanes(const ConvShape& shape, const Slice& slice, const PixelRun& run, uint16_t* lanes) {
  const ConvAttrs& attrs = shape.attrs;
  const int64_t step = kStride == 0 ? attrs.stride_w : kStride;
  const int64_t h0 = run.p * attrs.stride_h - attrs.pad_top;
  const int64_t w0 = run.q * step - attrs.pad_left;
  const auto all = static_cast<uint16_t>(((1u << run.count) - 1u) << run.lane);
  const int64_t h_end = h0 + (shape.kernel_h - 1) * attrs.dilation_h + 1;
  const int64_t w_end = w0 + (shape.kernel_w - 1) * attrs.dilation_w + (run.count - 1) * step + 1;
  if (h0 >= 0 && w0 >= 0 && h_end <= shape.height && w_end <= shape.width) {
    for (int64_t i = 0; i < slice.end - slice.begin; ++i) lanes[i] |= all;
    return;
  }
  int64_t r = slice.begin / shape.kernel_w, s = slice.begin % shape.kernel_w;
  for (int64_t i = 0; i < slice.end - slice.begin; ++i) {
    const int64_t h = h0 + r * attrs.dilation_h, w = w0 + s * attrs.dilation_w;
    if (h >= 0 && h < shape.height && w < shape.width) {
      const int64_t first = w >= 0 ? 0 : (-w + step - 1) / step;
      const int64_t last = std::min(run.count, (shape.width - 1 - w) / step + 1);
      if (first < last) {
        const uint32_t inside = (1u << (last - first)) - 1u;
        lanes[i] |= static_cast<uint16_t>(inside << (run.lane + first));
      }
    }
    if (++s == shape.kernel_w) {
      s = 0;
      ++r;
    }
  }
}

template <int64_t kStride>
void FindSegments(const ConvShape& shape, const Slice& slice, int64_t column, int64_t lanes,
                  Panel* panel) {
  const ConvAttrs& attrs = shape.attrs;
  const int64_t end = std::min(column + lanes, shape.columns());
  panel->num_segments = 0;
  int64_t image = column / shape.pixels();
  const int64_t pixel = column - image * shape.pixels();
  PixelRun run{0, 0, pixel / shape.out_w, pixel % shape.out_w};
  for (int64_t at = column; at < end; at += run.count) {
    run.lane = at - column;
    run.count = std::min(end - at, shape.out_w - run.q);
    const int64_t base = image * shape.image_step +
                         (run.p * attrs.stride_h - attrs.pad_top) * shape.width - attrs.pad_left +
                         (run.q - run.lane) * attrs.stride_w;
    // Rows of a convolution that keeps the size follow each other as the input's rows do.
    Segment* segment = &panel->segments[std::max(0, panel->num_segments - 1)];
    if (panel->num_segments == 0 || segment->base != base) {
      segment = &panel->segments[panel->num_segments++];
      segment->base = base;
      std::fill(segment->lanes, segment->lanes + (slice.end - slice.begin), uint16_t{0});
    }
    MarkLanes<kStride>(shape, slice, run, segment->lanes);
    run.q = 0;
    if (++run.p == shape.out_h) {
      run.p = 0;
      ++image;
    }
  }
}

/*!
 * \brief Writes the rows of a slice for `count` neighbouring panels. `offsets` has one entry for
 * each position from slice.begin on.
 */
using CopyPanelsFn = void (*)(const ConvShape& shape, const Panel* panels, int64_t count,
                              const Slice& slice, const int64_t* offsets, const float* x,
                              int64_t lanes, float* dst);

void CopyPanelsPlain(const ConvShape& shape, const Panel* panels, int64_t count, const Slice& slice,
                     const int64_t* offsets, const float* x, int64_t lanes, float* dst) {
  const int64_t step = shape.attrs.stride_w, plane_size = shape.height * shape.width;
  for (int64_t c = slice.first_channel(); c < slice.end_channel(); ++c) {
    const Span positions = slice.Positions(c);
    for (int64_t p = 0; p < count; ++p) {
      for (int64_t at = positions.begin; at < positions.end; ++at) {
        float* to = dst + (p * slice.kc + slice.Row(c, at)) * lanes;
        std::fill(to, to + lanes, 0.0f);
        for (int32_t i = 0; i < panels[p].num_segments; ++i) {
          const Segment& segment = panels[p].segments[i];
          const float* from = x + c * plane_size + segment.base + offsets[at - slice.begin];
          for (uint32_t left = segment.lanes[at - slice.begin]; left != 0; left &= left - 1) {
            const int64_t lane = __builtin_ctz(left);
            to[lane] = from[lane * step];
          }
        }
      }
    }
  }
}

#if defined(__x86_64__)

// A masked load touches only the lanes of its mask, so it may reach beyond a row or the input.
struct UnitStride {
  __attribute__((target("avx512f,bmi2"), always_inline)) static __m512 Load(__m512 value,
                                                                            uint32_t lanes,
                                                                            const float* from) {
    return _mm512_mask_loadu_ps(value, static_cast<__mmask16>(lanes), from);
  }
};

// Every other pixel: 32 neighbours are read and their even ones kept.
struct StrideTwo {
  __attribute__((target("avx512f,bmi2"), always_inline)) static __m512 Load(__m512 value,
                                                                            uint32_t lanes,
                                                                            const float* from) {
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    if (lanes == 0xffffu) {
      const __m512 high = _mm512_maskz_loadu_ps(0x7fff, from + 16);
      return _mm512_permutex2var_ps(_mm512_loadu_ps(from), even, high);
    }
    const uint32_t wide = _pdep_u32(lanes, 0x55555555u);
    const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(wide), from);
    const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(wide >> 16), from + 16);
    const __m512 each = _mm512_permutex2var_ps(low, even, high);
    return _mm512_mask_mov_ps(value, static_cast<__mmask16>(lanes), each);
  }
};

// Channels ahead that are asked for early: hardware sees no pattern in steps of whole planes.
constexpr int64_t kAhead = 4;

// The positions of one channel in one panel. kSegments and kWindow are 0 where only the arguments
// tell them; the common ones are unrolled.
template <class Pixels, int32_t kSegments, int64_t kWindow>
__attribute__((target("avx512f,bmi2"), always_inline)) inline void CopyPositions(
    const Panel& panel, const int64_t* offsets, const float* plane, Span positions, float* dst) {
  const int32_t num_segments = kSegments == 0 ? panel.num_segments : kSegments;
  if (kWindow > 0) positions = {0, kWindow};
#pragma GCC unroll 9
  for (int64_t at = positions.begin; at < positions.end; ++at, dst += kMaxLanes) {
    __m512 value = _mm512_setzero_ps();
    for (int32_t i = 0; i < num_segments; ++i) {
      const Segment& segment = panel.segments[i];
      value = Pixels::Load(value, segment.lanes[at], plane + segment.base + offsets[at]);
    }
    _mm512_storeu_ps(dst, value);
  }
}

template <class Pixels, int64_t kWindow>
__attribute__((target("avx512f,bmi2"))) void CopyChannel(const Panel* panels, int64_t count,
                                                         int64_t panel_step, int64_t plane_size,
                                                         const int64_t* offsets, const float* plane,
                                                         Span positions, float* dst) {
  for (int64_t p = 0; p < count; ++p, dst += panel_step) {
    const Panel& panel = panels[p];
    for (int32_t i = 0; i < panel.num_segments; ++i) {
      const float* ahead =
          plane + kAhead * plane_size + panel.segments[i].base + offsets[positions.end - 1];
      _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(ahead + kMaxLanes), _MM_HINT_T0);
    }
    if (panel.num_segments == 1) {
      CopyPositions<Pixels, 1, kWindow>(panel, offsets, plane, positions, dst);
    } else if (panel.num_segments == 2) {
      CopyPositions<Pixels, 2, kWindow>(panel, offsets, plane, positions, dst);
    } else {
      CopyPositions<Pixels, 0, kWindow>(panel, offsets, plane, positions, dst);
    }
  }
}

template <class Pixels>
void CopyPanels(const ConvShape& shape, const Panel* panels, int64_t count, const Slice& slice,
                const int64_t* offsets, const float* x, int64_t, float* dst) {
  const int64_t plane_size = shape.height * shape.width, panel_step = slice.kc * kMaxLanes;
  for (int64_t c = slice.first_channel(); c < slice.end_channel(); ++c) {
    Span positions = slice.Positions(c);
    if (positions.begin >= positions.end) continue;
    float* to = dst + slice.Row(c, positions.begin) * kMaxLanes;
    positions = {positions.begin - slice.begin, positions.end - slice.begin};
    const int64_t whole = positions.end - positions.begin == slice.window ? slice.window : 0;
    const auto copy = whole == 9   ? CopyChannel<Pixels, 9>
                      : whole == 1 ? CopyChannel<Pixels, 1>
                                   : CopyChannel<Pixels, 0>;
    copy(panels, count, panel_step, plane_size, offsets, x + c * plane_size, positions, to);
  }
}

#endif  // defined(__x86_64__)

template <int64_t kStride, CopyPanelsFn kCopy>
void Gather(const void* context, const float* x, int64_t k0, int64_t kc, int64_t n0, int64_t cols,
            int64_t lanes, float* dst) {
  const ConvShape& shape = *static_cast<const ConvShape*>(context);
  Slice slice{k0, kc, shape.kernel_h * shape.kernel_w, 0, 0};
  for (; slice.begin < slice.window; slice.begin = slice.end) {
    slice.end = std::min(slice.window, slice.begin + kMaxPositions);
    int64_t offsets[kMaxPositions];
    for (int64_t at = slice.begin; at < slice.end; ++at) {
      offsets[at - slice.begin] = at / shape.kernel_w * shape.attrs.dilation_h * shape.width +
                                  at % shape.kernel_w * shape.attrs.dilation_w;
    }
    for (int64_t j = 0; j < cols; j += kPanelsAtOnce * lanes) {
      Panel panels[kPanelsAtOnce];
      const int64_t count = std::min(kPanelsAtOnce, (cols - j) / lanes);
      for (int64_t p = 0; p < count; ++p) {
        FindSegments<kStride>(shape, slice, n0 + j + p * lanes, lanes, &panels[p]);
      }
      kCopy(shape, panels, count, slice, offsets, x, lanes, dst + j * kc);
    }
  }
}

}  // namespace

GatherFn ChooseGather(const ConvShape& shape, int64_t lanes) {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("bmi2");
  if (wide && lanes == 16) {
    if (shape.attrs.stride_w == 1) return Gather<1, CopyPanels<UnitStride>>;
    if (shape.attrs.stride_w == 2) return Gather<2, CopyPanels<StrideTwo>>;
  }
#endif
  return Gather<0, CopyPanelsPlain>;
}

}  // namespace moonpoly
