/*!
 * \file ops/int8_matmul.cc
 * \brief Exact matrix products of 8-bit integers with zero points.
 */
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <cstring>

#include "launch/tensor_check.h"
#include "ops/int8_pack.h"
#include "ops/int8_tile.h"
#include "ops/integer_tensor.h"
#include "ops/parallel.h"
#include "ops/workspace.h"

namespace moonpoly {

namespace {

// Bytes that a thread packs, and products that it computes, in about the time of a launch.
constexpr int64_t kPackBytes = 64 << 10;
constexpr int64_t kProducts = 1 << 20;
// Rows of A that stay in a core's cache while the panels of B go by.
constexpr int64_t kBlockRows = 16 * kInt8Rows;

/*! \brief One product of a batch: packed rows (m, k) times packed panels (k, n). */
struct Product {
  Int8Tile tile;
  Int8TileArgs args;
  int64_t m, n;
};

// Blocks are numbered so that those of one share follow each other along the longer side.
void Compute(const Product& product, int64_t block_rows, int64_t begin, int64_t end) {
  const int64_t row_blocks = (product.m + block_rows - 1) / block_rows;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t c0 = block / row_blocks * kInt8Columns,
                  columns = std::min(kInt8Columns, product.n - c0);
    const int64_t first = block % row_blocks * block_rows;
    const int64_t last = std::min(product.m, first + block_rows);
    for (int64_t r0 = first; r0 < last; r0 += kInt8Rows) {
      Int8TileArgs args = product.args;
      args.rows += r0 * args.row_stride;
      args.panels += c0 / kInt8Panel * args.panel_stride;
      args.out += r0 * args.out_ld + c0;
      if (args.row_zero != nullptr) {
        args.row_zero += r0;
        args.col_sum += c0;
      }
      if (args.col_zero != nullptr) {
        args.col_zero += c0;
        args.row_sum += r0;
      }
      product.tile(args, std::min(kInt8Rows, last - r0), columns);
    }
  }
}

void RunProduct(const Product& product) {
  const int64_t depth = std::max<int64_t>(1, product.args.groups * kInt8Group);
  // Few rows leave the columns to be shared; many are cut so that they stay in a core's cache.
  const int64_t block_rows =
      std::min(kBlockRows, (product.m + kInt8Rows - 1) / kInt8Rows * kInt8Rows);
  const int64_t row_blocks = (product.m + block_rows - 1) / block_rows;
  const int64_t blocks = row_blocks * ((product.n + kInt8Columns - 1) / kInt8Columns);
  const int64_t work = block_rows * kInt8Columns * depth;
  ParallelFor(blocks, (kProducts + work - 1) / work,
              [&](int64_t begin, int64_t end) { Compute(product, block_rows, begin, end); });
}

/*! \brief What is known of the operands of a batched product. */
struct Shape {
  int64_t batch, m, n, k;
  /*! \brief Elements of A and B that belong to one product, 0 where all share it. */
  int64_t a_step, b_step;
};

int64_t Leading(const DLTensor* tensor, int matrix_dims) {
  int64_t count = 1;
  for (int i = 0; i < tensor->ndim - matrix_dims; ++i) count *= tensor->shape[i];
  return count;
}

// The front end gives A and B the same leading dimensions, or B none at all.
Shape BindShape(const DLTensor* a, int64_t b_batch, int64_t k, int64_t n, const DLTensor* out) {
  if (a->ndim < 2 || out->ndim != a->ndim) {
    TVM_FFI_THROW(ValueError) << "A and the result must have equal ranks of 2 at least, got "
                              << ShapeText(a) << " and " << ShapeText(out);
  }
  Shape shape{Leading(a, 2), a->shape[a->ndim - 2], n, k, 0, 0};
  CheckExtent(a, a->ndim - 1, k, "A");
  for (int i = 0; i < a->ndim - 1; ++i) CheckExtent(out, i, a->shape[i], "the result");
  CheckExtent(out, out->ndim - 1, n, "the result");
  if (b_batch == 1) {
    // One B serves all: the rows of the batch follow each other.
    shape.m *= shape.batch;
    shape.batch = 1;
  } else if (b_batch != shape.batch) {
    TVM_FFI_THROW(ValueError) << "B must have " << shape.batch << " matrices or one, got "
                              << b_batch;
  }
  shape.a_step = shape.m * k;
  shape.b_step = k * n;
  return shape;
}

// Spreads the zero points of one product over `count` places. Returns whether any is not zero.
bool SpreadZeros(const DLTensor* zero, int64_t index, int64_t count, int32_t shift, int32_t* out) {
  const int64_t given = NumElements(zero);
  const int64_t first = given > count ? index * count : 0;
  bool any = false;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = IntegerAt(zero, given == 1 ? 0 : first + i) + shift;
    any |= out[i] != 0;
  }
  return any;
}

