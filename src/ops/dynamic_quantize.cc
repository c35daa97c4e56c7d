/*!
 * \file ops/dynamic_quantize.cc
 * \brief Quantizing a tensor to uint8 by its own range.
 */
#include "ops/dynamic_quantize.h"

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "launch/tensor_check.h"
#include "ops/integer_tensor.h"
#include "ops/parallel.h"

#if defined(__x86_64__)
#define MOONPOLY_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define MOONPOLY_AVX2 __attribute__((target("avx2")))
#endif
#define MOONPOLY_INLINE inline __attribute__((always_inline))

namespace moonpoly {

namespace {

// Elements that a thread handles in about the time of a launch.
constexpr int64_t kLeast = 32 << 10;
constexpr int64_t kLanes = 16;

struct Range {
  float low, high;
};

MOONPOLY_INLINE Range FindRangeBody(const float* x, int64_t count) {
  // Zero is always in the range. Comparisons are such that a NaN leaves it as it is.
  float low[kLanes] = {}, high[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      low[l] = x[i + l] < low[l] ? x[i + l] : low[l];
      high[l] = x[i + l] > high[l] ? x[i + l] : high[l];
    }
  }
  for (int64_t l = 0; i + l < count; ++l) {
    low[l] = std::min(low[l], x[i + l]);
    high[l] = std::max(high[l], x[i + l]);
  }
  return {*std::min_element(low, low + kLanes), *std::max_element(high, high + kLanes)};
}

MOONPOLY_INLINE void QuantizeBody(const float* x, int64_t count, float scale, float zero,
                                  uint8_t* y) {
  // Adding 1.5 * 2^23 rounds a small number to an integer, ties to even, as the hardware does.
  constexpr float kRound = 12582912.0f;
  const float low = 0.0f - zero, high = 255.0f - zero;
  for (int64_t i = 0; i < count; ++i) {
    const float value = x[i] / scale;
    const float above = value > low ? value : low;
    const float clipped = above < high ? above : high;
    const float rounded = (clipped + kRound) - kRound;
    y[i] = static_cast<uint8_t>(static_cast<int32_t>(rounded + zero));
  }
}

struct Functions {
  Range (*find_range)(const float* x, int64_t count);
  void (*quantize)(const float* x, int64_t count, float scale, float zero, uint8_t* y);
};

Range FindRangePlain(const float* x, int64_t count) { return FindRangeBody(x, count); }
void QuantizePlain(const float* x, int64_t count, float scale, float zero, uint8_t* y) {
  QuantizeBody(x, count, scale, zero, y);
}

#if defined(__x86_64__)
MOONPOLY_AVX2 Range FindRangeAvx2(const float* x, int64_t count) { return FindRangeBody(x, count); }
MOONPOLY_AVX2 void QuantizeAvx2(const float* x, int64_t count, float scale, float zero,
                                uint8_t* y) {
  QuantizeBody(x, count, scale, zero, y);
}
MOONPOLY_AVX512 Range FindRangeAvx512(const float* x, int64_t count) {
  return FindRangeBody(x, count);
}
MOONPOLY_AVX512 void QuantizeAvx512(const float* x, int64_t count, float scale, float zero,
                                    uint8_t* y) {
  QuantizeBody(x, count, scale, zero, y);
}
#endif

const Functions& HostFunctions() {
  static const Functions functions = []() -> Functions {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
      return {FindRangeAvx512, QuantizeAvx512};
    }
    if (__builtin_cpu_supports("avx2")) return {FindRangeAvx2, QuantizeAvx2};
#endif
    return {FindRangePlain, QuantizePlain};
  }();
  return functions;
}

void Widen(std::atomic<float>* bound, float value, bool (*wider)(float, float)) {
  float seen = bound->load(std::memory_order_relaxed);
  while (wider(value, seen) &&
         !bound->compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

ByteScale ScaleOfRange(float low, float high) {
  const float width = high - low;
  const float scale = width == 0.0f ? 1.0f : width / 255.0f;
  const float place = std::nearbyint(std::max(0.0f, std::min(255.0f, 0.0f - low / scale)));
  return {scale, static_cast<uint8_t>(place)};
}

ByteScale ScaleOf(const float* x, int64_t count) {
  const Range range = HostFunctions().find_range(x, count);
  return ScaleOfRange(range.low, range.high);
}

void QuantizeBytes(const float* x, int64_t count, const ByteScale& scale, uint8_t* y) {
  HostFunctions().quantize(x, count, scale.scale, static_cast<float>(scale.zero), y);
}

namespace {

/*!
 * \brief y = saturate(round(x / scale) + zero) with the scale and zero point that map the range of
 *        X, widened to zero, to 0 ... 255.
 *
 * X float32; Y uint8 of the same shape; scale float32 and zero uint8 of one element.
 */
void DynamicQuantize(DLTensor* x, DLTensor* y, DLTensor* scale, DLTensor* zero) {
  CheckFloat32(x, "X");
  CheckContiguous(x, "X");
  CheckBytes(y, "Y");
  CheckFloat32(scale, "the scale");
  CheckBytes(zero, "the zero point");
  const int64_t count = NumElements(x);
  if (NumElements(y) != count || NumElements(scale) != 1 || NumElements(zero) != 1) {
    TVM_FFI_THROW(ValueError) << "Y must have the shape of X, and scale and zero point one element,"
                              << " got " << ShapeText(x) << ", " << ShapeText(y) << ", "
                              << ShapeText(scale) << " and " << ShapeText(zero);
  }
  const Functions& functions = HostFunctions();
  const float* from = FloatData(x);
  std::atomic<float> low{0.0f}, high{0.0f};
  ParallelFor(count, kLeast, [&](int64_t begin, int64_t end) {
    const Range range = functions.find_range(from + begin, end - begin);
    Widen(&low, range.low, [](float value, float seen) { return value < seen; });
    Widen(&high, range.high, [](float value, float seen) { return value > seen; });
  });
  const ByteScale found = ScaleOfRange(low.load(), high.load());
  *FloatData(scale) = found.scale;
  *ByteData(zero) = found.zero;
  ParallelFor(count, kLeast, [&](int64_t begin, int64_t end) {
    QuantizeBytes(from + begin, end - begin, found, ByteData(y) + begin);
  });
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("moonpoly.op.dynamic_quantize", DynamicQuantize);
}

}  // namespace moonpoly
