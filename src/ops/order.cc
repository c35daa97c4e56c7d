/*!
 * \file ops/order.cc
 * \brief ONNX's TopK and Unique.
 */
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "launch/tensor_check.h"
#include "ops/element_type.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

constexpr DLDataType kInt64{kDLInt, 64, 1};

int64_t ReadCount(const DLTensor* k, int64_t most) {
  if (NumElements(k) != 1 || k->dtype.code != kDLInt || k->dtype.bits != 64) {
    TVM_FFI_THROW(TypeError) << "K must be one int64, got shape " << ShapeText(k);
  }
  const int64_t count = *reinterpret_cast<const int64_t*>(ConstData(k));
  if (count < 0 || count > most) {
    TVM_FFI_THROW(ValueError) << "K is " << count << ", expected 0 to " << most
                              << ", the elements along the axis";
  }
  return count;
}

// (x, k, axis, largest) → values and indices, in order; of equal ones the first comes first.
ffi::Array<ffi::Tensor> TopK(const DLTensor* x, const DLTensor* k, int64_t axis, bool largest) {
  CheckContiguous(x, "X");
  const int64_t extent = x->shape[axis], count = ReadCount(k, extent);
  std::vector<int64_t> shape(x->shape, x->shape + x->ndim);
  shape[axis] = count;
  ffi::Tensor values = NewTensor(shape, x->dtype), indices = NewTensor(shape, kInt64);
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x->shape[i];
  for (int i = static_cast<int>(axis) + 1; i < x->ndim; ++i) inner *= x->shape[i];
  WithElementType(x->dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* from = reinterpret_cast<const T*>(ConstData(x));
    auto* to = static_cast<T*>(values.data_ptr());
    auto* places = static_cast<int64_t*>(indices.data_ptr());
    std::vector<int64_t> order(extent);
    for (int64_t row = 0; row < outer * inner; ++row) {
      const T* line = from + row / inner * extent * inner + row % inner;
      const int64_t start = row / inner * count * inner + row % inner;
      std::iota(order.begin(), order.end(), int64_t{0});
      const auto comes_first = [&](int64_t a, int64_t b) {
        const T &left = line[a * inner], &right = line[b * inner];
        if (largest ? Before(right, left) : Before(left, right)) return true;
        if (largest ? Before(left, right) : Before(right, left)) return false;
        return a < b;
      };
      std::partial_sort(order.begin(), order.begin() + count, order.end(), comes_first);
      for (int64_t i = 0; i < count; ++i) {
        to[start + i * inner] = line[order[i] * inner];
        places[start + i * inner] = order[i];
      }
    }
  });
  return {values, indices};
}

/*! \brief The slices of a tensor along its first axis, and which of them are equal. */
struct Groups {
  /*! \brief The first slice of each group, in the order of the result. */
  std::vector<int64_t> first;
  std::vector<int64_t> count;
  /*! \brief The group of each slice. */
  std::vector<int64_t> of;
};

template <typename T>
Groups FindGroups(const T* data, int64_t num_slices, int64_t length, bool sorted) {
  const auto before = [&](int64_t a, int64_t b) {
    return std::lexicographical_compare(data + a * length, data + (a + 1) * length,
                                        data + b * length, data + (b + 1) * length, Before<T>);
  };
  std::vector<int64_t> order(num_slices);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), before);
  Groups groups;
  groups.of.resize(num_slices);
  for (int64_t i = 0; i < num_slices; ++i) {
    if (i == 0 || before(order[i - 1], order[i])) {
      groups.first.push_back(order[i]);
      groups.count.push_back(0);
    }
    ++groups.count.back();
    groups.of[order[i]] = static_cast<int64_t>(groups.first.size()) - 1;
  }
  if (sorted) return groups;
  // In the order in which they are met: by the first slice of each.
  std::vector<int64_t> rank(groups.first.size());
  std::iota(rank.begin(), rank.end(), int64_t{0});
  std::sort(rank.begin(), rank.end(),
            [&](int64_t a, int64_t b) { return groups.first[a] < groups.first[b]; });
  Groups met;
  std::vector<int64_t> place(rank.size());
  for (size_t i = 0; i < rank.size(); ++i) {
    met.first.push_back(groups.first[rank[i]]);
    met.count.push_back(groups.count[rank[i]]);
    place[rank[i]] = static_cast<int64_t>(i);
  }
  for (int64_t group : groups.of) met.of.push_back(place[group]);
  return met;
}

ffi::Tensor FromVector(const std::vector<int64_t>& values) {
  ffi::Tensor out = NewTensor({static_cast<int64_t>(values.size())}, kInt64);
  std::copy(values.begin(), values.end(), static_cast<int64_t*>(out.data_ptr()));
  return out;
}

// (x, sorted) → the slices along the first axis that differ, where each is first met, the group of
// each slice, the size of each group.
ffi::Array<ffi::Tensor> Unique(const DLTensor* x, bool sorted) {
  CheckContiguous(x, "X");
  const int64_t num_slices = x->shape[0];
  int64_t length = 1;
  for (int i = 1; i < x->ndim; ++i) length *= x->shape[i];
  const Groups groups = WithElementType(x->dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return FindGroups(reinterpret_cast<const T*>(ConstData(x)), num_slices, length, sorted);
  });
  std::vector<int64_t> shape(x->shape, x->shape + x->ndim);
  shape[0] = static_cast<int64_t>(groups.first.size());
  ffi::Tensor out = NewTensor(shape, x->dtype);
  const size_t slice_bytes = num_slices == 0 ? 0 : NumBytes(x) / num_slices;
  char* to = static_cast<char*>(out.data_ptr());
  for (int64_t first : groups.first) {
    std::memcpy(to, ConstData(x) + first * slice_bytes, slice_bytes);
    to += slice_bytes;
  }
  return {out, FromVector(groups.first), FromVector(groups.of), FromVector(groups.count)};
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def("moonpoly.op.topk", [](DLTensor* x, DLTensor* k, int64_t axis,
                                  int64_t largest) { return TopK(x, k, axis, largest != 0); })
      .def("moonpoly.op.unique",
           [](DLTensor* x, int64_t sorted) { return Unique(x, sorted != 0); });
}

}  // namespace moonpoly
