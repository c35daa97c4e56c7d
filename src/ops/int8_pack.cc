/*!
 * \file ops/int8_pack.cc
 */
#include "ops/int8_pack.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace moonpoly {

namespace {

template <bool kUnsigned>
int32_t PackRow(const uint8_t* src, int64_t k, uint8_t flip, uint8_t* dst) {
  int32_t sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    dst[i] = src[i] ^ flip;
    sum += kUnsigned ? static_cast<int32_t>(dst[i]) : static_cast<int8_t>(dst[i]);
  }
  return sum;
}

}  // namespace

void PackInt8Rows(const uint8_t* src, int64_t src_ld, int64_t rows, int64_t k, uint8_t flip,
                  bool is_unsigned, uint8_t* dst, int32_t* sums) {
  const int64_t dst_ld = Int8Groups(k) * kInt8Group;
  for (int64_t r = 0; r < rows; ++r) {
    uint8_t* row = dst + r * dst_ld;
    const uint8_t* from = src + r * src_ld;
    const int32_t sum =
        is_unsigned ? PackRow<true>(from, k, flip, row) : PackRow<false>(from, k, flip, row);
    std::memset(row + k, 0, static_cast<size_t>(dst_ld - k));
    if (sums != nullptr) sums[r] = sum;
  }
}

void InterleaveInt8(const uint8_t* const rows[4], uint8_t* dst) {
#if defined(__SSE2__)
  __m128i r[4];
  for (int i = 0; i < 4; ++i) r[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i]));
  const __m128i low01 = _mm_unpacklo_epi8(r[0], r[1]), high01 = _mm_unpackhi_epi8(r[0], r[1]);
  const __m128i low23 = _mm_unpacklo_epi8(r[2], r[3]), high23 = _mm_unpackhi_epi8(r[2], r[3]);
  __m128i* to = reinterpret_cast<__m128i*>(dst);
  _mm_storeu_si128(to, _mm_unpacklo_epi16(low01, low23));
  _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(low01, low23));
  _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(high01, high23));
  _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(high01, high23));
#else
  for (int64_t c = 0; c < kInt8Panel; ++c) {
    for (int64_t i = 0; i < kInt8Group; ++i) dst[c * kInt8Group + i] = rows[i][c];
  }
#endif
}

void PackInt8Panel(const uint8_t* src, int64_t src_ld, int64_t k, int64_t columns, uint8_t flip,
                   uint8_t* dst, int32_t* sums) {
  uint8_t staged[kInt8Group][kInt8Panel];
  const uint8_t* const rows[] = {staged[0], staged[1], staged[2], staged[3]};
  std::fill(sums, sums + kInt8Panel, 0);
  for (int64_t k0 = 0; k0 < k; k0 += kInt8Group) {
    std::memset(staged, 0, sizeof(staged));
    for (int64_t i = 0; i < std::min(kInt8Group, k - k0); ++i) {
      const uint8_t* from = src + (k0 + i) * src_ld;
      for (int64_t c = 0; c < columns; ++c) staged[i][c] = from[c] ^ flip;
      for (int64_t c = 0; c < columns; ++c) sums[c] += static_cast<int8_t>(staged[i][c]);
    }
    InterleaveInt8(rows, dst + k0 * kInt8Panel);
  }
}

}  // namespace moonpoly
