/*!
 * \file artifact/gpu_cost_table.cc
 */
#include "artifact/gpu_cost_table.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace moonpoly {

GpuCostGrid::GpuCostGrid(std::vector<int64_t> k, std::vector<float> loads)
    : k_(std::move(k)), loads_(std::move(loads)) {
  const auto increasing = [](const auto& axis) {
    for (size_t i = 0; i < axis.size(); ++i) {
      if (!(axis[i] > (i == 0 ? 0 : axis[i - 1]))) return false;
    }
    return true;
  };
  if (k_.size() < 2 || !increasing(k_)) {
    TVM_FFI_THROW(ValueError) << "grid.k must hold 2 or more increasing positive integers";
  }
  const auto one = std::find(loads_.begin(), loads_.end(), 1.0f);
  const bool whole = std::all_of(one, loads_.end(), [](float x) { return x == std::floor(x); });
  if (loads_.size() > kMaxLoads || !increasing(loads_) || loads_.end() - one < 2 || !whole) {
    TVM_FFI_THROW(ValueError) << "grid.load must hold at most " << kMaxLoads
                              << " increasing positive numbers: 1 among them, only whole numbers "
                                 "above it, and one of them at least";
  }
  whole_ = static_cast<int32_t>(one - loads_.begin());
}

GpuCostGrid::Depth GpuCostGrid::LocateK(float k) const {
  const float last = static_cast<float>(k_.back());
  const int32_t end = static_cast<int32_t>(k_.size()) - 2;
  if (k >= last) return {end, 1.0f, k - last};
  int32_t index = 0;
  while (index < end && static_cast<float>(k_[index + 1]) <= k) ++index;
  const float low = static_cast<float>(k_[index]), high = static_cast<float>(k_[index + 1]);
  // Below the first point a tile costs what it costs there: the fixed part is most of it.
  return {index, std::max(0.0f, (k - low) / (high - low)), 0.0f};
}

void GpuCostGrid::FillRow(const float* table, Depth depth, Row* row) const {
  const int32_t count = num_loads();
  const float* low = table + depth.index * count;
  const float* high = low + count;
  const float step = static_cast<float>(k_[depth.index + 1] - k_[depth.index]);
  const float at = depth.fraction + depth.beyond / step;
  for (int32_t i = 0; i < count; ++i) (*row)[i] = low[i] + (high[i] - low[i]) * at;
}

float GpuCostGrid::Interpolate(const Row& row, float load, int32_t first) const {
  int32_t i = first;
  const int32_t last = num_loads() - 2;
  while (i < last && loads_[i + 1] < load) ++i;
  const float at = (load - loads_[i]) / (loads_[i + 1] - loads_[i]);
  return row[i] + (row[i + 1] - row[i]) * (load < loads_[i] ? 0.0f : at);
}

float GpuCostGrid::LaunchUs(const float* table, Depth depth, float waves, float launch_us) const {
  Row row;
  FillRow(table, depth, &row);
  if (waves <= 1.0f) return Interpolate(row, waves, 0);
  const float full = std::floor(waves), rest = waves - full;
  const float before = Interpolate(row, full, whole_);
  if (rest <= 0.0f) return before;
  const float wave_us = Interpolate(row, full + 1.0f, whole_) - before;
  const float share =
      (Interpolate(row, rest, 0) - launch_us) / std::max(row[whole_] - launch_us, 0.01f);
  return before + wave_us * std::clamp(share, 0.0f, 1.0f);
}

}  // namespace moonpoly
