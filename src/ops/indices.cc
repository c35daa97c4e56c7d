/*!
 * \file ops/indices.cc
 * \brief Indices that are written through: each is checked before generated code trusts it.
 */
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <string>

#include "launch/tensor_check.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

template <typename T>
void CheckInto(const T* from, int64_t count, const ffi::Shape& extents, const std::string& label,
               int64_t* to) {
  const auto period = static_cast<int64_t>(extents.size());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t extent = extents[i % period], index = from[i];
    if (index < -extent || index >= extent) {
      TVM_FFI_THROW(ValueError) << label << " is given index " << index << " of an axis of "
                                << extent;
    }
    to[i] = index < 0 ? index + extent : index;
  }
}

// The indices as int64, counted from the front. Element i is of the axis whose extent is number i
// modulo the number of extents.
ffi::Tensor CheckedIndices(const DLTensor* indices, const ffi::Shape& extents,
                           const std::string& label) {
  CheckContiguous(indices, "indices");
  ffi::Tensor out = NewTensor({indices->shape, indices->shape + indices->ndim}, {kDLInt, 64, 1});
  const int64_t count = NumElements(indices);
  auto* to = static_cast<int64_t*>(out.data_ptr());
  if (count > 0 && extents.empty()) {
    TVM_FFI_THROW(ValueError) << label << " is given indices of no axis";
  }
  if (indices->dtype.code == kDLInt && indices->dtype.bits == 64) {
    CheckInto(reinterpret_cast<const int64_t*>(ConstData(indices)), count, extents, label, to);
  } else if (indices->dtype.code == kDLInt && indices->dtype.bits == 32) {
    CheckInto(reinterpret_cast<const int32_t*>(ConstData(indices)), count, extents, label, to);
  } else {
    TVM_FFI_THROW(TypeError) << "indices must be int32 or int64";
  }
  return out;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def(
      "moonpoly.op.checked_indices", [](DLTensor* indices, ffi::Shape extents, std::string label) {
        return CheckedIndices(indices, extents, label);
      });
}

}  // namespace moonpoly