void CheckZeros(const DLTensor* zero, const DLTensor* tensor, int64_t batch, int64_t count,
                const char* name) {
  CheckSameType(zero, tensor, name);
  const int64_t given = NumElements(zero);
  if (given != 1 && given != count && given != batch * count) {
    TVM_FFI_THROW(ValueError) << name << " must have 1, " << count << " or " << batch * count
                              << " elements, got " << ShapeText(zero);
  }
}

/*! \brief Panels of a whole B, made at compile time or at the head of a call. */
struct PackedB {
  const uint8_t* panels;
  const int32_t* sums;
};

void PackB(const uint8_t* b, int64_t k, int64_t n, uint8_t flip, uint8_t* panels, int32_t* sums) {
  const int64_t stride = Int8Groups(k) * kInt8PanelBytes;
  const int64_t least = std::max<int64_t>(1, kPackBytes / std::max<int64_t>(1, stride));
  ParallelFor(Int8NumPanels(n), least, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      PackInt8Panel(b + p * kInt8Panel, n, k, std::min(kInt8Panel, n - p * kInt8Panel), flip,
                    panels + p * stride, sums + p * kInt8Panel);
    }
  });
}

// `given` holds the panels of B, or `b` is packed product by product.
void Run(const DLTensor* a, const DLTensor* b, const PackedB* given, const DLTensor* a_zero,
         const DLTensor* b_zero, const DLTensor* out, const Shape& shape) {
  const int64_t groups = Int8Groups(shape.k), panels = Int8NumPanels(shape.n);
  const int64_t a_stride = groups * kInt8Group, panel_stride = groups * kInt8PanelBytes;
  WorkspacePlan plan;
  const size_t rows_at = plan.Add<uint8_t>(shape.m * a_stride);
  const size_t row_sums_at = plan.Add<int32_t>(shape.m), row_zeros_at = plan.Add<int32_t>(shape.m);
  const size_t col_zeros_at = plan.Add<int32_t>(panels * kInt8Panel);
  const size_t panels_at = plan.Add<uint8_t>(given ? 0 : panels * panel_stride);
  const size_t col_sums_at = plan.Add<int32_t>(given ? 0 : panels * kInt8Panel);
  char* memory = ThreadWorkspace(plan.size());
  if (memory == nullptr) TVM_FFI_THROW(MemoryError) << "can't allocate memory for packing";
  uint8_t* rows = reinterpret_cast<uint8_t*>(memory + rows_at);
  int32_t* row_sums = reinterpret_cast<int32_t*>(memory + row_sums_at);
  int32_t* row_zeros = reinterpret_cast<int32_t*>(memory + row_zeros_at);
  int32_t* col_zeros = reinterpret_cast<int32_t*>(memory + col_zeros_at);
  std::fill(col_zeros, col_zeros + panels * kInt8Panel, 0);

  const uint8_t a_flip = IsUnsigned(a) ? 0 : kInt8Flip;
  const uint8_t b_flip = IsUnsigned(b_zero) ? kInt8Flip : 0;
  PackedB packed;
  if (given != nullptr) packed = *given;
  for (int64_t index = 0; index < shape.batch; ++index) {
    const uint8_t* a_data = ByteData(a) + index * shape.a_step;
    const bool any_a = SpreadZeros(a_zero, index, shape.m, a_flip, row_zeros);
    const bool any_b = SpreadZeros(b_zero, index, shape.n, b_flip == 0 ? 0 : -128, col_zeros);
    ParallelFor(shape.m, kPackBytes / std::max<int64_t>(1, a_stride) + 1,
                [&](int64_t begin, int64_t end) {
                  PackInt8Rows(a_data + begin * shape.k, shape.k, end - begin, shape.k, a_flip,
                               true, rows + begin * a_stride, row_sums + begin);
                });
    for (int64_t r = 0; r < shape.m; ++r) {
      row_sums[r] -= static_cast<int32_t>(shape.k) * row_zeros[r];
    }
    if (given == nullptr) {
      uint8_t* to = reinterpret_cast<uint8_t*>(memory + panels_at);
      int32_t* sums = reinterpret_cast<int32_t*>(memory + col_sums_at);
      PackB(ByteData(b) + index * shape.b_step, shape.k, shape.n, b_flip, to, sums);
      packed = {to, sums};
    }
    Product product{HostInt8Tile(true), {}, shape.m, shape.n};
    product.args = {rows,          a_stride,
                    packed.panels, panel_stride,
                    groups,        Int32Data(out) + index * shape.m * shape.n,
                    shape.n,       any_a ? row_zeros : nullptr,
                    row_sums,      any_b ? col_zeros : nullptr,
                    packed.sums};
    RunProduct(product);
  }
}

