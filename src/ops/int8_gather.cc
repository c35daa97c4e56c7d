/*!
 * \file ops/int8_gather.cc
 */
#include "ops/int8_gather.h"

#include <algorithm>
#include <cstring>

#include "ops/int8_pack.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace moonpoly {

namespace {

constexpr int kLanes = static_cast<int>(kInt8Panel);

/*! \brief Where the pixels of a panel begin, and how they follow each other. */
struct Corners {
  int64_t offset[kLanes];
  /*! \brief Lanes whose successor isn't one stride further begin a run. */
  int run_begin[kLanes];
  int num_runs;
};

Corners FindCorners(const Int8ConvShape& shape, int64_t first) {
  Corners corners;
  corners.num_runs = 0;
  const int64_t last = shape.pixels() - 1;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int64_t pixel = first + lane;
    if (pixel > last) {
      // Nobody reads what is beyond the last pixel, so that its run may go on.
      corners.offset[lane] = corners.offset[lane - 1] + shape.stride[2];
      continue;
    }
    const int64_t x = pixel % shape.out[2], line = pixel / shape.out[2];
    const int64_t y = line % shape.out[1], z = line / shape.out[1];
    corners.offset[lane] =
        (z * shape.stride[0] * shape.padded[1] + y * shape.stride[1]) * shape.padded[2] +
        x * shape.stride[2];
    const bool follows =
        lane > 0 && corners.offset[lane] == corners.offset[lane - 1] + shape.stride[2];
    if (!follows) corners.run_begin[corners.num_runs++] = lane;
  }
  return corners;
}

void GatherLanes(const uint8_t* image, const Corners& corners, const int64_t* offsets, int64_t k,
                 uint8_t* dst) {
  std::memset(dst, 0, static_cast<size_t>(Int8Groups(k) * kInt8PanelBytes));
  // What is beyond the last pixel may be beyond the image as well.
  for (int64_t i = 0; i < k; ++i) {
    uint8_t* to = dst + i / kInt8Group * kInt8PanelBytes + i % kInt8Group;
    for (int lane = 0; lane < kLanes; ++lane) {
      to[lane * kInt8Group] = image[corners.offset[lane] + offsets[i]];
    }
  }
}

#if defined(__SSE2__)

// A run that begins at a later lane is read from where its lane 0 would be.
template <int kStride>
inline __m128i LoadRun(const uint8_t* lane0) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(lane0));
  if (kStride == 1) return low;
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(lane0 + 16));
  const __m128i even = _mm_set1_epi16(0xff);
  return _mm_packus_epi16(_mm_and_si128(low, even), _mm_and_si128(high, even));
}

template <int kStride, int kRuns>
void GatherRuns(const uint8_t* image, const Corners& corners, const int64_t* offsets, int64_t k,
                uint8_t* dst) {
  const uint8_t* lane0[kRuns];
  __m128i later[kRuns];
  for (int run = 0; run < kRuns; ++run) {
    const int begin = corners.run_begin[run];
    lane0[run] = image + corners.offset[begin] - begin * kStride;
    alignas(16) uint8_t mask[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) mask[lane] = lane >= begin ? 0xff : 0;
    later[run] = _mm_load_si128(reinterpret_cast<const __m128i*>(mask));
  }
  alignas(16) uint8_t rows[kInt8Group][kLanes] = {};
  const uint8_t* const sources[] = {rows[0], rows[1], rows[2], rows[3]};
  for (int64_t k0 = 0; k0 < k; k0 += kInt8Group) {
    const int64_t count = std::min(kInt8Group, k - k0);
    if (count < kInt8Group) std::memset(rows, 0, sizeof(rows));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t offset = offsets[k0 + i];
      __m128i value = LoadRun<kStride>(lane0[0] + offset);
      for (int run = 1; run < kRuns; ++run) {
        const __m128i next = LoadRun<kStride>(lane0[run] + offset);
        value = _mm_or_si128(_mm_andnot_si128(later[run], value), _mm_and_si128(later[run], next));
      }
      _mm_store_si128(reinterpret_cast<__m128i*>(rows[i]), value);
    }
    InterleaveInt8(sources, dst + k0 * kInt8Panel);
  }
}

template <int kStride>
bool GatherWithRuns(const uint8_t* image, const Corners& corners, const int64_t* offsets, int64_t k,
                    uint8_t* dst) {
  switch (corners.num_runs) {
    case 1:
      GatherRuns<kStride, 1>(image, corners, offsets, k, dst);
      return true;
    case 2:
      GatherRuns<kStride, 2>(image, corners, offsets, k, dst);
      return true;
    case 3:
      GatherRuns<kStride, 3>(image, corners, offsets, k, dst);
      return true;
    case 4:
      GatherRuns<kStride, 4>(image, corners, offsets, k, dst);
      return true;
    default:
      return false;
  }
}

#endif  // defined(__SSE2__)

}  // namespace

void PadInt8Plane(const Int8ConvShape& shape, const uint8_t* src, uint8_t flip, uint8_t pad,
                  uint8_t* dst) {
  std::memset(dst, pad, static_cast<size_t>(shape.padded_plane()));
  for (int64_t z = 0; z < shape.in[0]; ++z) {
    for (int64_t y = 0; y < shape.in[1]; ++y) {
      const uint8_t* from = src + (z * shape.in[1] + y) * shape.in[2];
      uint8_t* to =
          dst +
          ((z + shape.pad_begin[0]) * shape.padded[1] + y + shape.pad_begin[1]) * shape.padded[2] +
          shape.pad_begin[2];
      for (int64_t x = 0; x < shape.in[2]; ++x) to[x] = from[x] ^ flip;
    }
  }
}

Int8Gather::Int8Gather(const Int8ConvShape& shape) : shape_(shape) {
  offsets_.reserve(static_cast<size_t>(shape.depth()));
  for (int64_t c = 0; c < shape.in_channels; ++c) {
    for (int64_t z = 0; z < shape.kernel[0]; ++z) {
      for (int64_t y = 0; y < shape.kernel[1]; ++y) {
        for (int64_t x = 0; x < shape.kernel[2]; ++x) {
          const int64_t line = (c * shape.padded[0] + z * shape.dilation[0]) * shape.padded[1] +
                               y * shape.dilation[1];
          offsets_.push_back(line * shape.padded[2] + x * shape.dilation[2]);
        }
      }
    }
  }
}

void Int8Gather::Panel(const uint8_t* image, int64_t first, uint8_t* dst) const {
  Corners corners = FindCorners(shape_, first);
  const int64_t k = shape_.depth();
#if defined(__SSE2__)
  if (shape_.stride[2] == 1 && GatherWithRuns<1>(image, corners, offsets_.data(), k, dst)) return;
  if (shape_.stride[2] == 2 && GatherWithRuns<2>(image, corners, offsets_.data(), k, dst)) return;
#endif
  // Lanes beyond the last pixel must not leave the image: they read what the first one reads.
  for (int64_t lane = shape_.pixels() - first; lane < kLanes; ++lane) {
    corners.offset[lane] = corners.offset[0];
  }
  GatherLanes(image, corners, offsets_.data(), k, dst);
}

}  // namespace moonpoly
