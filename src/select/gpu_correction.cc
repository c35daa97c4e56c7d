/*!
 * \file select/gpu_correction.cc
 */
#include "select/gpu_correction.h"

#include <algorithm>
#include <cstring>

#include "select/gpu_rows.h"
#include "select/plan.h"

namespace moonpoly {

namespace {

constexpr int32_t kOneBits = 0x3f800000;
constexpr float kMantissa = 8388608.0f;
constexpr float kLeastUs = 0.1f;

// Linear between powers of two.
float Log2(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return static_cast<float>(bits - kOneBits) / kMantissa;
}

float Exp2(float x) {
  const int32_t bits = static_cast<int32_t>(std::clamp(x, -60.0f, 60.0f) * kMantissa) + kOneBits;
  float out;
  std::memcpy(&out, &bits, sizeof(out));
  return out;
}

/*! \brief Evenly spaced points. */
struct Axis {
  float low, step;
  int32_t size;
};

// Steps of a part's reduction; load; microseconds; bytes where the cache fills, and all bytes, in
// MB; MB in a microsecond, moved and fetched; bands over strips.
constexpr Axis kSteps{0, 2, 5}, kLoad{-4, 1, 8}, kUs{0, 1, 7}, kFilling{4, 0.5f, 7};
constexpr Axis kBytes{-2, 2, 6}, kRate{-4, 1, 7}, kFetching{-2, 1, 7}, kAspect{-8, 4, 5};
// The whole reduction.
constexpr Axis kDepth{3, 1, 12};

// Blocks in units of multiprocessors: kernels of several blocks on each are as fast as the fullest
// multiprocessor. The one axis that isn't logarithmic.
constexpr Axis kShare{0, 0.25f, 13};

/*! \brief Shares of the two points around a value; outside the axis those of its end. */
struct Place {
  int32_t index;
  float at;
};

Place Locate(const Axis& axis, float value) {
  const float end = static_cast<float>(axis.size - 1);
  const float place = std::clamp((value - axis.low) / axis.step, 0.0f, end);
  const int32_t index = std::min(static_cast<int32_t>(place), axis.size - 2);
  return {index, place - static_cast<float>(index)};
}

// Where the terms of each kind begin.
constexpr int32_t kFillMSteps = 1;
constexpr int32_t kFillNSteps = kFillMSteps + kSteps.size;
constexpr int32_t kFillMLoad = kFillNSteps + kSteps.size;
constexpr int32_t kFillNLoad = kFillMLoad + kLoad.size;
constexpr int32_t kOfBytes = kFillNLoad + kLoad.size;
constexpr int32_t kOfRate = kOfBytes + kBytes.size;
constexpr int32_t kOfFetching = kOfRate + kRate.size;
constexpr int32_t kRowsFetching = kOfFetching + kFetching.size;
constexpr int32_t kNarrowUs = kRowsFetching + 5 * kFetching.size;
constexpr int32_t kAspectLoad = kNarrowUs + 2 * kUs.size;
constexpr int32_t kOfCluster = kAspectLoad + kAspect.size * kLoad.size;
constexpr int32_t kOfSlices = kOfCluster + 3;
constexpr int32_t kClusterUs = kOfSlices + 2;
constexpr int32_t kSlicesUs = kClusterUs + kUs.size;
constexpr int32_t kOfDepth = kSlicesUs + kUs.size;
constexpr int32_t kOfShare = kOfDepth + kDepth.size;
constexpr int32_t kOverlapFilling = kOfShare + kShare.size;
constexpr int32_t kOverlapRate = kOverlapFilling + kFilling.size;
constexpr int32_t kOverlapStepsLoad = kOverlapRate + kRate.size;
constexpr int32_t kOverlapStepsUs = kOverlapStepsLoad + kSteps.size * kLoad.size;
static_assert(kOverlapStepsUs + kSteps.size * kUs.size == kGpuCorrectionTerms);

template <typename Add>
void Line(Add&& add, int32_t begin, Place place, float scale = 1.0f) {
  add(begin + place.index, (1.0f - place.at) * scale);
  add(begin + place.index + 1, place.at * scale);
}

template <typename Add>
void Plane(Add&& add, int32_t begin, Place row, int32_t width, Place column) {
  Line(add, begin + row.index * width, column, 1.0f - row.at);
  Line(add, begin + (row.index + 1) * width, column, row.at);
}

}  // namespace

GpuProductTerms::GpuProductTerms(const GpuKernelSetObj& ks, const GpuProblem& problem)
    : m(static_cast<float>(problem.m)),
      n(static_cast<float>(problem.n)),
      k(static_cast<float>(problem.k)) {
  const GpuTypes& types = ks.manifest().types;
  const float output_mb = 1e-6f * static_cast<float>(types.output_bytes());
  steps = static_cast<float>(CeilDiv32(problem.k, types.step()));
  item_mb = 1e-6f * static_cast<float>(types.item_bytes());
  megabytes = Log2(item_mb * k * (m + n) + output_mb * m * n);
  depth = Log2(k);
  inverse_sms = 1.0f / static_cast<float>(ks.manifest().machine.num_sms);
  rows = RowsOf(problem.k * types.item_bytes());
  narrow = NarrowOf(types, problem.n);
}

GpuLaunchTerms::GpuLaunchTerms(const GpuProductTerms& product, const GpuKernelSpec& kernel,
                               const GpuTiling& tiling, GpuSplit split, float us)
    : product_(product), cluster_(split.cluster) {
  const float bands = static_cast<float>(tiling.bands), strips = static_cast<float>(tiling.strips);
  // Adding up may be predicted to take less than nothing.
  us_ = Log2(std::max(us, kLeastUs));
  part_steps_ = Log2(product.steps / static_cast<float>(split.blocks()));
  load_ = Log2(tiling.waves);
  fill_m_ = Log2(product.m / (bands * static_cast<float>(kernel.um * kernel.cluster_m)));
  fill_n_ = Log2(product.n / (strips * static_cast<float>(kernel.un * kernel.cluster_n)));
  fetched_ = Log2(product.item_mb * product.k * (strips * product.m + bands * product.n));
  aspect_ = Log2(bands) - Log2(strips);
  slices_ = Log2(static_cast<float>(split.slices));
  share_ =
      bands * strips * static_cast<float>(kernel.cluster() * split.blocks()) * product.inverse_sms;
}

template <typename Add>
void GpuLaunchTerms::Visit(Add&& add) const {
  const Place steps = Locate(kSteps, part_steps_), load = Locate(kLoad, load_);
  const Place us = Locate(kUs, us_), fetching = Locate(kFetching, fetched_ - us_);
  add(0, 1.0f);
  Line(add, kFillMSteps, steps, fill_m_);
  Line(add, kFillNSteps, steps, fill_n_);
  Line(add, kFillMLoad, load, fill_m_);
  Line(add, kFillNLoad, load, fill_n_);
  Line(add, kOfBytes, Locate(kBytes, product_.megabytes));
  Line(add, kOfRate, Locate(kRate, product_.megabytes - us_));
  Line(add, kOfFetching, fetching);
  if (product_.rows > 0) Line(add, kRowsFetching + (product_.rows - 1) * kFetching.size, fetching);
  if (product_.narrow > 0) Line(add, kNarrowUs + (product_.narrow - 1) * kUs.size, us);
  Line(add, kOfDepth, Locate(kDepth, product_.depth));
  Line(add, kOfShare, Locate(kShare, share_));
  Plane(add, kAspectLoad, Locate(kAspect, aspect_), kLoad.size, load);
  if (cluster_ > 1) {
    add(kOfCluster + ClusterIndex(cluster_) - 1, 1.0f);
    Line(add, kClusterUs, us);
  }
  if (slices_ > 0.0f) {
    add(kOfSlices, 1.0f);
    add(kOfSlices + 1, slices_);
    Line(add, kSlicesUs, us);
  }
}

template <typename Add>
void GpuLaunchTerms::VisitOverlap(Add&& add) const {
  const Place steps = Locate(kSteps, part_steps_);
  Line(add, kOverlapFilling, Locate(kFilling, product_.megabytes));
  Line(add, kOverlapRate, Locate(kRate, product_.megabytes - us_));
  Plane(add, kOverlapStepsLoad, steps, kLoad.size, Locate(kLoad, load_));
  Plane(add, kOverlapStepsUs, steps, kUs.size, Locate(kUs, us_));
}

GpuLaunchTerms::Ways GpuLaunchTerms::Correct(const std::vector<float>& weights) const {
  const float* weight = weights.data();
  float apart = us_, overlapping = 0.0f;
  Visit([&](int32_t i, float value) { apart += weight[i] * value; });
  VisitOverlap([&](int32_t i, float value) { overlapping += weight[i] * value; });
  return {Exp2(apart), Exp2(apart + overlapping)};
}

std::array<float, kGpuCorrectionTerms> GpuLaunchTerms::Dense(bool overlap) const {
  std::array<float, kGpuCorrectionTerms> out{};
  const auto add = [&out](int32_t i, float value) { out[i] += value; };
  Visit(add);
  if (overlap) VisitOverlap(add);
  return out;
}

}  // namespace moonpoly
