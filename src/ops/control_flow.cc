/*!
 * \file ops/control_flow.cc
 * \brief ONNX's If, Loop and Scan: they call functions of the same virtual machine.
 *
 * The first argument is the machine's context, which the call passes by itself; functions arrive as
 * its closures. What such an operator returns shares no memory with its tensor arguments: these lie
 * in memory that is planned for reuse once the call is over.
 */
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <cstring>
#include <limits>
#include <vector>

#include "launch/tensor_check.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

/*! \brief A function of the model with what every call of it passes last. */
class Body {
 public:
  Body(const ffi::PackedArgs& args, int function, int first_captured)
      : invoke_(ffi::Function::GetGlobalRequired("vm.builtin.invoke_closure")),
        context_(args[0]),
        function_(args[function]) {
    for (int i = first_captured; i < args.size(); ++i) captured_.push_back(args[i]);
  }

  /*! \brief Call with `values` and what is captured. */
  ffi::Array<ffi::Any> operator()(const std::vector<ffi::Any>& values) const {
    std::vector<ffi::AnyView> packed{context_, function_};
    packed.insert(packed.end(), values.begin(), values.end());
    packed.insert(packed.end(), captured_.begin(), captured_.end());
    ffi::Any result;
    invoke_.CallPacked(packed.data(), static_cast<int32_t>(packed.size()), &result);
    return result.cast<ffi::Array<ffi::Any>>();
  }

 private:
  const ffi::Function invoke_;
  const ffi::AnyView context_, function_;
  std::vector<ffi::AnyView> captured_;
};

int64_t ReadScalar(const ffi::AnyView& value, const char* name) {
  const DLTensor* tensor = value.cast<DLTensor*>();
  if (NumElements(tensor) != 1) {
    TVM_FFI_THROW(ValueError) << name << " must be one element, got shape " << ShapeText(tensor);
  }
  const void* data = ConstData(tensor);
  if (tensor->dtype.bits == 8) return *static_cast<const uint8_t*>(data) != 0;
  if (tensor->dtype.code != kDLInt || tensor->dtype.bits != 64) {
    TVM_FFI_THROW(TypeError) << name << " must be int64 or bool";
  }
  return *static_cast<const int64_t*>(data);
}

ffi::Any Detached(const ffi::Any& value, const ffi::PackedArgs& args) {
  const auto tensor = value.as<ffi::Tensor>();
  if (!tensor.has_value()) return value;
  const DLTensor* result = tensor->GetDLTensorPtr();
  for (int i = 0; i < args.size(); ++i) {
    const auto arg = args[i].as<ffi::Tensor>();
    if (arg.has_value() && Overlap(result, arg->GetDLTensorPtr())) return CopyOf(result);
  }
  return value;
}

ffi::Array<ffi::Any> Detached(const std::vector<ffi::Any>& values, const ffi::PackedArgs& args) {
  ffi::Array<ffi::Any> out;
  for (const ffi::Any& value : values) out.push_back(Detached(value, args));
  return out;
}

// (context, condition, then, else, captured...)
ffi::Array<ffi::Any> If(ffi::PackedArgs args) {
  const bool taken = ReadScalar(args[1], "the condition of an If") != 0;
  const ffi::Array<ffi::Any> results = Body(args, taken ? 2 : 3, 4)({});
  return Detached({results.begin(), results.end()}, args);
}

/*! \brief Collects what each iteration gives of one scan output, and stacks it. */
class Stack {
 public:
  Stack(const ffi::AnyView& shape_if_empty, const ffi::AnyView& dtype, bool backwards)
      : shape_(shape_if_empty.cast<ffi::Shape>()),
        dtype_(dtype.cast<DLDataType>()),
        backwards_(backwards) {}

  void Add(const ffi::Any& value) { items_.push_back(value.cast<ffi::Tensor>()); }

  ffi::Tensor Join() const {
    std::vector<int64_t> shape{static_cast<int64_t>(items_.size())};
    if (items_.empty()) {
      shape.insert(shape.end(), shape_.begin(), shape_.end());
      return NewTensor(shape, dtype_);
    }
    const DLTensor* first = items_.front().GetDLTensorPtr();
    shape.insert(shape.end(), first->shape, first->shape + first->ndim);
    ffi::Tensor out = NewTensor(shape, first->dtype);
    const size_t num_bytes = NumBytes(first);
    char* to = static_cast<char*>(out.data_ptr());
    for (size_t i = 0; i < items_.size(); ++i) {
      const DLTensor* item = items_[backwards_ ? items_.size() - 1 - i : i].GetDLTensorPtr();
      if (!SameShape(item, first)) {
        TVM_FFI_THROW(ValueError) << "a scan output has shape " << ShapeText(first)
                                  << " in one iteration and " << ShapeText(item) << " in another";
      }
      std::memcpy(to + i * num_bytes, ConstData(item), num_bytes);
    }
    return out;
  }

