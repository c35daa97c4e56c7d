/*!
 * \file artifact/gpu_cost_table.cc
 */
#include "artifact/gpu_cost_table.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace moonpoly {

GpuCostGrid::GpuCostGrid(const std::vector<int64_t>& k, const std::vector<float>& loads)
    : k_(k.begin(), k.end()) {
  const auto increasing = [](const auto& axis) {
    for (size_t i = 0; i < axis.size(); ++i) {
      if (!(axis[i] > (i == 0 ? 0 : axis[i - 1]))) return false;
    }
    return true;
  };
  if (k.size() < 2 || !increasing(k)) {
    TVM_FFI_THROW(ValueError) << "grid.k must hold 2 or more increasing positive integers";
  }
  const auto one = std::find(loads.begin(), loads.end(), 1.0f);
  const bool whole = std::all_of(one, loads.end(), [](float x) { return x == std::floor(x); });
  if (loads.size() > kMaxLoads || !increasing(loads) || one == loads.begin() ||
      loads.end() - one < 2 || !whole) {
    TVM_FFI_THROW(ValueError) << "grid.load must hold at most " << kMaxLoads
                              << " increasing positive numbers: 1 among them, one below it and "
                                 "one above it at least, and above it only whole numbers";
  }
  for (size_t i = 0; i + 1 < k_.size(); ++i) inverse_k_steps_.push_back(1 / (k_[i + 1] - k_[i]));
  for (size_t bit = 0; bit < k_lut_.size(); ++bit) {
    size_t i = 0;
    while (i + 2 < k_.size() && k[i + 1] <= int64_t{1} << bit) ++i;
    k_lut_[bit] = static_cast<int8_t>(i);
  }
  num_loads_ = static_cast<int32_t>(loads.size());
  whole_ = static_cast<int32_t>(one - loads.begin());
  std::copy(loads.begin(), loads.end(), loads_.begin());
  for (int32_t i = 0; i + 1 < num_loads_; ++i) inverse_steps_[i] = 1 / (loads_[i + 1] - loads_[i]);
  for (int32_t part = 0; part <= kParts; ++part) {
    int32_t i = 0;
    while (i + 1 < whole_ && loads_[i + 1] * kParts <= static_cast<float>(part)) ++i;
    part_lut_[part] = static_cast<int8_t>(i);
  }
  for (int32_t waves = 0; waves <= kWaves; ++waves) {
    int32_t i = whole_;
    while (i + 2 < num_loads_ && loads_[i + 1] < static_cast<float>(waves)) ++i;
    wave_lut_[waves] = static_cast<int8_t>(i);
  }
}

GpuCostGrid::Depth GpuCostGrid::LocateK(int64_t k) const {
  const int32_t end = static_cast<int32_t>(k_.size()) - 2;
  const int32_t bit = 31 - __builtin_clz(static_cast<uint32_t>(k));
  const float at = static_cast<float>(k);
  int32_t index = k_lut_[bit];
  while (index < end && k_[index + 1] <= at) ++index;
  // Below the first point a tile costs what it costs there: the fixed part is most of it.
  // Beyond the last one it goes on as between the last two.
  return {index, std::max(0.0f, (at - k_[index]) * inverse_k_steps_[index])};
}

float GpuCostGrid::LeastPerWaveUs(const float* row, float launch_us) const {
  // Costs are linear between points, so what a wave takes is least at one of them.
  float within = std::numeric_limits<float>::infinity(), beyond = within;
  for (int32_t i = 0; i < num_loads_; ++i) {
    float& least = i < whole_ ? within : beyond;
    least = std::min(least, (row[i] - launch_us) / loads_[i]);
  }
  // Beyond the last point it goes on as between the last two.
  const int32_t last = num_loads_ - 1;
  beyond = std::min(beyond, (row[last] - row[last - 1]) / (loads_[last] - loads_[last - 1]));
  // A broken last wave costs its share of a whole one, which may be less than its tiles' share. It
  // follows on one whole wave at least.
  const float whole_us = std::max(row[whole_] - launch_us, 0.01f);
  const float share = std::clamp(within / whole_us, 0.0f, 1.0f);
  return std::max(0.0f, std::min(within, beyond * 0.5f * (1.0f + share)));
}

}  // namespace moonpoly