/*!
 * \brief out (..., m, n) int32 = (A - a_zero) (B - b_zero) for A (..., m, k) and B (k, n) or
 *        (..., k, n).
 *
 * a_zero: one element, m, or m for each matrix. b_zero: one, n, or n for each matrix.
 */
void MatmulInt8(DLTensor* a, DLTensor* b, DLTensor* a_zero, DLTensor* b_zero, DLTensor* out) {
  CheckBytes(a, "A");
  CheckBytes(b, "B");
  CheckInt32(out, "the result");
  if (b->ndim < 2) TVM_FFI_THROW(ValueError) << "B must be a matrix, got " << ShapeText(b);
  const Shape shape =
      BindShape(a, Leading(b, 2), b->shape[b->ndim - 2], b->shape[b->ndim - 1], out);
  CheckZeros(a_zero, a, shape.batch, shape.m, "the zero point of A");
  CheckZeros(b_zero, b, shape.batch, shape.n, "the zero point of B");
  if (NumElements(out) > 0) Run(a, b, nullptr, a_zero, b_zero, out, shape);
}

/*!
 * \brief The same with a B that PackInt8 made: panels (ceil(n / 16), groups, 16, 4) and their sums
 *        (ceil(n / 16), 16). The type of `b_zero` is that of B.
 */
void MatmulInt8Packed(DLTensor* a, DLTensor* panels, DLTensor* sums, DLTensor* a_zero,
                      DLTensor* b_zero, DLTensor* out) {
  CheckBytes(a, "A");
  CheckBytes(panels, "packed B");
  CheckInt32(sums, "the sums of B");
  CheckInt32(out, "the result");
  if (a->ndim < 2 || out->ndim < 2) {
    TVM_FFI_THROW(ValueError) << "A and the result must be matrices, got " << ShapeText(a)
                              << " and " << ShapeText(out);
  }
  const int64_t k = a->shape[a->ndim - 1], n = out->shape[out->ndim - 1];
  CheckRank(panels, 4, "packed B");
  const int64_t expected[] = {Int8NumPanels(n), Int8Groups(k), kInt8Panel, kInt8Group};
  for (int axis = 0; axis < 4; ++axis) CheckExtent(panels, axis, expected[axis], "packed B");
  if (NumElements(sums) != Int8NumPanels(n) * kInt8Panel) {
    TVM_FFI_THROW(ValueError) << "the sums of B must have " << Int8NumPanels(n) * kInt8Panel
                              << " elements, got " << ShapeText(sums);
  }
  const Shape shape = BindShape(a, 1, k, n, out);
  CheckZeros(a_zero, a, 1, shape.m, "the zero point of A");
  CheckBytes(b_zero, "the zero point of B");
  CheckZeros(b_zero, b_zero, 1, n, "the zero point of B");
  const PackedB packed{ByteData(panels), Int32Data(sums)};
  if (NumElements(out) > 0) Run(a, nullptr, &packed, a_zero, b_zero, out, shape);
}

/*! \brief Lay out B (k, n) in `panels` and `sums`, shaped as MatmulInt8Packed wants them. */
void PackInt8(DLTensor* b, DLTensor* panels, DLTensor* sums) {
  CheckBytes(b, "B");
  CheckBytes(panels, "packed B");
  CheckInt32(sums, "the sums of B");
  CheckRank(b, 2, "B");
  const int64_t k = b->shape[0], n = b->shape[1], count = Int8NumPanels(n);
  if (NumElements(panels) != count * Int8Groups(k) * kInt8PanelBytes ||
      NumElements(sums) != count * kInt8Panel) {
    TVM_FFI_THROW(ValueError) << "the panels and sums of B " << ShapeText(b)
                              << " have the wrong size: " << ShapeText(panels) << " and "
                              << ShapeText(sums);
  }
  PackB(ByteData(b), k, n, IsUnsigned(b) ? kInt8Flip : 0, ByteData(panels), Int32Data(sums));
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("moonpoly.op.matmul_int8", MatmulInt8)
      .def("moonpoly.op.matmul_int8_packed", MatmulInt8Packed)
      .def("moonpoly.op.pack_int8", PackInt8)
      .def("moonpoly.op.num_int8_tiles", NumInt8Tiles)
      .def("moonpoly.op.force_int8_tile", ForceInt8Tile);
}

}  // namespace moonpoly
