/*!
 * \file ops/gru.cc
 * \brief ONNX's GRU and plain RNN after the product of their inputs.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include "ops/recurrent.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

constexpr int64_t kGates = 3;  // update, reset, hidden: the order of ONNX's weights

enum GruArg : int {
  kArgCandidateSite = kNumSharedArgs,
  kArgCandidateWeight,
  kArgHiddenBias,
  kArgY,
  kArgYh,
  kNumArgs,
};

/*!
 * \brief What a GRU has beside a plain layer.
 *
 * With weights of the candidate the state is reset before its product with them. Without, the
 * product of all three gates is made at once and the candidate's part, bias included, reset after.
 */
struct GruOperands {
  RecurrentWeight candidate;
  const float* hidden_bias;

  bool reset_first() const { return candidate.data != nullptr; }
};

class GruCell final : public RecurrentCell {
 public:
  GruCell(const RecurrentLayer& layer, const RecurrentShare& share, const RecurrentWeight& weight,
          const GruOperands& operands)
      : RecurrentCell(layer, share),
        width_(weight.n),
        gates_(share.num_rows * weight.n),
        candidate_(h_.size()),
        product_(PlanProduct(weight, share, layer.hidden, h_.data(), gates_.data())) {
    if (operands.reset_first()) {
      reset_.resize(h_.size());
      candidate_product_ =
          PlanProduct(operands.candidate, share, layer.hidden, reset_.data(), candidate_.data());
    } else if (operands.hidden_bias != nullptr) {
      hidden_bias_ = operands.hidden_bias + share.direction * layer.hidden;
    }
  }

 private:
  int Step(int64_t s) override {
    const int64_t n = layer_.hidden;
    if (product_.Run() != 0) return -1;
    ForActiveRows(s, [&](int64_t i, int64_t row, int64_t t) {
      float *gates = gates_.data() + i * width_, *reset = gates + n;
      const float* x = input(row, t);
      for (int64_t j = 0; j < 2 * n; ++j) gates[j] += x[j];
      Apply(0, gates, 2 * n);
      if (!reset_.empty()) {
        for (int64_t j = 0; j < n; ++j) reset_[i * n + j] = reset[j] * h(i)[j];
      } else {
        Reset(gates + 2 * n, reset, candidate_.data() + i * n);
      }
    });
    if (!reset_.empty() && candidate_product_.Run() != 0) return -1;
    ForActiveRows(s, [&](int64_t i, int64_t row, int64_t t) {
      const float *update = gates_.data() + i * width_, *x = input(row, t) + 2 * n;
      float *candidate = candidate_.data() + i * n, *state = h(i);
      for (int64_t j = 0; j < n; ++j) candidate[j] += x[j];
      Apply(1, candidate, n);
      for (int64_t j = 0; j < n; ++j) {
        state[j] = (1.0f - update[j]) * candidate[j] + update[j] * state[j];
      }
    });
    return 0;
  }

  void Reset(const float* product, const float* reset, float* candidate) const {
    for (int64_t j = 0; j < layer_.hidden; ++j) {
      const float bias = hidden_bias_ == nullptr ? 0.0f : hidden_bias_[j];
      candidate[j] = reset[j] * (product[j] + bias);
    }
  }

  const int64_t width_;
  const float* hidden_bias_ = nullptr;
  std::vector<float> gates_, candidate_, reset_;
  StepProduct product_, candidate_product_;
};

void Gru(ffi::PackedArgs args, ffi::Any*) {
  if (args.size() != kNumArgs) {
    TVM_FFI_THROW(TypeError) << "expected " << kNumArgs << " arguments, got " << args.size();
  }
  const RecurrentLayer layer = ReadLayer(args, kGates, 2, kArgY);
  const int64_t d = layer.directions, h = layer.hidden;
  GruOperands operands;
  if (OptionalTensor(args, kArgCandidateWeight) != nullptr) {
    operands.candidate = ReadWeight(args, kArgCandidateSite, kArgCandidateWeight, h, layer);
  }
  operands.hidden_bias =
      CheckedData(OptionalTensor(args, kArgHiddenBias), {d, h}, "bias of the hidden gate");
  const int64_t width = (operands.reset_first() ? kGates - 1 : kGates) * h;
  RunLayer<GruCell>(layer, ReadWeight(args, kArgSite, kArgWeight, width, layer), operands);
}

class RnnCell final : public RecurrentCell {
 public:
  RnnCell(const RecurrentLayer& layer, const RecurrentShare& share, const RecurrentWeight& weight)
      : RecurrentCell(layer, share),
        next_(h_.size()),
        product_(PlanProduct(weight, share, layer.hidden, h_.data(), next_.data())) {}

 private:
  int Step(int64_t s) override {
    if (product_.Run() != 0) return -1;
    ForActiveRows(s, [&](int64_t i, int64_t row, int64_t t) {
      const float* x = input(row, t);
      float *next = next_.data() + i * layer_.hidden, *state = h(i);
      for (int64_t j = 0; j < layer_.hidden; ++j) state[j] = next[j] + x[j];
      Apply(0, state, layer_.hidden);
    });
    return 0;
  }

  std::vector<float> next_;
  StepProduct product_;
};

void Rnn(ffi::PackedArgs args, ffi::Any*) {
  if (args.size() != kNumSharedArgs + 2) {
    TVM_FFI_THROW(TypeError) << "expected " << kNumSharedArgs + 2 << " arguments, got "
                             << args.size();
  }
  const RecurrentLayer layer = ReadLayer(args, 1, 1, kNumSharedArgs);
  RunLayer<RnnCell>(layer, ReadWeight(args, kArgSite, kArgWeight, layer.hidden, layer));
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def_packed("moonpoly.op.gru", Gru)
      .def_packed("moonpoly.op.rnn", Rnn);
}

}  // namespace moonpoly