 private:
  const ffi::Shape shape_;
  const DLDataType dtype_;
  const bool backwards_;
  std::vector<ffi::Tensor> items_;
};

ffi::Array<ffi::Any> Finish(std::vector<ffi::Any> states, const std::vector<Stack>& stacks,
                            const ffi::PackedArgs& args) {
  for (const Stack& stack : stacks) states.push_back(stack.Join());
  return Detached(states, args);
}

// (context, body, trip count, condition, number of states, number of scan outputs,
//  (shape where there is none, dtype) for each scan output, states..., captured...)
// The body maps (iteration as a shape, condition, states..., captured...) to (condition, states...,
// scans...).
ffi::Array<ffi::Any> Loop(ffi::PackedArgs args) {
  const int64_t trips = ReadScalar(args[2], "the trip count of a Loop");
  bool go_on = ReadScalar(args[3], "the condition of a Loop") != 0;
  const int num_states = args[4].cast<int>(), num_scans = args[5].cast<int>();
  const int first_state = 6 + 2 * num_scans;
  std::vector<Stack> stacks;
  for (int i = 0; i < num_scans; ++i) stacks.emplace_back(args[6 + 2 * i], args[7 + 2 * i], false);
  std::vector<ffi::Any> states;
  for (int i = 0; i < num_states; ++i) states.emplace_back(args[first_state + i]);
  const Body body(args, 1, first_state + num_states);
  for (int64_t trip = 0; trip < trips && go_on; ++trip) {
    // The body may hand the condition on as a state, so that every iteration needs its own.
    std::vector<ffi::Any> values{ffi::Shape({trip}), BoolTensor(go_on)};
    values.insert(values.end(), states.begin(), states.end());
    const ffi::Array<ffi::Any> results = body(values);
    go_on = ReadScalar(results[0], "the condition of a Loop") != 0;
    for (int i = 0; i < num_states; ++i) states[i] = results[1 + i];
    for (int i = 0; i < num_scans; ++i) stacks[i].Add(results[1 + num_states + i]);
  }
  return Finish(std::move(states), stacks, args);
}

// (context, body, number of states, number of scan inputs, number of scan outputs,
//  reversed for each scan input, (shape, dtype, reversed) for each scan output,
//  states..., scan inputs..., captured...); scan axes are the first ones.
// The body maps (states..., elements..., captured...) to (states..., scans...).
ffi::Array<ffi::Any> Scan(ffi::PackedArgs args) {
  const int num_states = args[2].cast<int>(), num_inputs = args[3].cast<int>(),
            num_outputs = args[4].cast<int>();
  const int outputs = 5 + num_inputs, first_state = outputs + 3 * num_outputs;
  std::vector<Stack> stacks;
  for (int i = 0; i < num_outputs; ++i) {
    const int at = outputs + 3 * i;
    stacks.emplace_back(args[at], args[at + 1], args[at + 2].cast<int64_t>() != 0);
  }
  std::vector<ffi::Any> states;
  for (int i = 0; i < num_states; ++i) states.emplace_back(args[first_state + i]);
  std::vector<const DLTensor*> inputs;
  for (int i = 0; i < num_inputs; ++i) {
    inputs.push_back(args[first_state + num_states + i].cast<DLTensor*>());
    if (inputs[i]->shape[0] != inputs[0]->shape[0]) {
      TVM_FFI_THROW(ValueError) << "the scan inputs of a Scan have " << inputs[0]->shape[0]
                                << " and " << inputs[i]->shape[0] << " elements; they must agree";
    }
  }
  const Body body(args, 1, first_state + num_states + num_inputs);
  const int64_t trips = inputs[0]->shape[0];
  for (int64_t trip = 0; trip < trips; ++trip) {
    std::vector<ffi::Any> values(states);
    for (int i = 0; i < num_inputs; ++i) {
      const bool backwards = args[5 + i].cast<int64_t>() != 0;
      values.push_back(ElementOf(inputs[i], backwards ? trips - 1 - trip : trip));
    }
    const ffi::Array<ffi::Any> results = body(values);
    for (int i = 0; i < num_states; ++i) states[i] = results[i];
    for (int i = 0; i < num_outputs; ++i) stacks[i].Add(results[num_states + i]);
  }
  return Finish(std::move(states), stacks, args);
}

void Returned(ffi::Any* result, ffi::Array<ffi::Any> value) { *result = std::move(value); }

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def_packed("moonpoly.op.if", [](ffi::PackedArgs a, ffi::Any* r) { Returned(r, If(a)); })
      .def_packed("moonpoly.op.loop", [](ffi::PackedArgs a, ffi::Any* r) { Returned(r, Loop(a)); })
      .def_packed("moonpoly.op.scan", [](ffi::PackedArgs a, ffi::Any* r) { Returned(r, Scan(a)); });
}

}  // namespace moonpoly
