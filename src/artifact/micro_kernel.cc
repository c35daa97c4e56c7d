/*!
 * \file artifact/micro_kernel.cc
 */
#include "artifact/micro_kernel.h"

#include <utility>

namespace moonpoly {

namespace {

void InitTensor(DLTensor* tensor, int32_t ndim, int64_t* shape, int64_t* strides) {
  tensor->data = nullptr;
  tensor->device = {kDLCPU, 0};
  tensor->ndim = ndim;
  tensor->dtype = {kDLFloat, 32, 1};
  tensor->shape = shape;
  tensor->strides = strides;
  tensor->byte_offset = 0;
}

}  // namespace

KernelCall::KernelCall() {
  InitTensor(&a_, 2, a_shape_, a_strides_);
  InitTensor(&b_, 3, b_shape_, b_strides_);
  InitTensor(&c_, 2, c_shape_, c_strides_);
  DLTensor* tensors[] = {&a_, &b_, &c_};
  for (int i = 0; i < 3; ++i) {
    args_[i].type_index = kTVMFFIDLTensorPtr;
    args_[i].zero_padding = 0;
    args_[i].v_ptr = tensors[i];
  }
  args_[3].type_index = kTVMFFIInt;
  args_[3].zero_padding = 0;
  c_strides_[1] = 1;
}

KernelCode::KernelCode(tvm::ffi::Function compiled) : function(std::move(compiled)) {
  auto* cell =
      const_cast<tvm::ffi::FunctionObj*>(static_cast<const tvm::ffi::FunctionObj*>(function.get()));
  safe_call = cell->safe_call;
  handle = cell;
}

int KernelCall::Run(const KernelCode& code, KernelFamily family, int64_t m, int64_t n, int64_t k,
                    const float* a, int64_t a_m, int64_t a_k, const float* b, int64_t b_n,
                    int64_t b_k, int32_t panel, float* c, int64_t ldc, bool accumulate) {
  a_.data = const_cast<float*>(a);
  a_shape_[0] = m;
  a_shape_[1] = k;
  a_strides_[0] = a_m;
  a_strides_[1] = a_k;
  b_.data = const_cast<float*>(b);
  if (family == KernelFamily::kOuter) {
    b_.ndim = 3;
    b_shape_[0] = n / panel;
    b_shape_[1] = k;
    b_shape_[2] = panel;
    b_strides_[0] = b_n;
    b_strides_[1] = b_k;
    b_strides_[2] = 1;
  } else {
    b_.ndim = 2;
    b_shape_[0] = n;
    b_shape_[1] = k;
    b_strides_[0] = b_n;
    b_strides_[1] = 1;
  }
  c_.data = c;
  c_shape_[0] = m;
  c_shape_[1] = n;
  c_strides_[0] = ldc;
  args_[3].v_int64 = accumulate ? 1 : 0;
  TVMFFIAny result;
  result.type_index = kTVMFFINone;
  result.zero_padding = 0;
  result.v_int64 = 0;
  return code.safe_call(code.handle, args_, 4, &result);
}

tvm::ffi::Function ResolveFunction(const tvm::ffi::Module& lib, const std::string& name) {
  tvm::ffi::Optional<tvm::ffi::Function> function = lib->GetFunction(name, true);
  if (!function.has_value()) {
    TVM_FFI_THROW(ValueError) << "the kernel library lacks " << name
                              << ", which its manifest lists; rebuild the artifact with "
                                 "`moonpoly export`";
  }
  return *std::move(function);
}

KernelCode ResolveVersion(const tvm::ffi::Module& lib, const std::string& name,
                          const KernelCode& code) {
  tvm::ffi::Optional<tvm::ffi::Function> function = lib->GetFunction(name, true);
  return function.has_value() ? KernelCode(*std::move(function)) : code;
}

}  // namespace moonpoly
