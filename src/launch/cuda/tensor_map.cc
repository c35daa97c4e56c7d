/*!
 * \file launch/cuda/tensor_map.cc
 */
#include "launch/cuda/tensor_map.h"

#include <array>
#include <memory>

namespace moonpoly {
namespace cuda {

namespace {

constexpr int kNoInterleave = 0, kPromote128 = 2, kZeroFill = 0;
constexpr int kNoSwizzle = 0, kSwizzle128 = 3;
constexpr size_t kEntries = 1024;

struct Entry {
  MappedMatrix matrix{};
  TensorMap map{};
};

size_t Slot(const MappedMatrix& matrix) {
  uint64_t hash = reinterpret_cast<uintptr_t>(matrix.address) * 0x9e3779b97f4a7c15ull;
  hash ^= static_cast<uint64_t>(matrix.inner) * 0xc2b2ae3d27d4eb4full;
  hash ^= static_cast<uint64_t>(matrix.outer) * 0x165667b19e3779f9ull;
  hash ^= static_cast<uint64_t>(matrix.stride_bytes) * 0xd6e8feb86659fd93ull;
  hash ^= static_cast<uint64_t>(matrix.box_inner << 16 | matrix.box_outer) * 0xa0761d6478bd642full;
  hash ^= hash >> 32;
  return (hash * 0x9fb21c651e98df25ull >> 20) % kEntries;
}

}  // namespace

void EncodeTensorMap(const MappedMatrix& matrix, TensorMap* map) {
  const uint64_t shape[] = {static_cast<uint64_t>(matrix.inner),
                            static_cast<uint64_t>(matrix.outer)};
  const uint64_t stride_bytes[] = {static_cast<uint64_t>(matrix.stride_bytes)};
  const uint32_t box[] = {static_cast<uint32_t>(matrix.box_inner),
                          static_cast<uint32_t>(matrix.box_outer)};
  const uint32_t element_strides[] = {1, 1};
  Check(GetDriver().cuTensorMapEncodeTiled(
            map, matrix.type, 2, matrix.address, shape, stride_bytes, box, element_strides,
            kNoInterleave, matrix.swizzled ? kSwizzle128 : kNoSwizzle, kPromote128, kZeroFill),
        "cuTensorMapEncodeTiled");
}

const TensorMap& CachedTensorMap(const MappedMatrix& matrix) {
  static thread_local const auto entries = std::make_unique<std::array<Entry, kEntries>>();
  Entry& entry = (*entries)[Slot(matrix)];
  if (!(entry.matrix == matrix)) {
    // Unusable until it is whole: encoding may throw.
    entry.matrix.address = nullptr;
    EncodeTensorMap(matrix, &entry.map);
    entry.matrix = matrix;
  }
  return entry.map;
}

}  // namespace cuda
}  // namespace moonpoly
