/*!
 * \file artifact/cost_table.cc
 */
#include "artifact/cost_table.h"

#include <tvm/ffi/error.h>

#include <cmath>
#include <utility>

namespace moonpoly {

namespace {

void CheckAxis(const std::vector<int64_t>& axis, const char* name) {
  if (axis.empty() || axis.front() < 1) {
    TVM_FFI_THROW(ValueError) << "grid axis " << name << " must hold positive integers";
  }
  for (size_t i = 1; i < axis.size(); ++i) {
    if (axis[i] <= axis[i - 1]) {
      TVM_FFI_THROW(ValueError) << "grid axis " << name << " must increase, got " << axis[i]
                                << " after " << axis[i - 1];
    }
  }
}

}  // namespace

CostGrid::CostGrid(std::vector<int64_t> k, std::vector<int64_t> m_tiles,
                   std::vector<int64_t> n_tiles)
    : k_(std::move(k)) {
  CheckAxis(k_, "k");
  CheckAxis(m_tiles, "m_tiles");
  CheckAxis(n_tiles, "n_tiles");
  num_m_ = static_cast<int32_t>(m_tiles.size());
  num_n_ = static_cast<int32_t>(n_tiles.size());
  step_k_ = k_.size() > 1 ? num_m_ * num_n_ : 0;
  step_m_ = num_m_ > 1 ? num_n_ : 0;
  step_n_ = num_n_ > 1 ? 1 : 0;
  m_lut_ = MakeLut(m_tiles);
  n_lut_ = MakeLut(n_tiles);
}

CostGrid::Lut CostGrid::MakeLut(const std::vector<int64_t>& axis) {
  const auto locate = [&axis](int64_t tiles) -> AxisPoint {
    if (axis.size() == 1 || tiles <= axis.front()) return {0, 0.0f, 1.0f};
    const size_t last = axis.size() - 2;
    size_t low = 0;
    while (low < last && axis[low + 1] <= tiles) ++low;
    const double span = std::log2(static_cast<double>(axis[low + 1]) / axis[low]);
    const double at = std::log2(static_cast<double>(tiles) / axis[low]) / span;
    return {static_cast<int32_t>(low), static_cast<float>(std::min(at, 1.0)), 1.0f};
  };
  Lut lut{};
  for (int64_t tiles = 1; tiles <= kFine; ++tiles) lut.fine[tiles] = locate(tiles);
  for (int64_t step = 1; step <= kLast / kStep; ++step) lut.coarse[step] = locate(step * kStep);
  return lut;
}

AxisPoint CostGrid::LocateK(int64_t k) const {
  if (k_.size() == 1) return {0, 0.0f, static_cast<float>(k) / static_cast<float>(k_[0])};
  if (k <= k_.front()) return {0, 0.0f, 1.0f};
  const int32_t last = static_cast<int32_t>(k_.size()) - 2;
  if (k >= k_.back()) {
    return {last, 1.0f, static_cast<float>(k) / static_cast<float>(k_.back())};
  }
  int32_t low = 0;
  while (low < last && k_[low + 1] <= k) ++low;
  const float span = static_cast<float>(k_[low + 1] - k_[low]);
  return {low, static_cast<float>(k - k_[low]) / span, 1.0f};
}

}  // namespace moonpoly
