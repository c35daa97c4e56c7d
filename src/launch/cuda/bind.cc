/*!
 * \file launch/cuda/bind.cc
 * \brief Checking the operands of a product on a GPU.
 */
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

#include <algorithm>
#include <limits>

#include "launch/cuda/gemm.h"
#include "launch/tensor_check.h"

namespace moonpoly {

namespace {

constexpr int64_t kMaxExtent = std::numeric_limits<int32_t>::max();
// Strides of C are counted in 32 bits.
constexpr int64_t kMaxStride = kMaxExtent;

/*! \brief A matrix as it lies in memory. */
struct Matrix {
  void* data;
  int64_t rows, cols;
  int64_t row_stride, col_stride;
};

void CheckType(const DLTensor* tensor, DLDataType type, const char* name) {
  if (tensor->device.device_type != kDLCUDA) {
    TVM_FFI_THROW(TypeError) << name << " must be on a CUDA device, got device type "
                             << static_cast<int>(tensor->device.device_type);
  }
  if (tensor->dtype != type) {
    TVM_FFI_THROW(TypeError) << name << " must be " << tvm::ffi::DLDataTypeToString(type)
                             << ", got " << tvm::ffi::DLDataTypeToString(tensor->dtype);
  }
}

// The last two dimensions, with those before them folded into the rows.
Matrix Fold(const DLTensor* tensor, const char* name) {
  if (tensor->ndim < 2) {
    TVM_FFI_THROW(ValueError) << name << " must have 2 dimensions or more, got shape "
                              << ShapeText(tensor);
  }
  const int rows = tensor->ndim - 2;
  Matrix out{static_cast<char*>(tensor->data) + tensor->byte_offset, tensor->shape[rows],
             tensor->shape[rows + 1], StrideOf(tensor, rows), StrideOf(tensor, rows + 1)};
  for (int axis = rows - 1; axis >= 0; --axis) {
    const int64_t extent = tensor->shape[axis];
    if (out.rows == 1) out.row_stride = StrideOf(tensor, axis);
    if (extent > 1 && out.rows > 1 && StrideOf(tensor, axis) != out.rows * out.row_stride) {
      TVM_FFI_THROW(ValueError) << name << " of shape " << ShapeText(tensor)
                                << " has leading dimensions that can't be folded into rows a "
                                   "constant stride apart; make it contiguous";
    }
    out.rows *= extent;
  }
  return out;
}

/*! \brief Which dimension is contiguous, and the stride of the other. */
struct Storage {
  bool by_rows;
  int64_t stride;
};

// `prefer_rows` decides where both readings are true; `align` are the items of 16 bytes.
Storage StorageOf(const Matrix& matrix, bool prefer_rows, int64_t align, const char* name) {
  const bool rows_contiguous = matrix.col_stride == 1 || matrix.cols == 1;
  const bool cols_contiguous = matrix.row_stride == 1 || matrix.rows == 1;
  if (!rows_contiguous && !cols_contiguous) {
    TVM_FFI_THROW(ValueError) << name << " must have a contiguous dimension, got strides "
                              << matrix.row_stride << " and " << matrix.col_stride;
  }
  const bool by_rows = prefer_rows ? rows_contiguous : !cols_contiguous;
  const int64_t lines = by_rows ? matrix.rows : matrix.cols;
  const int64_t length = by_rows ? matrix.cols : matrix.rows;
  const int64_t stride = by_rows ? matrix.row_stride : matrix.col_stride;
  // A single line is never stepped over: any stride describes it.
  if (lines == 1) return {by_rows, (length + align - 1) / align * align};
  if (stride < 0 || stride > kMaxStride) {
    TVM_FFI_THROW(ValueError) << name << " must have strides of 0.." << kMaxStride << ", got "
                              << stride;
  }
  return {by_rows, stride};
}

GpuLoads AccessOf(const void* data, int64_t stride, const GpuTypes& types) {
  if (stride == 0) return GpuLoads::kStrided;
  const GpuLoads access = AccessOfRows(types, stride);
  const bool aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0;
  return aligned ? access : std::max(access, GpuLoads::kResidue);
}

}  // namespace

GpuMatmul BindGpuMatmul(const GpuKernelSetObj& ks, const DLTensor* a, const DLTensor* b,
                        const DLTensor* c, bool overlap) {
  const GpuTypes& types = ks.manifest().types;
  const int64_t align = types.aligned_items();
  CheckType(a, types.item, "A");
  CheckType(b, types.item, "B");
  CheckType(c, types.output, "C");
  CheckRank(b, 2, "B");
  const Matrix ma = Fold(a, "A"), mb = Fold(b, "B"), mc = Fold(c, "C");
  bool same_batch = a->ndim == c->ndim;
  for (int i = 0; same_batch && i < a->ndim - 1; ++i) same_batch = a->shape[i] == c->shape[i];
  if (!same_batch || ma.cols != mb.rows || mb.cols != mc.cols) {
    TVM_FFI_THROW(ValueError) << "expected A (…, m, k), B (k, n) and C (…, m, n), got "
                              << ShapeText(a) << ", " << ShapeText(b) << " and " << ShapeText(c);
  }
  if (b->device.device_id != a->device.device_id || c->device.device_id != a->device.device_id) {
    TVM_FFI_THROW(ValueError) << "A, B and C must be on one device, got cuda:"
                              << a->device.device_id << ", cuda:" << b->device.device_id
                              << " and cuda:" << c->device.device_id;
  }
  if (std::max({mc.rows, mc.cols, ma.cols}) > kMaxExtent) {
    TVM_FFI_THROW(ValueError) << "extents must be below 2^31, got m " << mc.rows << ", n "
                              << mc.cols << ", k " << ma.cols;
  }
  GpuMatmul out{};
  out.device = a->device.device_id;
  out.a = ma.data;
  out.b = mb.data;
  out.c = mc.data;
  out.problem = {mc.rows, mc.cols, ma.cols, GpuLayout::kNt, GpuLoads::kTma, overlap};
  if (mc.rows == 0 || mc.cols == 0) return out;
  const Storage sc = StorageOf(mc, true, align, "C");
  if (!sc.by_rows) {
    TVM_FFI_THROW(ValueError) << "C must have a contiguous last dimension, got the stride "
                              << mc.col_stride;
  }
  out.ldc = sc.stride;
  if (ma.cols == 0) return out;
  // k contiguous in both is what most kernels read: it is taken where both readings are true.
  const Storage sa = StorageOf(ma, true, align, "A"), sb = StorageOf(mb, false, align, "B");
  out.lda = sa.stride;
  out.ldb = sb.stride;
  out.problem.layout = static_cast<GpuLayout>((sa.by_rows ? 0 : 2) + (sb.by_rows ? 0 : 1));
  out.problem.access = std::max(AccessOf(out.a, out.lda, types), AccessOf(out.b, out.ldb, types));
  return out;
}

}  // namespace moonpoly
