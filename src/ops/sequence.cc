/*!
 * \file ops/sequence.cc
 * \brief ONNX's sequences of tensors: arrays that no operation changes in place.
 *
 * A sequence owns its tensors: what goes in is copied, since the memory of an operator's argument
 * is planned for reuse once the call is over.
 */
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <cstring>

#include "launch/tensor_check.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

using Sequence = ffi::Array<ffi::Tensor>;

int64_t ReadPosition(const DLTensor* position, int64_t least, int64_t most) {
  if (NumElements(position) != 1 || position->dtype.code != kDLInt ||
      (position->dtype.bits != 64 && position->dtype.bits != 32)) {
    TVM_FFI_THROW(TypeError) << "a position must be one int32 or int64";
  }
  const int64_t value = position->dtype.bits == 64
                            ? *reinterpret_cast<const int64_t*>(ConstData(position))
                            : *reinterpret_cast<const int32_t*>(ConstData(position));
  if (value < least || value > most) {
    TVM_FFI_THROW(ValueError) << "position " << value << " of a sequence is not in " << least
                              << " to " << most;
  }
  return value;
}

// (tensors...) → sequence
void Construct(ffi::PackedArgs args, ffi::Any* result) {
  Sequence out;
  for (int i = 0; i < args.size(); ++i) out.push_back(CopyOf(args[i].cast<DLTensor*>()));
  *result = out;
}

ffi::Tensor At(const Sequence& sequence, const DLTensor* position) {
  const auto size = static_cast<int64_t>(sequence.size());
  const int64_t index = ReadPosition(position, -size, size - 1);
  return sequence[index < 0 ? index + size : index];
}

Sequence InsertAt(const Sequence& sequence, const DLTensor* value, int64_t index) {
  Sequence out;
  const auto size = static_cast<int64_t>(sequence.size());
  out.reserve(size + 1);
  for (int64_t i = 0; i < index; ++i) out.push_back(sequence[i]);
  out.push_back(CopyOf(value));
  for (int64_t i = index; i < size; ++i) out.push_back(sequence[i]);
  return out;
}

Sequence Insert(const Sequence& sequence, const DLTensor* value, const DLTensor* position) {
  const auto size = static_cast<int64_t>(sequence.size());
  const int64_t index = ReadPosition(position, -size, size);
  return InsertAt(sequence, value, index < 0 ? index + size : index);
}

Sequence Erase(const Sequence& sequence, const DLTensor* position) {
  const auto size = static_cast<int64_t>(sequence.size());
  int64_t index = ReadPosition(position, -size, size - 1);
  if (index < 0) index += size;
  Sequence out;
  for (int64_t i = 0; i < size; ++i) {
    if (i != index) out.push_back(sequence[i]);
  }
  return out;
}

struct Blocks {
  int64_t outer = 1;
  size_t bytes = 0;  // along the axis and after it
};

Blocks BlocksOf(const DLTensor* tensor, int64_t axis) {
  Blocks blocks;
  for (int i = 0; i < axis; ++i) blocks.outer *= tensor->shape[i];
  blocks.bytes = blocks.outer == 0 ? 0 : NumBytes(tensor) / blocks.outer;
  return blocks;
}

// Join the tensors along an axis that they have, or along a new one.
ffi::Tensor Concat(const Sequence& sequence, int64_t axis, bool new_axis) {
  if (sequence.empty()) {
    TVM_FFI_THROW(ValueError) << "an empty sequence has nothing to join; expected one tensor "
                                 "at least";
  }
  const DLTensor* first = sequence[0].GetDLTensorPtr();
  const int64_t rank = first->ndim + (new_axis ? 1 : 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) {
    TVM_FFI_THROW(ValueError) << "axis must be 0 to " << rank - 1 << ", got " << axis;
  }
  std::vector<int64_t> shape(first->shape, first->shape + first->ndim);
  if (new_axis) {
    shape.insert(shape.begin() + axis, static_cast<int64_t>(sequence.size()));
  } else {
    shape[axis] = 0;
  }
  for (const ffi::Tensor& item : sequence) {
    const DLTensor* tensor = item.GetDLTensorPtr();
    bool fits = tensor->ndim == first->ndim;
    for (int i = 0; fits && i < first->ndim; ++i) {
      fits = tensor->shape[i] == first->shape[i] || (!new_axis && i == axis);
    }
    if (!fits) {
      TVM_FFI_THROW(ValueError) << "can't join tensors of shapes " << ShapeText(first) << " and "
                                << ShapeText(tensor) << " along axis " << axis;
    }
    if (!new_axis) shape[axis] += tensor->shape[axis];
  }
  ffi::Tensor out = NewTensor(shape, first->dtype);
  const Blocks whole = BlocksOf(out.GetDLTensorPtr(), axis);
  size_t offset = 0;
  for (const ffi::Tensor& item : sequence) {
    const Blocks part = BlocksOf(item.GetDLTensorPtr(), axis);
    for (int64_t i = 0; i < part.outer; ++i) {
      std::memcpy(static_cast<char*>(out.data_ptr()) + i * whole.bytes + offset,
                  ConstData(item.GetDLTensorPtr()) + i * part.bytes, part.bytes);
    }
    offset += part.bytes;
  }
  return out;
}

