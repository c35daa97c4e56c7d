/*!
 * \file ops/lstm.cc
 * \brief ONNX's LSTM after the product of its inputs.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include "ops/recurrent.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

constexpr int64_t kGates = 4;  // input, output, forget, cell: the order of ONNX's weights

enum LstmArg : int {
  kArgInitialC = kNumSharedArgs,
  kArgPeephole,
  kArgInputForget,
  // The outputs follow, or, for weights of 8-bit integers, these and then the outputs.
  kNumLstmArgs,
  kArgSums = kNumLstmArgs,
  kArgScales,
  kArgZeros,
  kNumInt8LstmArgs,
};
constexpr int kNumOutputs = 3;  // Y, Y_h, Y_c

/*! \brief What an LSTM has beside a plain layer. */
struct LstmOperands {
  const float* initial_c;
  const float* peephole;
  float* y_c;
  bool input_forget;
};

class LstmCell final : public RecurrentCell {
 public:
  LstmCell(const RecurrentLayer& layer, const RecurrentShare& share, const RecurrentWeight& weight,
           const LstmOperands& operands)
      : RecurrentCell(layer, share),
        operands_(operands),
        c_(h_.size()),
        gates_(h_.size() * kGates),
        squashed_(layer.hidden),
        product_(PlanProduct(weight, share, layer.hidden, h_.data(), gates_.data())) {
    Load(operands.initial_c, &c_);
    if (operands.peephole != nullptr) {
      peephole_ = operands.peephole + share.direction * 3 * layer.hidden;
    }
  }

 private:
  int Step(int64_t s) override {
    if (product_.Run() != 0) return -1;
    ForActiveRows(s, [&](int64_t i, int64_t row, int64_t t) { Update(i, input(row, t)); });
    return 0;
  }

  void Update(int64_t i, const float* x) {
    const int64_t n = layer_.hidden;
    float* gates = gates_.data() + i * kGates * n;
    float *in = gates, *out = gates + n, *forget = gates + 2 * n, *cell = gates + 3 * n;
    float *c = c_.data() + i * n, *h_row = h(i);
    for (int64_t j = 0; j < kGates * n; ++j) gates[j] += x[j];
    AddPeephole(0, c, in);
    AddPeephole(2, c, forget);
    Apply(0, in, n);
    if (operands_.input_forget) {
      for (int64_t j = 0; j < n; ++j) forget[j] = 1.0f - in[j];
    } else {
      Apply(0, forget, n);
    }
    Apply(1, cell, n);
    for (int64_t j = 0; j < n; ++j) c[j] = forget[j] * c[j] + in[j] * cell[j];
    AddPeephole(1, c, out);
    Apply(0, out, n);
    float* squashed = squashed_.data();
    std::copy_n(c, n, squashed);
    Activate(layer_.activation(share_.direction, 2), squashed, n);
    for (int64_t j = 0; j < n; ++j) h_row[j] = out[j] * squashed[j];
  }

  void AddPeephole(int64_t index, const float* c, float* gate) const {
    if (peephole_ == nullptr) return;
    const float* weight = peephole_ + index * layer_.hidden;
    for (int64_t j = 0; j < layer_.hidden; ++j) gate[j] += weight[j] * c[j];
  }

  void Finish() override { Store(c_, operands_.y_c); }

  const LstmOperands& operands_;
  const float* peephole_ = nullptr;
  std::vector<float> c_, gates_, squashed_;
  StepProduct product_;
};

RecurrentLayer ReadLstm(const ffi::PackedArgs& args, int first_output, LstmOperands* operands) {
  if (args.size() != first_output + kNumOutputs) {
    TVM_FFI_THROW(TypeError) << "expected " << first_output + kNumOutputs << " arguments, got "
                             << args.size();
  }
  RecurrentLayer layer = ReadLayer(args, kGates, 3, first_output);
  const int64_t d = layer.directions, b = layer.batch, h = layer.hidden;
  const int64_t first = layer.batch_first ? b : d, second = layer.batch_first ? d : b;
  operands->initial_c =
      CheckedData(OptionalTensor(args, kArgInitialC), {first, second, h}, "initial_c");
  operands->peephole = CheckedData(OptionalTensor(args, kArgPeephole), {d, 3 * h}, "P");
  operands->input_forget = args[kArgInputForget].cast<int64_t>() != 0;
  const DLTensor* y_c = args[first_output + 2].cast<DLTensor*>();
  operands->y_c = const_cast<float*>(CheckedData(y_c, {first, second, h}, "Y_c"));
  return layer;
}

void Lstm(ffi::PackedArgs args, ffi::Any*) {
  LstmOperands operands;
  const RecurrentLayer layer = ReadLstm(args, kNumLstmArgs, &operands);
  const RecurrentWeight weight =
      ReadWeight(args, kArgSite, kArgWeight, kGates * layer.hidden, layer);
  RunLayer<LstmCell>(layer, weight, operands);
}

/*!
 * \brief The same with weights of 8-bit integers; the state is quantized anew at each step.
 *
 * The weights are panels (d, ceil(4h / 16), groups, 16, 4) with sums (d, ceil(4h / 16), 16); their
 * scales and zero points are (d, 4h).
 */
void LstmInt8(ffi::PackedArgs args, ffi::Any*) {
  LstmOperands operands;
  const RecurrentLayer layer = ReadLstm(args, kNumInt8LstmArgs, &operands);
  const Int8RecurrentWeight int8 =
      ReadInt8Weight(args[kArgWeight].cast<DLTensor*>(), args[kArgSums].cast<DLTensor*>(),
                     args[kArgScales].cast<DLTensor*>(), args[kArgZeros].cast<DLTensor*>(),
                     layer.directions, layer.hidden, kGates * layer.hidden);
  RecurrentWeight weight;
  weight.n = int8.n;
  weight.int8 = &int8;
  RunLayer<LstmCell>(layer, weight, operands);
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def_packed("moonpoly.op.lstm", Lstm)
      .def_packed("moonpoly.op.lstm_int8", LstmInt8);
}

}  // namespace moonpoly
