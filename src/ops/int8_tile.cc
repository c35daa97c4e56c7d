/*!
 * \file ops/int8_tile.cc
 */
#include "ops/int8_tile.h"

#include <algorithm>
#include <atomic>
#include <utility>

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns about the undefined lanes that its own header makes on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#define MOONPOLY_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define MOONPOLY_AVX2 __attribute__((target("avx2")))
#endif

namespace moonpoly {

namespace {

template <bool kUnsigned>
int32_t Widen(uint8_t byte) {
  return kUnsigned ? static_cast<int32_t>(byte) : static_cast<int32_t>(static_cast<int8_t>(byte));
}

// Wraps around without undefined behaviour.
inline int32_t Correct(const Int8TileArgs& args, int64_t r, int64_t c, uint32_t sum) {
  if (args.row_zero != nullptr) {
    sum -= static_cast<uint32_t>(args.row_zero[r]) * static_cast<uint32_t>(args.col_sum[c]);
  }
  if (args.col_zero != nullptr) {
    sum -= static_cast<uint32_t>(args.col_zero[c]) * static_cast<uint32_t>(args.row_sum[r]);
  }
  return static_cast<int32_t>(sum);
}

template <bool kRowsUnsigned>
void PlainTile(const Int8TileArgs& args, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    const uint8_t* row = args.rows + r * args.row_stride;
    for (int64_t c = 0; c < columns; ++c) {
      const uint8_t* column =
          args.panels + c / kInt8Panel * args.panel_stride + c % kInt8Panel * kInt8Group;
      uint32_t sum = 0;
      for (int64_t k = 0; k < args.groups * kInt8Group; ++k) {
        const uint8_t byte = column[k / kInt8Group * kInt8PanelBytes + k % kInt8Group];
        sum += static_cast<uint32_t>(Widen<kRowsUnsigned>(row[k]) * Widen<!kRowsUnsigned>(byte));
      }
      args.out[r * args.out_ld + c] = Correct(args, r, c, sum);
    }
  }
}

#if defined(__x86_64__)

inline int32_t LoadGroup(const uint8_t* bytes) {
  int32_t group;
  __builtin_memcpy(&group, bytes, sizeof(group));
  return group;
}

MOONPOLY_VNNI inline __m512i CorrectVector(const Int8TileArgs& args, int64_t r, int64_t c,
                                           __m512i sum) {
  if (args.row_zero != nullptr) {
    const __m512i zero = _mm512_set1_epi32(args.row_zero[r]);
    sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(zero, _mm512_loadu_si512(args.col_sum + c)));
  }
  if (args.col_zero != nullptr) {
    const __m512i row_sum = _mm512_set1_epi32(args.row_sum[r]);
    sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(row_sum, _mm512_loadu_si512(args.col_zero + c)));
  }
  return sum;
}

template <bool kRowsUnsigned, int kRows, int kPanels>
MOONPOLY_VNNI void VnniBlock(const Int8TileArgs& args, int64_t columns) {
  __m512i sums[kRows][kPanels];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) sums[r][p] = _mm512_setzero_si512();
  }
  for (int64_t g = 0; g < args.groups; ++g) {
    __m512i panel[kPanels];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      panel[p] = _mm512_loadu_si512(args.panels + p * args.panel_stride + g * kInt8PanelBytes);
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512i row =
          _mm512_set1_epi32(LoadGroup(args.rows + r * args.row_stride + g * kInt8Group));
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) {
        sums[r][p] = kRowsUnsigned ? _mm512_dpbusd_epi32(sums[r][p], row, panel[p])
                                   : _mm512_dpbusd_epi32(sums[r][p], panel[p], row);
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const int64_t left = std::min<int64_t>(columns - p * kInt8Panel, kInt8Panel);
      const __mmask16 mask = static_cast<__mmask16>((1u << left) - 1);
      _mm512_mask_storeu_epi32(args.out + r * args.out_ld + p * kInt8Panel, mask,
                               CorrectVector(args, r, p * kInt8Panel, sums[r][p]));
    }
  }
}

using Block = void (*)(const Int8TileArgs& args, int64_t columns);

template <bool kRowsUnsigned, int kRows>
constexpr Block kVnniBlocks[] = {
    VnniBlock<kRowsUnsigned, kRows, 1>, VnniBlock<kRowsUnsigned, kRows, 2>,
    VnniBlock<kRowsUnsigned, kRows, 3>, VnniBlock<kRowsUnsigned, kRows, 4>};

