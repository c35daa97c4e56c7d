/*!
 * \file ops/int8_conv.cc
 * \brief Exact convolutions of 8-bit integers with zero points, over one to three dimensions.
 */
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "launch/tensor_check.h"
#include "ops/int8_gather.h"
#include "ops/int8_pack.h"
#include "ops/int8_tile.h"
#include "ops/integer_tensor.h"
#include "ops/parallel.h"
#include "ops/workspace.h"

namespace moonpoly {

namespace {

// Bytes that a thread copies, and products that it computes, in about the time of a launch.
constexpr int64_t kPadBytes = 128 << 10;
constexpr int64_t kProducts = 1 << 20;

// `attrs` is groups, then strides, dilations, pads before and pads after, one for each dimension.
Int8ConvShape BindShape(const tvm::ffi::Shape& attrs, const DLTensor* x, const DLTensor* w,
                        const DLTensor* out) {
  const int spatial = x->ndim - 2;
  if (spatial < 1 || spatial > kMaxSpatialDims ||
      attrs.size() != static_cast<size_t>(1 + 4 * spatial)) {
    TVM_FFI_THROW(ValueError) << "X must have 1 to " << kMaxSpatialDims
                              << " spatial dimensions with four attributes each, got "
                              << ShapeText(x) << " and " << attrs.size() << " attributes";
  }
  CheckRank(w, x->ndim, "W");
  CheckRank(out, x->ndim, "the result");
  Int8ConvShape shape;
  shape.images = x->shape[0];
  shape.groups = attrs[0];
  if (shape.groups < 1 || x->shape[1] != w->shape[1] * shape.groups ||
      w->shape[0] % shape.groups != 0) {
    TVM_FFI_THROW(ValueError) << "W must have " << x->shape[1] << " / " << shape.groups
                              << " input channels and a multiple of " << shape.groups
                              << " output channels, got " << ShapeText(w);
  }
  shape.in_channels = w->shape[1];
  shape.out_channels = w->shape[0] / shape.groups;
  CheckExtent(out, 0, shape.images, "the result");
  CheckExtent(out, 1, w->shape[0], "the result");
  for (int d = 0; d < kMaxSpatialDims; ++d) {
    shape.in[d] = shape.kernel[d] = shape.out[d] = shape.padded[d] = 1;
    shape.stride[d] = shape.dilation[d] = 1;
    shape.pad_begin[d] = 0;
  }
  for (int i = 0; i < spatial; ++i) {
    const int d = kMaxSpatialDims - spatial + i;
    shape.in[d] = x->shape[2 + i];
    shape.kernel[d] = w->shape[2 + i];
    shape.stride[d] = attrs[1 + i];
    shape.dilation[d] = attrs[1 + spatial + i];
    shape.pad_begin[d] = attrs[1 + 2 * spatial + i];
    shape.padded[d] = shape.in[d] + shape.pad_begin[d] + attrs[1 + 3 * spatial + i];
    if (shape.stride[d] < 1 || shape.dilation[d] < 1 || shape.pad_begin[d] < 0) {
      TVM_FFI_THROW(ValueError) << "strides and dilations must be positive and pads not negative";
    }
    const int64_t room = shape.padded[d] - shape.dilation[d] * (shape.kernel[d] - 1) - 1;
    shape.out[d] = room < 0 ? 0 : room / shape.stride[d] + 1;
    CheckExtent(out, 2 + i, shape.out[d], "the result");
  }
  return shape;
}

/*! \brief What the threads of one call share. */
struct Conv {
  const Int8ConvShape& shape;
  const Int8Gather& gather;
  Int8Tile tile;
  const uint8_t* rows;
  const uint8_t* padded;
  int32_t* out;
  /*! \brief By output channel of all groups; null where all are zero. */
  const int32_t* row_zero;
  const int32_t* row_sum;
  /*! \brief One for each column of a tile; null where they are zero. */
  const int32_t* col_zero;
};

void SumPanel(const uint8_t* panel, int64_t groups, int32_t* sums) {
  std::fill(sums, sums + kInt8Panel, 0);
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t c = 0; c < kInt8Panel; ++c) {
      const uint8_t* bytes = panel + g * kInt8PanelBytes + c * kInt8Group;
      sums[c] += bytes[0] + bytes[1] + bytes[2] + bytes[3];
    }
  }
}

