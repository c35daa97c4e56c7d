/*!
 * \file ops/activation.cc
 *
 * Lanes of vectors, straight-line arithmetic. The polynomials are those of the generated code.
 */
#include "ops/activation.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <sstream>

#define MOONPOLY_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__)
#define MOONPOLY_AVX2 __attribute__((target("avx2,fma")))
#endif

namespace moonpoly {

namespace {

using Kind = Activation::Kind;

// Eight lanes; the compiler splits them where registers are shorter.
constexpr int64_t kLanes = 8;
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t Ints __attribute__((vector_size(kLanes * sizeof(int32_t))));

MOONPOLY_INLINE Floats Splat(float value) { return Floats{} + value; }

// A NaN passes: every comparison with it is false.
MOONPOLY_INLINE Floats Clamp(Floats x, float limit_low, float limit_high) {
  const Floats low = Splat(limit_low), high = Splat(limit_high);
  x = x < low ? low : x;
  return x > high ? high : x;
}

MOONPOLY_INLINE Floats PowerOfTwo(Ints exponent) {
  return reinterpret_cast<Floats>((exponent + 127) << 23);
}

// e^x within 1.3e-7.
MOONPOLY_INLINE Floats Exp(Floats x) {
  x = Clamp(x, -104.0f, 89.0f);
  // Adding and taking away 1.5 * 2^23 rounds to the nearest integer.
  constexpr float kRound = 12582912.0f;
  const Floats n = (x * 1.44269504f + kRound) - kRound;
  Floats r = x - n * 0.693359375f;
  r = r + n * 2.12194440054690583e-4f;
  Floats g = Splat(0.0013813142576590246f);
  g = g * r + 0.008369419268996973f;
  g = g * r + 0.04166845684641148f;
  g = g * r + 0.1666651478722462f;
  g = g * r + 0.49999993050385755f;
  const Floats value = r * r * g + r + 1.0f;
  // Two factors reach every exponent from -150 to 128. A NaN is kept out of the conversion.
  const Ints exponent = __builtin_convertvector(n == n ? n : Floats{}, Ints);
  const Ints half = exponent >> 1;
  return value * PowerOfTwo(half) * PowerOfTwo(exponent - half);
}

MOONPOLY_INLINE Floats Sigmoid(Floats x) { return 1.0f / (1.0f + Exp(-x)); }

// tanh x within 4e-7: odd, rational, saturated where float32 is.
MOONPOLY_INLINE Floats Tanh(Floats x) {
  x = Clamp(x, -9.02f, 9.02f);
  const Floats z = x * x;
  Floats p = Splat(-1.220227532525455e-11f);
  p = p * z + 3.0583415076563487e-08f;
  p = p * z + 2.8006796960207808e-05f;
  p = p * z + 0.0038682953452765516f;
  p = p * z + 0.1367988936473647f;
  p = p * z + 0.9999999987030331f;
  Floats q = Splat(1.287320078325575e-06f);
  q = q * z + 0.00039385736558459456f;
  q = q * z + 0.027245720700052746f;
  q = q * z + 0.4701322143051089f;
  q = q * z + 1.0f;
  return x * p / q;
}

// x[i] = f(x[i]), the last few lanes by way of a whole vector.
template <typename F>
MOONPOLY_INLINE void ForLanes(float* x, int64_t count, F f) {
  Floats lanes;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    std::memcpy(&lanes, x + i, sizeof(lanes));
    lanes = f(lanes);
    std::memcpy(x + i, &lanes, sizeof(lanes));
  }
  if (i == count) return;
  lanes = Floats{};
  std::memcpy(&lanes, x + i, (count - i) * sizeof(float));
  lanes = f(lanes);
  std::memcpy(x + i, &lanes, (count - i) * sizeof(float));
}

MOONPOLY_INLINE void SigmoidLoop(float* x, int64_t count) {
  ForLanes(x, count, [](Floats v) __attribute__((always_inline)) { return Sigmoid(v); });
}

MOONPOLY_INLINE void TanhLoop(float* x, int64_t count, float alpha, float beta) {
  ForLanes(x, count,
           [=](Floats v) __attribute__((always_inline)) { return alpha * Tanh(beta * v); });
}

#if defined(__x86_64__)
MOONPOLY_AVX2 void SigmoidAvx2(float* x, int64_t count) { SigmoidLoop(x, count); }
MOONPOLY_AVX2 void TanhAvx2(float* x, int64_t count, float alpha, float beta) {
  TanhLoop(x, count, alpha, beta);
}

bool HasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}
#endif

void SigmoidArray(float* x, int64_t count) {
#if defined(__x86_64__)
  if (HasAvx2()) return SigmoidAvx2(x, count);
#endif
  SigmoidLoop(x, count);
}

void TanhArray(float* x, int64_t count, float alpha, float beta) {
#if defined(__x86_64__)
  if (HasAvx2()) return TanhAvx2(x, count, alpha, beta);
#endif
  TanhLoop(x, count, alpha, beta);
}

float Rare(const Activation& f, float x) {
  switch (f.kind) {
    case Kind::kAffine:
      return f.alpha * x + f.beta;
    case Kind::kLeakyRelu:
      return x >= 0.0f ? x : f.alpha * x;
    case Kind::kThresholdedRelu:
      return x > f.alpha ? x : 0.0f;
    case Kind::kHardSigmoid:
      return std::min(std::max(f.alpha * x + f.beta, 0.0f), 1.0f);
    case Kind::kElu:
      return x >= 0.0f ? x : f.alpha * std::expm1(x);
    case Kind::kSoftsign:
      return x / (1.0f + std::fabs(x));
    case Kind::kSoftplus:
      // Large inputs must not overflow on the way.
      return std::max(x, 0.0f) + std::log1p(std::exp(-std::fabs(x)));
    default:
      return std::max(x, 0.0f);
  }
}

Kind ParseKind(const std::string& name) {
  static constexpr const char* kNames[] = {
      "sigmoid",    "tanh",        "relu", "affine",   "leakyrelu", "thresholdedrelu",
      "scaledtanh", "hardsigmoid", "elu",  "softsign", "softplus"};
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) {
    TVM_FFI_THROW(ValueError) << "unknown activation " << name << " of a recurrent layer";
  }
  return static_cast<Kind>(found - std::begin(kNames));
}

}  // namespace

std::vector<Activation> ParseActivations(const std::string& text, size_t count) {
  std::istringstream in(text);
  std::vector<Activation> out;
  std::string name;
  Activation each{};
  while (in >> name >> each.alpha >> each.beta) {
    each.kind = ParseKind(name);
    out.push_back(each);
  }
  if (out.size() != count) {
    TVM_FFI_THROW(ValueError) << "expected " << count << " activations, got \"" << text << "\"";
  }
  return out;
}

void Activate(const Activation& activation, float* x, int64_t count) {
  switch (activation.kind) {
    case Kind::kSigmoid:
      return SigmoidArray(x, count);
    case Kind::kTanh:
      return TanhArray(x, count, 1.0f, 1.0f);
    case Kind::kScaledTanh:
      return TanhArray(x, count, activation.alpha, activation.beta);
    default:
      for (int64_t i = 0; i < count; ++i) x[i] = Rare(activation, x[i]);
  }
}

void Clip(float limit, float* x, int64_t count) {
  if (limit == 0.0f) return;
  for (int64_t i = 0; i < count; ++i) x[i] = std::min(std::max(x[i], -limit), limit);
}

}  // namespace moonpoly