template <bool kRowsUnsigned>
void VnniTile(const Int8TileArgs& args, int64_t rows, int64_t columns) {
  static constexpr const Block* kBlocks[] = {
      kVnniBlocks<kRowsUnsigned, 1>, kVnniBlocks<kRowsUnsigned, 2>, kVnniBlocks<kRowsUnsigned, 3>,
      kVnniBlocks<kRowsUnsigned, 4>, kVnniBlocks<kRowsUnsigned, 5>, kVnniBlocks<kRowsUnsigned, 6>};
  kBlocks[rows - 1][Int8NumPanels(columns) - 1](args, columns);
}

template <bool kUnsigned>
MOONPOLY_AVX2 inline __m256i WidenVector(__m128i bytes) {
  return kUnsigned ? _mm256_cvtepu8_epi16(bytes) : _mm256_cvtepi8_epi16(bytes);
}

// Products of 16-bit integers are exact where those of bytes would saturate. A register holds four
// columns, each as two halves of its group's sum.
template <bool kRowsUnsigned, int kRows>
MOONPOLY_AVX2 void Avx2Block(const Int8TileArgs& args, const uint8_t* panel, int32_t* sums) {
  __m256i halves[kRows][4];
#pragma GCC unroll 2
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) halves[r][q] = _mm256_setzero_si256();
  }
  for (int64_t g = 0; g < args.groups; ++g) {
    __m256i row[kRows];
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) {
      const int32_t group = LoadGroup(args.rows + r * args.row_stride + g * kInt8Group);
      row[r] = WidenVector<kRowsUnsigned>(_mm_set1_epi32(group));
    }
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      const __m256i columns = WidenVector<!kRowsUnsigned>(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(panel + g * kInt8PanelBytes + q * 16)));
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) {
        halves[r][q] = _mm256_add_epi32(halves[r][q], _mm256_madd_epi16(row[r], columns));
      }
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int q = 0; q < 2; ++q) {
      const __m256i pairs = _mm256_hadd_epi32(halves[r][2 * q], halves[r][2 * q + 1]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + r * kInt8Panel + q * 8),
                          _mm256_permute4x64_epi64(pairs, _MM_SHUFFLE(3, 1, 2, 0)));
    }
  }
}

template <bool kRowsUnsigned>
void Avx2Tile(const Int8TileArgs& args, int64_t rows, int64_t columns) {
  alignas(32) int32_t sums[2 * kInt8Panel];
  Int8TileArgs part = args;
  for (int64_t r0 = 0; r0 < rows; r0 += 2) {
    const int64_t height = std::min<int64_t>(2, rows - r0);
    part.rows = args.rows + r0 * args.row_stride;
    for (int64_t c0 = 0; c0 < columns; c0 += kInt8Panel) {
      const uint8_t* panel = args.panels + c0 / kInt8Panel * args.panel_stride;
      if (height == 2) {
        Avx2Block<kRowsUnsigned, 2>(part, panel, sums);
      } else {
        Avx2Block<kRowsUnsigned, 1>(part, panel, sums);
      }
      const int64_t width = std::min(kInt8Panel, columns - c0);
      for (int64_t r = 0; r < height; ++r) {
        for (int64_t c = 0; c < width; ++c) {
          args.out[(r0 + r) * args.out_ld + c0 + c] =
              Correct(args, r0 + r, c0 + c, static_cast<uint32_t>(sums[r * kInt8Panel + c]));
        }
      }
    }
  }
}

#endif  // defined(__x86_64__)

/*! \brief A tile for either side unsigned: {rows signed, rows unsigned}. */
using TilePair = std::pair<Int8Tile, Int8Tile>;

struct Choices {
  TilePair tiles[3];
  int64_t count;
};

const Choices& HostChoices() {
  static const Choices choices = [] {
    Choices made{{{PlainTile<false>, PlainTile<true>}}, 1};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
      made.tiles[made.count++] = {Avx2Tile<false>, Avx2Tile<true>};
    }
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
      made.tiles[made.count++] = {VnniTile<false>, VnniTile<true>};
    }
#endif
    return made;
  }();
  return choices;
}

std::atomic<int64_t> g_forced{-1};

}  // namespace

Int8Tile HostInt8Tile(bool rows_unsigned) {
  const Choices& choices = HostChoices();
  const int64_t forced = g_forced.load(std::memory_order_relaxed);
  const TilePair& pair = choices.tiles[forced < 0 ? choices.count - 1 : forced];
  return rows_unsigned ? pair.second : pair.first;
}

int64_t NumInt8Tiles() { return HostChoices().count; }

void ForceInt8Tile(int64_t index) {
  g_forced.store(std::min(index, NumInt8Tiles() - 1), std::memory_order_relaxed);
}

}  // namespace moonpoly
