/*!
 * \file ffi/model_api.cc
 * \brief The intrinsics that compiled models call, and registering models.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/reflection/registry.h>

#include "conv/conv2d.h"
#include "launch/matmul.h"
#include "launch/tensor_check.h"
#include "model/sites.h"
#include "select/plan_cache.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

/*! \brief The arguments (site, x, w, e0, ..., addend, y) of an intrinsic. */
struct IntrinsicArgs {
  const Site* site;
  const DLTensor* left;
  const DLTensor* right;
  const DLTensor* addend;
  const DLTensor* out;
  const DLTensor* operands[kMaxEpilogueOperands];
};

void ReadArgs(const ffi::PackedArgs& args, Site::Op op, IntrinsicArgs* out) {
  if (args.size() < 4) {
    TVM_FFI_THROW(TypeError) << "expected site, two operands and the output at least, got "
                             << args.size() << " arguments";
  }
  out->site = &FindSite(args[0].cast<int64_t>());
  const int32_t num_operands = out->site->epilogue.num_operands;
  const int32_t expected = num_operands + (out->site->has_addend ? 5 : 4);
  if (out->site->op != op || args.size() != expected) {
    TVM_FFI_THROW(TypeError) << "call site of " << out->site->node << " takes " << expected
                             << " arguments, got " << args.size();
  }
  out->left = args[1].cast<DLTensor*>();
  out->right = args[2].cast<DLTensor*>();
  for (int i = 0; i < num_operands; ++i) out->operands[i] = args[3 + i].cast<DLTensor*>();
  out->addend = out->site->has_addend ? args[expected - 2].cast<DLTensor*>() : nullptr;
  out->out = args[expected - 1].cast<DLTensor*>();
}

/*! \brief A tensor seen with its axes in another order. */
class OrderedView {
 public:
  OrderedView(const DLTensor* tensor, const AxisOrder& order, const char* name) : tensor_(tensor) {
    if (order.ndim == 0) return;
    CheckRank(tensor, order.ndim, name);
    view_ = *tensor;
    view_.shape = shape_;
    view_.strides = strides_;
    for (int i = 0; i < order.ndim; ++i) {
      shape_[i] = tensor->shape[order.axes[i]];
      strides_[i] = StrideOf(tensor, order.axes[i]);
    }
    tensor_ = &view_;
  }
  OrderedView(const OrderedView&) = delete;
  OrderedView& operator=(const OrderedView&) = delete;

  const DLTensor* get() const { return tensor_; }

 private:
  const DLTensor* tensor_;
  DLTensor view_;
  int64_t shape_[kMaxBatchDims + 3];
  int64_t strides_[kMaxBatchDims + 3];
};

void MatmulIntrinsic(ffi::PackedArgs packed, ffi::Any*) {
  IntrinsicArgs args;
  ReadArgs(packed, Site::Op::kMatmul, &args);
  const Site& site = *args.site;
  const KernelSetObj& ks = *site.kernels;
  const OrderedView a(args.left, site.a_order, "A"), b(args.right, site.b_order, "B"),
      c(args.out, site.c_order, "C");
  BoundMatmul bound;
  BindMatmul(ks, site.layout, a.get(), b.get(), c.get(), &site.epilogue, args.operands, &bound);
  LaunchMatmul(ks, bound, CachedPlan(ks, bound.problem), site.epilogue.active());
}

void Conv2dIntrinsic(ffi::PackedArgs packed, ffi::Any*) {
  IntrinsicArgs args;
  ReadArgs(packed, Site::Op::kConv2d, &args);
  RunConv2d(*args.site->kernels, args.site->conv, args.left, args.right, args.addend, args.out,
            &args.site->epilogue, args.operands);
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("moonpoly.register_model", RegisterModel)
      .def_packed("moonpoly.matmul", MatmulIntrinsic)
      .def_packed("moonpoly.conv2d", Conv2dIntrinsic);
}

}  // namespace moonpoly
