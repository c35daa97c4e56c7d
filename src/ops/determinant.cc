/*!
 * \file ops/determinant.cc
 * \brief ONNX's Det.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <cmath>
#include <utility>
#include <vector>

#include "launch/tensor_check.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

// By elimination with the largest pivot of each column; `a` (n, n) is overwritten.
double Determinant(std::vector<double>* a, int64_t n) {
  auto at = [&](int64_t i, int64_t j) -> double& { return (*a)[i * n + j]; };
  double result = 1.0;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::fabs(at(i, k)) > std::fabs(at(pivot, k))) pivot = i;
    }
    if (at(pivot, k) == 0.0) return 0.0;
    if (pivot != k) {
      result = -result;
      for (int64_t j = k; j < n; ++j) std::swap(at(k, j), at(pivot, j));
    }
    result *= at(k, k);
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = at(i, k) / at(k, k);
      for (int64_t j = k + 1; j < n; ++j) at(i, j) -= factor * at(k, j);
    }
  }
  return result;
}

template <typename T>
void DeterminantOfEach(const DLTensor* x, int64_t n, ffi::Tensor* out) {
  const auto* from = reinterpret_cast<const T*>(ConstData(x));
  auto* to = static_cast<T*>(out->data_ptr());
  const int64_t count = NumElements(out->GetDLTensorPtr());
  std::vector<double> matrix;
  for (int64_t i = 0; i < count; ++i) {
    matrix.assign(from + i * n * n, from + (i + 1) * n * n);
    to[i] = static_cast<T>(Determinant(&matrix, n));
  }
}

// (..., n, n) → (...)
ffi::Tensor Det(const DLTensor* x) {
  CheckContiguous(x, "X");
  if (x->ndim < 2 || x->shape[x->ndim - 1] != x->shape[x->ndim - 2]) {
    TVM_FFI_THROW(ValueError) << "X must hold square matrices, got " << ShapeText(x);
  }
  const int64_t n = x->shape[x->ndim - 1];
  ffi::Tensor out = NewTensor({x->shape, x->shape + x->ndim - 2}, x->dtype);
  if (x->dtype.code == kDLFloat && x->dtype.bits == 32) {
    DeterminantOfEach<float>(x, n, &out);
  } else if (x->dtype.code == kDLFloat && x->dtype.bits == 64) {
    DeterminantOfEach<double>(x, n, &out);
  } else {
    TVM_FFI_THROW(TypeError) << "X must be float32 or float64";
  }
  return out;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("moonpoly.op.det", [](DLTensor* x) { return Det(x); });
}

}  // namespace moonpoly
