/*!
 * \file ops/int8_recurrent.cc
 */
#include "ops/int8_recurrent.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <numeric>

#include "launch/tensor_check.h"
#include "ops/dynamic_quantize.h"
#include "ops/int8_tile.h"
#include "ops/integer_tensor.h"

namespace moonpoly {

namespace {

void CheckCount(const DLTensor* tensor, int64_t expected, const char* name) {
  if (NumElements(tensor) == expected) return;
  TVM_FFI_THROW(ValueError) << name << " must have " << expected << " elements, got "
                            << ShapeText(tensor);
}

}  // namespace

Int8RecurrentWeight ReadInt8Weight(const DLTensor* panels, const DLTensor* sums,
                                   const DLTensor* scales, const DLTensor* zeros,
                                   int64_t directions, int64_t k, int64_t n) {
  CheckBytes(panels, "R");
  CheckInt32(sums, "the sums of R");
  CheckFloat32(scales, "the scales of R");
  CheckContiguous(scales, "the scales of R");
  CheckBytes(zeros, "the zero points of R");
  const int64_t columns = Int8NumPanels(n) * kInt8Panel;
  CheckCount(panels, directions * columns * Int8Groups(k) * kInt8Group, "R");
  CheckCount(sums, directions * columns, "the sums of R");
  CheckCount(scales, directions * n, "the scales of R");
  CheckCount(zeros, directions * n, "the zero points of R");
  return {ByteData(panels), Int32Data(sums), FloatData(scales), zeros, k, n};
}

Int8StepProduct::Int8StepProduct(const Int8RecurrentWeight& weight, int64_t direction, int64_t m,
                                 const float* a, float* c)
    : weight_(weight), m_(m), a_(a), c_(c) {
  const int64_t columns = Int8NumPanels(weight.n) * kInt8Panel;
  const int64_t stride = Int8Groups(weight.k) * kInt8Group;
  panels_ = weight.panels + direction * columns * stride;
  sums_ = weight.sums + direction * columns;
  scales_ = weight.scales + direction * weight.n;
  rows_.assign(static_cast<size_t>(m * stride), 0);
  products_.resize(static_cast<size_t>(kInt8Rows * kInt8Columns));
  col_zeros_.assign(static_cast<size_t>(columns), 0);
  const int32_t shift = IsUnsigned(weight.zeros) ? -128 : 0;
  for (int64_t j = 0; j < weight.n; ++j) {
    col_zeros_[j] = IntegerAt(weight.zeros, direction * weight.n + j) + shift;
    any_zero_ |= col_zeros_[j] != 0;
  }
}

void Int8StepProduct::Run() {
  const int64_t k = weight_.k, n = weight_.n, groups = Int8Groups(k), stride = groups * kInt8Group;
  const ByteScale scale = ScaleOf(a_, m_ * k);
  const Int8Tile tile = HostInt8Tile(true);
  int32_t row_zeros[kInt8Rows], row_sums[kInt8Rows];
  std::fill(row_zeros, row_zeros + kInt8Rows, scale.zero);
  for (int64_t r0 = 0; r0 < m_; r0 += kInt8Rows) {
    const int64_t rows = std::min(kInt8Rows, m_ - r0);
    for (int64_t r = 0; r < rows; ++r) {
      uint8_t* row = rows_.data() + (r0 + r) * stride;
      QuantizeBytes(a_ + (r0 + r) * k, k, scale, row);
      row_sums[r] = std::accumulate(row, row + k, 0) - static_cast<int32_t>(k) * scale.zero;
    }
    for (int64_t c0 = 0; c0 < n; c0 += kInt8Columns) {
      const int64_t columns = std::min(kInt8Columns, n - c0);
      Int8TileArgs args;
      args.rows = rows_.data() + r0 * stride;
      args.row_stride = stride;
      args.panels = panels_ + c0 * stride;
      args.panel_stride = groups * kInt8PanelBytes;
      args.groups = groups;
      args.out = products_.data();
      args.out_ld = kInt8Columns;
      args.row_zero = scale.zero == 0 ? nullptr : row_zeros;
      args.row_sum = row_sums;
      args.col_zero = any_zero_ ? col_zeros_.data() + c0 : nullptr;
      args.col_sum = sums_ + c0;
      tile(args, rows, columns);
      for (int64_t r = 0; r < rows; ++r) {
        const int32_t* product = products_.data() + r * kInt8Columns;
        float* to = c_ + (r0 + r) * n + c0;
        for (int64_t j = 0; j < columns; ++j) {
          to[j] = static_cast<float>(product[j]) * (scale.scale * scales_[c0 + j]);
        }
      }
    }
  }
}

}  // namespace moonpoly
