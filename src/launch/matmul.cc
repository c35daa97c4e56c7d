/*!
 * \file launch/matmul.cc
 */
#include "launch/matmul.h"

#include <tvm/ffi/error.h>

#include <algorithm>

#include "launch/tensor_check.h"
#include "launch/threads.h"

namespace moonpoly {

namespace {

/*! \brief The extent and stride of `tensor` along batch dimension `d` of `ndim`; 1 where absent. */
struct BatchAxis {
  int64_t extent;
  int64_t stride;
};

BatchAxis BatchAxisOf(const DLTensor* tensor, int matrix_dims, int d, int ndim) {
  const int axis = tensor->ndim - matrix_dims - ndim + d;
  if (axis < 0) return {1, 0};
  const int64_t extent = tensor->shape[axis];
  return {extent, extent == 1 ? 0 : StrideOf(tensor, axis)};
}

int64_t BroadcastStride(const DLTensor* tensor, int matrix_dims, int d, int ndim, int64_t extent,
                        const char* name) {
  const BatchAxis axis = BatchAxisOf(tensor, matrix_dims, d, ndim);
  if (axis.extent != extent && axis.extent != 1) {
    TVM_FFI_THROW(ValueError) << name << " has " << axis.extent << " elements along batch axis "
                              << d << ", expected " << extent << " or 1, got shape "
                              << ShapeText(tensor);
  }
  return axis.stride;
}

// The shape that an operand of a kind must end in, 1 where it broadcasts.
void MatrixShape(OperandKind kind, int64_t m, int64_t n, int64_t* rows, int64_t* cols) {
  *rows = kind == OperandKind::kRow || kind == OperandKind::kFull ? m : 1;
  *cols = kind == OperandKind::kCol || kind == OperandKind::kFull ? n : 1;
}

void BindOperand(const DLTensor* tensor, OperandKind kind, const DLTensor* c, bool folded,
                 const BatchDims& batch, int index, EpilogueOperand* out) {
  static constexpr const char* kName = "epilogue operand";
  if (tensor->device.device_type != kDLCPU) {
    TVM_FFI_THROW(TypeError) << kName << " " << index << " must be on the CPU";
  }
  out->kind = kind;
  out->dtype = tensor->dtype;
  out->data = static_cast<const char*>(tensor->data) + tensor->byte_offset;
  std::fill(out->batch, out->batch + kMaxBatchDims, 0);
  const int ndim = tensor->ndim;
  const int64_t rows = ndim >= 2 ? tensor->shape[ndim - 2] : 1;
  const int64_t cols = ndim >= 1 ? tensor->shape[ndim - 1] : 1;
  int64_t want_rows, want_cols;
  MatrixShape(kind, c->shape[c->ndim - 2], c->shape[c->ndim - 1], &want_rows, &want_cols);
  if (rows != want_rows || cols != want_cols) {
    TVM_FFI_THROW(ValueError) << kName << " " << index << " must end in (" << want_rows << ", "
                              << want_cols << "), got " << ShapeText(tensor);
  }
  out->ld = ndim >= 2 ? StrideOf(tensor, ndim - 2) : 0;
  const int64_t step = kind == OperandKind::kRow ? (rows > 1 ? out->ld : 1)
                                                 : (cols > 1 ? StrideOf(tensor, ndim - 1) : 1);
  if (step != 1) {
    TVM_FFI_THROW(ValueError) << kName << " " << index << " must be contiguous, got stride " << step
                              << " for " << ShapeText(tensor);
  }
  if (folded) return;  // CanFold saw that its rows follow each other as those of C do
  for (int d = 0; d < batch.ndim; ++d) {
    out->batch[d] = BroadcastStride(tensor, 2, d, batch.ndim, batch.extent[d], kName);
  }
}

// Leading dimensions can become rows when every tensor steps through them as through its rows.
bool RowsInLine(const DLTensor* tensor, const DLTensor* c) {
  if (tensor->ndim != c->ndim) return false;
  for (int d = 0; d < c->ndim - 1; ++d) {
    if (tensor->shape[d] != c->shape[d]) return false;
  }
  for (int d = c->ndim - 3; d >= 0; --d) {
    if (tensor->shape[d] == 1) continue;
    if (StrideOf(tensor, d) != StrideOf(tensor, d + 1) * tensor->shape[d + 1]) return false;
  }
  return true;
}

bool HasNoBatch(const DLTensor* tensor, int matrix_dims) {
  for (int d = 0; d < tensor->ndim - matrix_dims; ++d) {
    if (tensor->shape[d] != 1) return false;
  }
  return true;
}

bool CanFold(const DLTensor* a, const DLTensor* b, const DLTensor* c, const MatmulLayout& layout,
             int b_dims, const EpilogueSpec* epilogue, const DLTensor* const* operands) {
  if (layout.trans_a || !HasNoBatch(b, b_dims)) return false;
  if (!RowsInLine(a, c) || !RowsInLine(c, c)) return false;
  for (int i = 0; epilogue != nullptr && i < epilogue->num_operands; ++i) {
    const OperandKind kind = epilogue->kinds[i];
    const bool per_row = kind == OperandKind::kRow || kind == OperandKind::kFull;
    if (per_row ? !RowsInLine(operands[i], c) : !HasNoBatch(operands[i], 2)) return false;
  }
  return true;
}

void BindB(const KernelSetObj& ks, const MatmulLayout& layout, const DLTensor* b, int64_t n,
           int64_t k, BoundMatmul* bound) {
  const int last = b->ndim - 1;
  int64_t expected_rows = 0, expected_cols = 0;
  bound->b.data = FloatData(b);
  bound->b.mode = layout.b_mode;
  bound->b.ld = StrideOf(b, last - 1);
  // A view whose other axis is the contiguous one is the other layout.
  const bool flipped = b->shape[last] > 1 && StrideOf(b, last) != 1 && bound->b.ld == 1;
  if (!flipped) CheckLastContiguous(b, "B");
  switch (layout.b_mode) {
    case BMode::kPacked: {
      const int64_t panels = CeilDiv(n, ks.panel());
      if (b->shape[last] != ks.panel() || b->shape[last - 1] != k || b->shape[last - 2] != panels) {
        TVM_FFI_THROW(ValueError) << "packed B must end in (" << panels << ", " << k << ", "
                                  << ks.panel() << ") for C with " << n << " columns, got "
                                  << ShapeText(b);
      }
      const bool compact = (k <= 1 || StrideOf(b, last - 1) == ks.panel()) &&
                           (panels <= 1 || StrideOf(b, last - 2) == k * ks.panel());
      if (!compact) TVM_FFI_THROW(ValueError) << "packed B must be contiguous";
      return;
    }
    case BMode::kRowMajor:
      expected_rows = k;
      expected_cols = n;
      break;
    case BMode::kTransposed:
      expected_rows = n;
      expected_cols = k;
      break;
    case BMode::kGathered:
      TVM_FFI_THROW(ValueError) << "b_mode must be 0 (packed), 1 (row-major) or 2 (transposed)";
  }
  CheckExtent(b, last - 1, expected_rows, "B");
  CheckExtent(b, last, expected_cols, "B");
  const bool row_major = layout.b_mode == BMode::kRowMajor;
  if (flipped) {
    bound->b.mode = row_major ? BMode::kTransposed : BMode::kRowMajor;
    bound->b.ld = StrideOf(b, last);
  } else if (row_major && n == 1 && (k == 1 || bound->b.ld == 1)) {
    // A column that is contiguous already is what the dot kernels read.
    bound->b.mode = BMode::kTransposed;
    bound->b.ld = k;
  }
}

}  // namespace

void BindMatmul(const KernelSetObj& ks, const MatmulLayout& layout, const DLTensor* a,
                const DLTensor* b, const DLTensor* c, const EpilogueSpec* epilogue,
                const DLTensor* const* epilogue_operands, BoundMatmul* bound) {
  CheckFloat32(a, "A");
  CheckFloat32(b, "B");
  CheckFloat32(c, "C");
  const int b_dims = layout.b_mode == BMode::kPacked ? 3 : 2;
  if (a->ndim < 2 || c->ndim < 2 || b->ndim < b_dims) {
    TVM_FFI_THROW(ValueError) << "A and C must have 2 dimensions at least and B " << b_dims
                              << ", got " << ShapeText(a) << ", " << ShapeText(c) << " and "
                              << ShapeText(b);
  }
  CheckLastContiguous(c, "C");
  const int a_row = layout.trans_a ? a->ndim - 1 : a->ndim - 2;
  const int a_col = layout.trans_a ? a->ndim - 2 : a->ndim - 1;
  const int64_t m = c->shape[c->ndim - 2], n = c->shape[c->ndim - 1], k = a->shape[a_col];
  CheckExtent(a, a_row, m, "A");
  bound->problem = {1, m, n, k, layout.b_mode, NumThreads()};
  bound->a = {FloatData(a), StrideOf(a, a_row), StrideOf(a, a_col)};
  bound->c = {FloatData(c), StrideOf(c, c->ndim - 2)};
  BindB(ks, layout, b, n, k, bound);
  bound->problem.b_mode = bound->b.mode;
  BatchDims& batch = bound->batch;
  batch.ndim = c->ndim - 2;
  if (batch.ndim > 0) {
    const bool fold = CanFold(a, b, c, layout, b_dims, epilogue, epilogue_operands);
    if (batch.ndim > kMaxBatchDims && !fold) {
      TVM_FFI_THROW(ValueError) << "C has " << batch.ndim << " batch dimensions, at most "
                                << kMaxBatchDims << " are supported";
    }
    if (fold) {
      for (int d = 0; d < batch.ndim; ++d) bound->problem.m *= c->shape[d];
      batch.ndim = 0;
    }
    for (int d = 0; d < batch.ndim; ++d) {
      const int64_t extent = c->shape[d];
      batch.extent[d] = extent;
      batch.c[d] = StrideOf(c, d);
      batch.a[d] = BroadcastStride(a, 2, d, batch.ndim, extent, "A");
      batch.b[d] = BroadcastStride(b, b_dims, d, batch.ndim, extent, "B");
      bound->problem.batch *= extent;
    }
  }
  if (a->ndim > c->ndim || b->ndim - b_dims > c->ndim - 2) {
    TVM_FFI_THROW(ValueError) << "C must have the batch dimensions of A and B, got " << ShapeText(c)
                              << " for " << ShapeText(a) << " and " << ShapeText(b);
  }
  if (epilogue == nullptr || !epilogue->active()) return;
  bound->epilogue.safe_call = epilogue->safe_call;
  bound->epilogue.handle = epilogue->handle;
  bound->epilogue.num_operands = epilogue->num_operands;
  const bool folded = c->ndim > 2 && batch.ndim == 0;
  for (int i = 0; i < epilogue->num_operands; ++i) {
    BindOperand(epilogue_operands[i], epilogue->kinds[i], c, folded, batch, i,
                &bound->epilogue.operands[i]);
  }
}

void LaunchMatmul(const KernelSetObj& ks, const BoundMatmul& bound, const Plan& plan,
                  bool has_epilogue) {
  GemmCall call;
  call.ks = &ks;
  call.plan = &plan;
  call.a = bound.a;
  call.b = bound.b;
  call.c = bound.c;
  call.batch = bound.batch;
  call.epilogue = has_epilogue ? &bound.epilogue : nullptr;
  LaunchGemmOrThrow(call);
}

}  // namespace moonpoly