// The output channels [begin, end) of one group at the pixels of one tile.
void ComputeTile(const Conv& conv, int64_t image_group, int64_t first, int64_t begin, int64_t end,
                 uint8_t* panels) {
  const Int8ConvShape& shape = conv.shape;
  const int64_t groups = Int8Groups(shape.depth()), panel_stride = groups * kInt8PanelBytes;
  const int64_t pixels = shape.pixels(), columns = std::min(kInt8Columns, pixels - first);
  const uint8_t* image = conv.padded + image_group * shape.in_channels * shape.padded_plane();
  int32_t sums[kInt8Columns];
  for (int64_t p = 0; p < Int8NumPanels(columns); ++p) {
    uint8_t* panel = panels + p * panel_stride;
    conv.gather.Panel(image, first + p * kInt8Panel, panel);
    if (conv.row_zero != nullptr) SumPanel(panel, groups, sums + p * kInt8Panel);
  }
  const int64_t channel0 = image_group % shape.groups * shape.out_channels;
  for (int64_t r0 = begin; r0 < end; r0 += kInt8Rows) {
    const int64_t channel = channel0 + r0;
    Int8TileArgs args;
    args.rows = conv.rows + channel * groups * kInt8Group;
    args.row_stride = groups * kInt8Group;
    args.panels = panels;
    args.panel_stride = panel_stride;
    args.groups = groups;
    args.out = conv.out + (image_group * shape.out_channels + r0) * pixels + first;
    args.out_ld = pixels;
    args.row_zero = conv.row_zero == nullptr ? nullptr : conv.row_zero + channel;
    args.row_sum = conv.row_sum + channel;
    args.col_zero = conv.col_zero;
    args.col_sum = sums;
    conv.tile(args, std::min(kInt8Rows, end - r0), columns);
  }
}

void Compute(const Conv& conv, char* panels, size_t panel_bytes) {
  const Int8ConvShape& shape = conv.shape;
  const int64_t pixel_blocks = (shape.pixels() + kInt8Columns - 1) / kInt8Columns;
  const int64_t tiles = shape.images * shape.groups * pixel_blocks;
  const int64_t work = kInt8Columns * std::max<int64_t>(1, shape.depth()) * shape.out_channels;
  // Too few tiles for the threads: cut their rows, although each cut gathers its pixels anew.
  const int64_t row_tiles = (shape.out_channels + kInt8Rows - 1) / kInt8Rows;
  const int64_t cuts =
      tiles >= NumThreads() || work < kProducts ? 1 : std::min<int64_t>(NumThreads(), row_tiles);
  const int64_t step = (row_tiles + cuts - 1) / cuts * kInt8Rows;
  std::atomic<int64_t> slots{0};
  ParallelFor(tiles * cuts, (kProducts * cuts + work - 1) / work, [&](int64_t begin, int64_t end) {
    uint8_t* own = reinterpret_cast<uint8_t*>(panels + slots.fetch_add(1) * panel_bytes);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t tile = task / cuts, row = task % cuts * step;
      if (row >= shape.out_channels) continue;
      ComputeTile(conv, tile / pixel_blocks, tile % pixel_blocks * kInt8Columns, row,
                  std::min(shape.out_channels, row + step), own);
    }
  });
}

bool ReadZeros(const DLTensor* zero, int64_t count, int32_t shift, int32_t* out) {
  bool any = false;
  const bool one = NumElements(zero) == 1;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = IntegerAt(zero, one ? 0 : i) + shift;
    any |= out[i] != 0;
  }
  return any;
}

