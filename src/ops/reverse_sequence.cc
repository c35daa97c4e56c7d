/*!
 * \file ops/reverse_sequence.cc
 * \brief ONNX's ReverseSequence.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <cstring>

#include "launch/tensor_check.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

// Turn round the first lens[b] steps of batch element b; time and batch are the first two axes.
ffi::Tensor ReverseSequence(const DLTensor* x, const DLTensor* lens, bool time_first) {
  CheckContiguous(x, "input");
  CheckRank(lens, 1, "sequence_lens");
  const auto* length = Elements<int64_t>(lens, "sequence_lens");
  if (x->ndim < 2) {
    TVM_FFI_THROW(ValueError) << "input must have 2 axes or more, got " << ShapeText(x);
  }
  const int64_t steps = x->shape[time_first ? 0 : 1], batch = x->shape[time_first ? 1 : 0];
  CheckExtent(lens, 0, batch, "sequence_lens");
  for (int64_t b = 0; b < batch; ++b) {
    if (length[b] < 0 || length[b] > steps) {
      TVM_FFI_THROW(ValueError) << "sequence_lens[" << b << "] is " << length[b]
                                << ", expected 0 to " << steps << ", the steps of the input";
    }
  }
  ffi::Tensor out = NewTensor({x->shape, x->shape + x->ndim}, x->dtype);
  const size_t bytes = steps * batch == 0 ? 0 : NumBytes(x) / (steps * batch);
  const int64_t time_stride = time_first ? batch : 1, batch_stride = time_first ? 1 : steps;
  char* to = static_cast<char*>(out.data_ptr());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < steps; ++t) {
      const int64_t source = t < length[b] ? length[b] - 1 - t : t;
      std::memcpy(to + (t * time_stride + b * batch_stride) * bytes,
                  ConstData(x) + (source * time_stride + b * batch_stride) * bytes, bytes);
    }
  }
  return out;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("moonpoly.op.reverse_sequence",
                                        [](DLTensor* x, DLTensor* lens, int64_t time_first) {
                                          return ReverseSequence(x, lens, time_first != 0);
                                        });
}

}  // namespace moonpoly
