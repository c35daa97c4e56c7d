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

/*! \brief `count` neighbouring pixels of one output row, from (p, q) on, in lanes from `lane` on. */
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
  const int64_t end = std::min(column + lanes, shape.pixels());
  panel->num_segments = 0;
  PixelRun run{0, 0, column / shape.out_w, column % shape.out_w};
  for (int64_t at = column; at < end; at += run.count) {
    run.lane = at - column;
    run.count = std::min(end - at, shape.out_w - run.q);
    const int64_t base = (run.p * attrs.stride_h - attrs.pad_top) * shape.width - attrs.pad_left +
                         (run.q - run.lane) * attrs.stride_w;
    // Rows of a convolution that keeps the size follow each other as the input's rows do.
    Segment* segment = &panel->segments[std::max(0, panel->num_segments - 1)];
    if (panel->num_segments == 0 || segment->base != base) {
      segment = &panel->segments[panel->num_segments++];
      segment->base = base;
      std::fill(segment->lanes, segment->lanes + (slice.end - slice.begin), uint16_t{0});
    }
    MarkLanes<kStride>(shape, slice, run, segment->lanes);
    ++run.p;
    run.q = 0;
  }
}

/*!
 * \brief Writes the rows of a slice for one panel. `offsets` has one entry for each position from
 *        slice.begin on; the rows of a channel are written in order, as memory likes it.
 */
using CopyRowsFn = void (*)(const ConvShape& shape, const Panel& panel, const Slice& slice,
                            const int64_t* offsets, const float* x, int64_t lanes, float* dst);

void CopyRowsPlain(const ConvShape& shape, const Panel& panel, const Slice& slice,
                   const int64_t* offsets, const float* x, int64_t lanes, float* dst) {
  const int64_t step = shape.attrs.stride_w, plane_size = shape.height * shape.width;
  for (int64_t c = slice.first_channel(); c < slice.end_channel(); ++c) {
    const Span positions = slice.Positions(c);
    for (int64_t at = positions.begin; at < positions.end; ++at) {
      float* to = dst + slice.Row(c, at) * lanes;
      std::fill(to, to + lanes, 0.0f);
      for (int32_t i = 0; i < panel.num_segments; ++i) {
        const Segment& segment = panel.segments[i];
        const float* from = x + c * plane_size + segment.base + offsets[at - slice.begin];
        for (uint32_t left = segment.lanes[at - slice.begin]; left != 0; left &= left - 1) {
          const int64_t lane = __builtin_ctz(left);
          to[lane] = from[lane * step];
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
    const uint32_t wide = _pdep_u32(lanes, 0x55555555u);
    const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(wide), from);
    const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(wide >> 16), from + 16);
    const __m512 each = _mm512_permutex2var_ps(low, even, high);
    return _mm512_mask_mov_ps(value, static_cast<__mmask16>(lanes), each);
  }
};

// kSegments and kWindow are 0 where only the arguments tell them. The common ones are unrolled: with
// a branch for each position the gather of a 3x3 window would take half as long again.
template <class Pixels, int32_t kSegments, int64_t kWindow>
__attribute__((target("avx512f,bmi2"))) void CopyChannels(const Panel& panel,
                                                          const int64_t* offsets,
                                                          const float* plane, int64_t plane_size,
                                                          int64_t count, Span positions,
                                                          float* dst) {
  const int32_t num_segments = kSegments == 0 ? panel.num_segments : kSegments;
  if (kWindow > 0) positions = {0, kWindow};
  for (int64_t c = 0; c < count; ++c, plane += plane_size) {
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
}

template <class Pixels, int32_t kSegments>
void CopySlice(const ConvShape& shape, const Panel& panel, const Slice& slice,
               const int64_t* offsets, const float* x, float* dst) {
  const int64_t plane_size = shape.height * shape.width;
  const bool all_positions = slice.begin == 0 && slice.end == slice.window;
  for (int64_t c = slice.first_channel(); c < slice.end_channel();) {
    Span positions = slice.Positions(c);
    const float* plane = x + c * plane_size;
    float* to = dst + slice.Row(c, positions.begin) * kMaxLanes;
    positions = {positions.begin - slice.begin, positions.end - slice.begin};
    int64_t count = 1;
    if (all_positions && positions.end - positions.begin == slice.window) {
      count = (slice.k0 + slice.kc) / slice.window - c;
    }
    if (count > 1 && slice.window == 9) {
      CopyChannels<Pixels, kSegments, 9>(panel, offsets, plane, plane_size, count, positions, to);
    } else if (count > 1 && slice.window == 1) {
      CopyChannels<Pixels, kSegments, 1>(panel, offsets, plane, plane_size, count, positions, to);
    } else {
      CopyChannels<Pixels, kSegments, 0>(panel, offsets, plane, plane_size, count, positions, to);
    }
    c += count;
  }
}

template <class Pixels>
void CopyRows(const ConvShape& shape, const Panel& panel, const Slice& slice,
              const int64_t* offsets, const float* x, int64_t, float* dst) {
  if (panel.num_segments == 1) {
    CopySlice<Pixels, 1>(shape, panel, slice, offsets, x, dst);
  } else if (panel.num_segments == 2) {
    CopySlice<Pixels, 2>(shape, panel, slice, offsets, x, dst);
  } else {
    CopySlice<Pixels, 0>(shape, panel, slice, offsets, x, dst);
  }
}

#endif  // defined(__x86_64__)

template <int64_t kStride, CopyRowsFn kCopy>
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
    for (int64_t j = 0; j < cols; j += lanes) {
      Panel panel;
      FindSegments<kStride>(shape, slice, n0 + j, lanes, &panel);
      kCopy(shape, panel, slice, offsets, x, lanes, dst + j * kc);
    }
  }
}

}  // namespace

GatherFn ChooseGather(const ConvShape& shape, int64_t lanes) {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("bmi2");
  if (wide && lanes == 16) {
    if (shape.attrs.stride_w == 1) return Gather<1, CopyRows<UnitStride>>;
    if (shape.attrs.stride_w == 2) return Gather<2, CopyRows<StrideTwo>>;
  }
#endif
  return Gather<0, CopyRowsPlain>;
}

}  // namespace moonpoly