/*!
 * \brief out (n, m, ...) int32: the convolution of X - x_zero (n, c, ...) with W - w_zero, padded
 *        with zeros, that is, with x_zero.
 *
 * x_zero has one element; w_zero one, or one for each output channel.
 */
void ConvInt8(DLTensor* x, DLTensor* w, DLTensor* x_zero, DLTensor* w_zero, tvm::ffi::Shape attrs,
              DLTensor* out) {
  CheckBytes(x, "X");
  CheckBytes(w, "W");
  CheckInt32(out, "the result");
  const Int8ConvShape shape = BindShape(attrs, x, w, out);
  const int64_t channels = w->shape[0], k = shape.depth(), groups = Int8Groups(k);
  CheckSameType(x_zero, x, "the zero point of X");
  CheckSameType(w_zero, w, "the zero point of W");
  const int64_t num_zeros = NumElements(w_zero);
  if (NumElements(x_zero) != 1 || (num_zeros != 1 && num_zeros != channels)) {
    TVM_FFI_THROW(ValueError) << "the zero points of X and W must have 1 and 1 or " << channels
                              << " elements, got " << ShapeText(x_zero) << " and "
                              << ShapeText(w_zero);
  }
  if (NumElements(out) == 0) return;

  const int64_t planes = x->shape[0] * x->shape[1], plane = shape.padded_plane();
  const size_t panel_bytes = static_cast<size_t>(kInt8Panels * groups * kInt8PanelBytes);
  WorkspacePlan plan;
  const size_t rows_at = plan.Add<uint8_t>(channels * groups * kInt8Group);
  const size_t sums_at = plan.Add<int32_t>(channels), zeros_at = plan.Add<int32_t>(channels);
  const size_t image_at = plan.Add<uint8_t>(planes * plane + 2 * kInt8GatherSlack);
  const size_t panels_at = plan.Add<uint8_t>(static_cast<int64_t>(panel_bytes) * NumThreads());
  char* memory = ThreadWorkspace(plan.size());
  if (memory == nullptr) TVM_FFI_THROW(MemoryError) << "can't allocate memory for a convolution";
  uint8_t* rows = reinterpret_cast<uint8_t*>(memory + rows_at);
  int32_t* sums = reinterpret_cast<int32_t*>(memory + sums_at);
  int32_t* zeros = reinterpret_cast<int32_t*>(memory + zeros_at);
  uint8_t* image = reinterpret_cast<uint8_t*>(memory + image_at) + kInt8GatherSlack;

  // Weights are the signed side, pixels the unsigned one.
  const uint8_t w_flip = IsUnsigned(w) ? kInt8Flip : 0, x_flip = IsUnsigned(x) ? 0 : kInt8Flip;
  const bool any_w = ReadZeros(w_zero, channels, w_flip == 0 ? 0 : -128, zeros);
  int32_t x_zeros[kInt8Columns];
  const bool any_x = ReadZeros(x_zero, 1, x_flip, x_zeros);
  std::fill(x_zeros, x_zeros + kInt8Columns, x_zeros[0]);
  PackInt8Rows(ByteData(w), k, channels, k, w_flip, false, rows, sums);
  for (int64_t r = 0; r < channels; ++r) sums[r] -= static_cast<int32_t>(k) * zeros[r];
  ParallelFor(planes, kPadBytes / std::max<int64_t>(1, plane) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      PadInt8Plane(shape, ByteData(x) + c * shape.plane(), x_flip, static_cast<uint8_t>(x_zeros[0]),
                   image + c * plane);
    }
  });
  const Int8Gather gather(shape);
  const Conv conv{shape,
                  gather,
                  HostInt8Tile(false),
                  rows,
                  image,
                  Int32Data(out),
                  any_w ? zeros : nullptr,
                  sums,
                  any_x ? x_zeros : nullptr};
  Compute(conv, memory + panels_at, panel_bytes);
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("moonpoly.op.conv_int8", ConvInt8);
}

}  // namespace moonpoly