// Cut x along `axis` into parts of the given sizes: one number for all, or a list.
Sequence Split(const DLTensor* x, const DLTensor* sizes, int64_t axis, bool keep_axis) {
  CheckContiguous(x, "input");
  if (axis < 0 || axis >= x->ndim) {
    TVM_FFI_THROW(ValueError) << "axis must be 0 to " << x->ndim - 1 << ", got " << axis;
  }
  const int64_t extent = x->shape[axis];
  std::vector<int64_t> parts;
  for (int64_t i = 0; i < NumElements(sizes); ++i) {
    parts.push_back(sizes->dtype.bits == 64
                        ? reinterpret_cast<const int64_t*>(ConstData(sizes))[i]
                        : reinterpret_cast<const int32_t*>(ConstData(sizes))[i]);
  }
  int64_t sum = 0;
  for (int64_t part : parts) {
    if (part < 0 || (sizes->ndim == 0 && part == 0)) {
      TVM_FFI_THROW(ValueError) << "a part of a split has " << part << " elements";
    }
    sum += part;
  }
  if (sizes->ndim == 0) {
    const int64_t size = parts[0];
    parts.assign(extent / size, size);
    if (extent % size != 0) parts.push_back(extent % size);
  } else if (sum != extent) {
    TVM_FFI_THROW(ValueError) << "the parts of a split sum up to " << sum << ", the axis has "
                              << extent;
  }
  const Blocks whole = BlocksOf(x, axis);
  const size_t step = extent == 0 ? 0 : whole.bytes / extent;
  size_t offset = 0;
  Sequence out;
  for (int64_t part : parts) {
    std::vector<int64_t> shape(x->shape, x->shape + x->ndim);
    shape[axis] = part;
    if (!keep_axis) shape.erase(shape.begin() + axis);
    ffi::Tensor piece = NewTensor(shape, x->dtype);
    for (int64_t i = 0; i < whole.outer; ++i) {
      std::memcpy(static_cast<char*>(piece.data_ptr()) + i * part * step,
                  ConstData(x) + i * whole.bytes + offset, part * step);
    }
    offset += part * step;
    out.push_back(piece);
  }
  return out;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def_packed("moonpoly.op.sequence_construct", Construct)
      .def("moonpoly.op.sequence_at",
           [](const Sequence& sequence, DLTensor* position) { return At(sequence, position); })
      .def("moonpoly.op.sequence_length",
           [](const Sequence& sequence) {
             return ScalarTensor(static_cast<int64_t>(sequence.size()));
           })
      .def("moonpoly.op.sequence_append",
           [](const Sequence& sequence, DLTensor* value) {
             return InsertAt(sequence, value, static_cast<int64_t>(sequence.size()));
           })
      .def("moonpoly.op.sequence_insert",
           [](const Sequence& sequence, DLTensor* value, DLTensor* position) {
             return Insert(sequence, value, position);
           })
      .def("moonpoly.op.sequence_erase",
           [](const Sequence& sequence, DLTensor* position) { return Erase(sequence, position); })
      .def("moonpoly.op.sequence_concat",
           [](const Sequence& sequence, int64_t axis, int64_t new_axis) {
             return Concat(sequence, axis, new_axis != 0);
           })
      .def("moonpoly.op.sequence_split",
           [](DLTensor* x, DLTensor* sizes, int64_t axis, int64_t keep_axis) {
             return Split(x, sizes, axis, keep_axis != 0);
           });
}

}  // namespace moonpoly
