/*!
 * \file launch/vector_ops.cc
 */
#include "launch/vector_ops.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns about the undefined lanes that its own header makes on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#define MOONPOLY_AVX512 __attribute__((target("avx512f")))
#define MOONPOLY_AVX2 __attribute__((target("avx2")))
#endif

namespace moonpoly {

namespace {

void TransposePlain(const float* src, int64_t src_ld, int64_t rows, int64_t cols, float* dst,
                    int64_t dst_ld) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) dst[c * dst_ld + r] = src[r * src_ld + c];
  }
}

// Rows in the outer loop would write a cache line of every panel in turn; panels in the outer loop
// would read a line of every page in turn. Four panels at a time keep both sides in few streams.
constexpr int64_t kPanelsAtOnce = 4;
// Each row of a wide B lies on a page of its own, where the processor doesn't fetch ahead by
// itself.
constexpr int64_t kRowsAhead = 16;

template <int64_t kLanes>
void PackPanelsPlain(const float* src, int64_t src_ld, int64_t k, int64_t num_panels, float* dst) {
  for (int64_t p = 0; p < num_panels; p += kPanelsAtOnce) {
    const int64_t count = std::min(kPanelsAtOnce, num_panels - p);
    for (int64_t i = 0; i < k; ++i) {
      const float* from = src + i * src_ld + p * kLanes;
      float* to = dst + (p * k + i) * kLanes;
      for (int64_t q = 0; q < count; ++q) {
        std::memcpy(to + q * k * kLanes, from + q * kLanes, kLanes * sizeof(float));
      }
    }
  }
}

void PackPanelsAny(const float* src, int64_t src_ld, int64_t k, int64_t num_panels, int64_t lanes,
                   float* dst) {
  if (lanes == 16) {
    PackPanelsPlain<16>(src, src_ld, k, num_panels, dst);
  } else {
    PackPanelsPlain<8>(src, src_ld, k, num_panels, dst);
  }
}

#if defined(__x86_64__)

MOONPOLY_AVX512 void PackPanelsAvx512(const float* src, int64_t src_ld, int64_t k,
                                      int64_t num_panels, int64_t lanes, float* dst) {
  if (lanes != 16) {
    PackPanelsAny(src, src_ld, k, num_panels, lanes, dst);
    return;
  }
  for (int64_t p = 0; p < num_panels; p += kPanelsAtOnce) {
    const int64_t count = std::min(kPanelsAtOnce, num_panels - p);
    for (int64_t i = 0; i < k; ++i) {
      const float* from = src + i * src_ld + p * 16;
      float* to = dst + (p * k + i) * 16;
      for (int64_t q = 0; q < count; ++q) {
        _mm_prefetch(reinterpret_cast<const char*>(from + kRowsAhead * src_ld + q * 16),
                     _MM_HINT_T1);
        _mm512_storeu_ps(to + q * k * 16, _mm512_loadu_ps(from + q * 16));
      }
    }
  }
}

MOONPOLY_AVX512 inline __mmask16 FirstLanes(int64_t count) {
  return static_cast<__mmask16>((1u << count) - 1);
}

// 16 x 16 in registers: four rounds of interleaving at growing distance.
MOONPOLY_AVX512 void TransposeTile16(const float* src, int64_t src_ld, int64_t rows, int64_t cols,
                                     float* dst, int64_t dst_ld) {
  const __mmask16 col_mask = FirstLanes(cols), row_mask = FirstLanes(rows);
  __m512 r[16], t[16];
  for (int i = 0; i < 16; ++i) {
    r[i] = i < rows ? _mm512_maskz_loadu_ps(col_mask, src + i * src_ld) : _mm512_setzero_ps();
  }
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  // r[4g + j] holds column 4q + j of rows 4g..4g+3 in its quarter q.
  for (int j = 0; j < 4; ++j) {
    t[j] = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88);
    t[4 + j] = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
    t[8 + j] = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88);
    t[12 + j] = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
  }
  for (int j = 0; j < 4; ++j) {
    r[j] = _mm512_shuffle_f32x4(t[j], t[8 + j], 0x88);
    r[8 + j] = _mm512_shuffle_f32x4(t[j], t[8 + j], 0xdd);
    r[4 + j] = _mm512_shuffle_f32x4(t[4 + j], t[12 + j], 0x88);
    r[12 + j] = _mm512_shuffle_f32x4(t[4 + j], t[12 + j], 0xdd);
  }
  for (int i = 0; i < 16; ++i) {
    if (i < cols) _mm512_mask_storeu_ps(dst + i * dst_ld, row_mask, r[i]);
  }
}

MOONPOLY_AVX512 void TransposeAvx512(const float* src, int64_t src_ld, int64_t rows, int64_t cols,
                                     float* dst, int64_t dst_ld) {
  for (int64_t r = 0; r < rows; r += 16) {
    const int64_t tile_rows = std::min<int64_t>(16, rows - r);
    for (int64_t c = 0; c < cols; c += 16) {
      TransposeTile16(src + r * src_ld + c, src_ld, tile_rows, std::min<int64_t>(16, cols - c),
                      dst + c * dst_ld + r, dst_ld);
    }
  }
}

MOONPOLY_AVX2 void TransposeTile8(const float* src, int64_t src_ld, float* dst, int64_t dst_ld) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(src + i * src_ld);
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int j = 0; j < 4; ++j) {
    _mm256_storeu_ps(dst + j * dst_ld, _mm256_permute2f128_ps(r[j], r[4 + j], 0x20));
    _mm256_storeu_ps(dst + (4 + j) * dst_ld, _mm256_permute2f128_ps(r[j], r[4 + j], 0x31));
  }
}

MOONPOLY_AVX2 void TransposeAvx2(const float* src, int64_t src_ld, int64_t rows, int64_t cols,
                                 float* dst, int64_t dst_ld) {
  const int64_t full_rows = rows / 8 * 8, full_cols = cols / 8 * 8;
  for (int64_t r = 0; r < full_rows; r += 8) {
    for (int64_t c = 0; c < full_cols; c += 8) {
      TransposeTile8(src + r * src_ld + c, src_ld, dst + c * dst_ld + r, dst_ld);
    }
  }
  TransposePlain(src + full_cols, src_ld, full_rows, cols - full_cols, dst + full_cols * dst_ld,
                 dst_ld);
  TransposePlain(src + full_rows * src_ld, src_ld, rows - full_rows, cols, dst + full_rows, dst_ld);
}

#endif  // defined(__x86_64__)

VectorOps ChooseVectorOps() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return {TransposeAvx512, PackPanelsAvx512};
  if (__builtin_cpu_supports("avx2")) return {TransposeAvx2, PackPanelsAny};
#endif
  return {TransposePlain, PackPanelsAny};
}

}  // namespace

const VectorOps& HostVectorOps() {
  static const VectorOps ops = ChooseVectorOps();
  return ops;
}

}  // namespace moonpoly
