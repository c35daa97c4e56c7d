/*!
 * \file conv/conv2d.cc
 */
#include "conv/conv2d.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstring>

#include "conv/folded.h"
#include "conv/gather.h"
#include "launch/gemm.h"
#include "launch/tensor_check.h"
#include "launch/threads.h"
#include "select/plan_cache.h"

namespace moonpoly {

namespace {

int64_t OutExtent(int64_t in, int64_t pad, int64_t kernel, int64_t stride, int64_t dilation) {
  const int64_t span = in + pad - (dilation * (kernel - 1) + 1);
  return span < 0 ? 0 : span / stride + 1;
}

ConvShape BindShape(const ConvAttrs& attrs, const DLTensor* x, const DLTensor* w,
                    const DLTensor* y) {
  const DLTensor* tensors[] = {x, w, y};
  const char* names[] = {"X", "W", "Y"};
  for (int i = 0; i < 3; ++i) {
    CheckFloat32(tensors[i], names[i]);
    CheckRank(tensors[i], 4, names[i]);
    CheckContiguous(tensors[i], names[i]);
  }
  const int64_t groups = attrs.groups;
  CheckExtent(x, 1, w->shape[1] * groups, "X");
  if (w->shape[0] % groups != 0) {
    TVM_FFI_THROW(ValueError) << "W must have a multiple of " << groups << " output channels, got "
                              << ShapeText(w);
  }
  ConvShape shape;
  shape.attrs = attrs;
  shape.channels = w->shape[1];
  shape.height = x->shape[2];
  shape.width = x->shape[3];
  shape.kernel_h = w->shape[2];
  shape.kernel_w = w->shape[3];
  shape.out_h = OutExtent(shape.height, attrs.pad_top + attrs.pad_bottom, shape.kernel_h,
                          attrs.stride_h, attrs.dilation_h);
  shape.out_w = OutExtent(shape.width, attrs.pad_left + attrs.pad_right, shape.kernel_w,
                          attrs.stride_w, attrs.dilation_w);
  const int64_t expected[] = {x->shape[0], w->shape[0], shape.out_h, shape.out_w};
  for (int axis = 0; axis < 4; ++axis) CheckExtent(y, axis, expected[axis], "Y");
  return shape;
}

// Operands broadcast against Y (batch, out_channels, out_h, out_w).
void BindOperand(const DLTensor* tensor, OperandKind kind, const DLTensor* y, int64_t groups,
                 int index, EpilogueOperand* out) {
  static constexpr const char* kName = "epilogue operand";
  const int64_t images = y->shape[0], out_channels = y->shape[1];
  const int64_t pixels = y->shape[2] * y->shape[3];
  CheckContiguous(tensor, kName);
  const bool per_channel = kind == OperandKind::kRow || kind == OperandKind::kFull;
  const bool per_pixel = kind == OperandKind::kCol || kind == OperandKind::kFull;
  const int64_t one_image = (per_channel ? out_channels : 1) * (per_pixel ? pixels : 1);
  int64_t count = 1;
  for (int i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
  const bool per_image = tensor->ndim == 4 && tensor->shape[0] == images;
  if (count != one_image * (per_image ? images : 1)) {
    TVM_FFI_THROW(ValueError) << kName << " " << index << " must have " << one_image
                              << " elements for each image or for all, got " << ShapeText(tensor);
  }
  out->kind = kind;
  out->dtype = tensor->dtype;
  out->data = static_cast<const char*>(tensor->data) + tensor->byte_offset;
  out->ld = pixels;
  std::fill(out->batch, out->batch + kMaxBatchDims, 0);
  out->batch[0] = per_image ? one_image : 0;
  out->batch[1] = per_channel ? one_image / groups : 0;
}

// Compiled models let Y take the addend's place where they can; else it is copied.
void StartFrom(const DLTensor* addend, const DLTensor* y) {
  CheckFloat32(addend, "addend");
  CheckRank(addend, 4, "addend");
  CheckContiguous(addend, "addend");
  int64_t count = 1;
  for (int axis = 0; axis < 4; ++axis) {
    CheckExtent(addend, axis, y->shape[axis], "addend");
    count *= y->shape[axis];
  }
  if (FloatData(addend) == FloatData(y)) return;
  std::memcpy(FloatData(y), FloatData(addend), static_cast<size_t>(count) * sizeof(float));
}

/*! \brief The same launch for the images from `first` on, so many of them. */
GemmCall PartOf(const GemmCall& call, int64_t first, int64_t count, Epilogue* epilogue) {
  GemmCall part = call;
  part.batch.extent[0] = count;
  part.b.data += first * call.batch.b[0];
  part.c.data += first * call.batch.c[0];
  if (call.epilogue == nullptr) return part;
  *epilogue = *call.epilogue;
  for (int i = 0; i < epilogue->num_operands; ++i) {
    EpilogueOperand& operand = epilogue->operands[i];
    operand.data += first * operand.batch[0] * ((operand.dtype.bits * operand.dtype.lanes + 7) / 8);
  }
  part.epilogue = epilogue;
  return part;
}

// More images than the threads can share evenly: the last ones are shared out by themselves where
// that is expected to be faster.
void RunUneven(const GemmCall& call, Problem problem, int64_t even) {
  const int64_t images = problem.batch;
  const Plan together = CachedPlan(*call.ks, problem);
  problem.batch = even;
  const Plan most = CachedPlan(*call.ks, problem);
  problem.batch = images - even;
  const Plan rest = CachedPlan(*call.ks, problem);
  Epilogue epilogue;
  if (together.predicted_us <= most.predicted_us + rest.predicted_us) {
    GemmCall all = call;
    all.plan = &together;
    LaunchGemmOrThrow(all);
    return;
  }
  GemmCall part = PartOf(call, 0, even, &epilogue);
  part.plan = &most;
  LaunchGemmOrThrow(part);
  part = PartOf(call, even, images - even, &epilogue);
  part.plan = &rest;
  LaunchGemmOrThrow(part);
}

}  // namespace

void RunConv2d(const KernelSetObj& ks, const ConvAttrs& attrs, const DLTensor* x, const DLTensor* w,
               const DLTensor* addend, const DLTensor* y, const EpilogueSpec* epilogue,
               const DLTensor* const* epilogue_operands) {
  const ConvShape shape = BindShape(attrs, x, w, y);
  const int64_t images = x->shape[0], groups = attrs.groups, rows = w->shape[0] / groups;
  const bool pointwise = shape.is_pointwise();
  const BMode mode = pointwise ? BMode::kRowMajor : BMode::kGathered;
  const int64_t pixels = shape.pixels(), plane = shape.height * shape.width;
  const Problem problem{images * groups, rows, pixels, shape.depth(), mode, NumThreads()};

  GemmCall call;
  call.ks = &ks;
  call.a = {FloatData(w), shape.depth(), 1};
  call.b = {FloatData(x), mode, plane, nullptr, nullptr};
  if (!pointwise) {
    call.b.gather = ChooseGather(shape, ks.panel());
    call.b.gather_context = &shape;
  }
  call.c = {FloatData(y), pixels};
  call.batch.ndim = 2;
  call.batch.extent[0] = images;
  call.batch.extent[1] = groups;
  call.batch.a[0] = 0;
  call.batch.a[1] = rows * shape.depth();
  call.batch.b[0] = x->shape[1] * plane;
  call.batch.b[1] = shape.channels * plane;
  call.batch.c[0] = y->shape[1] * pixels;
  call.batch.c[1] = rows * pixels;
  Epilogue bound;
  call.epilogue = nullptr;
  if (epilogue != nullptr && epilogue->active()) {
    bound.safe_call = epilogue->safe_call;
    bound.handle = epilogue->handle;
    bound.num_operands = epilogue->num_operands;
    for (int i = 0; i < epilogue->num_operands; ++i) {
      BindOperand(epilogue_operands[i], epilogue->kinds[i], y, groups, i, &bound.operands[i]);
    }
    call.epilogue = &bound;
  }
  call.accumulate = addend != nullptr;
  if (call.accumulate) StartFrom(addend, y);
  if (ShouldFold(shape, images, rows, ks.panel())) {
    RunFolded(call, shape, images, rows);
    return;
  }
  const int64_t even = images / problem.threads * problem.threads;
  if (groups == 1 && 0 < even && even < images) {
    RunUneven(call, problem, even);
    return;
  }
  call.plan = &CachedPlan(ks, problem);
  LaunchGemmOrThrow(call);
}

}  // namespace moonpoly
