/*!
 * \file launch/pack.cc
 */
#include "launch/pack.h"

#include <algorithm>
#include <cstring>

#include "launch/vector_ops.h"

namespace moonpoly {

namespace {

void Zero(float* dst, int64_t count) { std::memset(dst, 0, count * sizeof(float)); }

void Copy(float* dst, const float* src, int64_t count) {
  std::memcpy(dst, src, count * sizeof(float));
}

// The last, ragged panel of a row-major B.
void PackRaggedPanel(const float* src, int64_t ld, int64_t kc, int64_t valid, int64_t lanes,
                     float* dst) {
  for (int64_t i = 0; i < kc; ++i) {
    Copy(dst + i * lanes, src + i * ld, valid);
    Zero(dst + i * lanes + valid, lanes - valid);
  }
}

}  // namespace

void PackPanels(const BOperand& b, int64_t n, int64_t k, int64_t lanes, int64_t n0, int64_t cols,
                int64_t k0, int64_t kc, float* dst) {
  if (b.mode == BMode::kGathered) {
    b.gather(b.gather_context, b.data, k0, kc, n0, cols, lanes, dst);
    return;
  }
  const VectorOps& ops = HostVectorOps();
  const int64_t panel_size = lanes * kc;
  const int64_t valid = std::min(cols, n - n0);
  const int64_t full = valid / lanes, ragged = valid % lanes;
  switch (b.mode) {
    case BMode::kPacked:
      for (int64_t p = 0; p < CeilDiv(valid, lanes); ++p) {
        Copy(dst + p * panel_size, b.data + ((n0 / lanes + p) * k + k0) * lanes, panel_size);
      }
      break;
    case BMode::kRowMajor:
      ops.pack_panels(b.data + k0 * b.ld + n0, b.ld, kc, full, lanes, dst);
      if (ragged > 0) {
        PackRaggedPanel(b.data + k0 * b.ld + n0 + full * lanes, b.ld, kc, ragged, lanes,
                        dst + full * panel_size);
      }
      break;
    case BMode::kTransposed:
      for (int64_t p = 0; p < full; ++p) {
        ops.transpose(b.data + (n0 + p * lanes) * b.ld + k0, b.ld, lanes, kc, dst + p * panel_size,
                      lanes);
      }
      if (ragged > 0) {
        float* panel = dst + full * panel_size;
        Zero(panel, panel_size);
        ops.transpose(b.data + (n0 + full * lanes) * b.ld + k0, b.ld, ragged, kc, panel, lanes);
      }
      break;
    case BMode::kGathered:
      break;
  }
  const int64_t written = full + (ragged > 0 ? 1 : 0);
  Zero(dst + written * panel_size, (cols / lanes - written) * panel_size);
}

void PackColumns(const BOperand& b, int64_t n, int64_t k, int64_t lanes, int64_t n0, int64_t cols,
                 int64_t k0, int64_t kc, float* dst) {
  const int64_t valid = std::min(cols, n - n0);
  switch (b.mode) {
    case BMode::kTransposed:
      for (int64_t j = 0; j < valid; ++j) Copy(dst + j * kc, b.data + (n0 + j) * b.ld + k0, kc);
      break;
    case BMode::kRowMajor:
      HostVectorOps().transpose(b.data + k0 * b.ld + n0, b.ld, kc, valid, dst, kc);
      break;
    case BMode::kPacked:
      for (int64_t j = 0; j < valid; ++j) {
        const int64_t panel = (n0 + j) / lanes, lane = (n0 + j) % lanes;
        const float* src = b.data + (panel * k + k0) * lanes + lane;
        for (int64_t i = 0; i < kc; ++i) dst[j * kc + i] = src[i * lanes];
      }
      break;
    case BMode::kGathered:
      break;  // a convolution is never given a dot kernel
  }
  Zero(dst + valid * kc, (cols - valid) * kc);
}

void PackRows(const AOperand& a, int64_t m0, int64_t rows, int64_t padded_rows, int64_t k0,
              int64_t kc, float* dst, int64_t ld) {
  const float* src = a.data + m0 * a.row + k0 * a.col;
  if (a.col == 1) {
    for (int64_t i = 0; i < rows; ++i) Copy(dst + i * ld, src + i * a.row, kc);
  } else if (a.row == 1) {
    HostVectorOps().transpose(src, a.col, kc, rows, dst, ld);
  } else {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t p = 0; p < kc; ++p) dst[i * ld + p] = src[i * a.row + p * a.col];
    }
  }
  for (int64_t i = rows; i < padded_rows; ++i) Zero(dst + i * ld, kc);
}

}  // namespace moonpoly
