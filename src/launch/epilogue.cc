/*!
 * \file launch/epilogue.cc
 */
#include "launch/epilogue.h"

namespace moonpoly {

namespace {

int64_t ElementBytes(DLDataType dtype) { return (dtype.bits * dtype.lanes + 7) / 8; }

}  // namespace

EpilogueRunner::EpilogueRunner(const Epilogue* epilogue) : epilogue_(epilogue) {
  if (epilogue_ == nullptr) return;
  for (int i = 0; i <= epilogue_->num_operands; ++i) {
    Argument& argument = arguments_[i];
    const bool is_c = i == 0;
    const EpilogueOperand* operand = is_c ? nullptr : &epilogue_->operands[i - 1];
    argument.tensor.device = {kDLCPU, 0};
    argument.tensor.ndim = is_c || operand->kind == OperandKind::kFull ? 2 : 1;
    argument.tensor.dtype = is_c ? DLDataType{kDLFloat, 32, 1} : operand->dtype;
    argument.tensor.shape = argument.shape;
    argument.tensor.strides = argument.strides;
    argument.tensor.byte_offset = 0;
    argument.strides[argument.tensor.ndim - 1] = 1;
    args_[i].type_index = kTVMFFIDLTensorPtr;
    args_[i].zero_padding = 0;
    args_[i].v_ptr = &argument.tensor;
    if (!is_c) data_[i - 1] = operand->data;
  }
}

void EpilogueRunner::SetBatch(const int64_t* coordinates, int32_t ndim) {
  if (epilogue_ == nullptr) return;
  for (int i = 0; i < epilogue_->num_operands; ++i) {
    const EpilogueOperand& operand = epilogue_->operands[i];
    int64_t offset = 0;
    for (int d = 0; d < ndim; ++d) offset += coordinates[d] * operand.batch[d];
    data_[i] = operand.data + offset * ElementBytes(operand.dtype);
  }
}

int EpilogueRunner::Run(const COperand& c, int64_t m0, int64_t rows, int64_t n0, int64_t cols) {
  Argument& block = arguments_[0];
  block.tensor.data = c.data + m0 * c.ld + n0;
  block.shape[0] = rows;
  block.shape[1] = cols;
  block.strides[0] = c.ld;
  for (int i = 0; i < epilogue_->num_operands; ++i) {
    const EpilogueOperand& operand = epilogue_->operands[i];
    Argument& argument = arguments_[i + 1];
    int64_t offset = 0;
    switch (operand.kind) {
      case OperandKind::kCol:
        offset = n0;
        argument.shape[0] = cols;
        break;
      case OperandKind::kRow:
        offset = m0;
        argument.shape[0] = rows;
        break;
      case OperandKind::kFull:
        offset = m0 * operand.ld + n0;
        argument.shape[0] = rows;
        argument.shape[1] = cols;
        argument.strides[0] = operand.ld;
        break;
      case OperandKind::kScalar:
        argument.shape[0] = 1;
        break;
    }
    argument.tensor.data = const_cast<char*>(data_[i] + offset * ElementBytes(operand.dtype));
  }
  TVMFFIAny result;
  result.type_index = kTVMFFINone;
  result.zero_padding = 0;
  result.v_int64 = 0;
  return epilogue_->safe_call(epilogue_->handle, args_, epilogue_->num_operands + 1, &result);
}

}  // namespace moonpoly
