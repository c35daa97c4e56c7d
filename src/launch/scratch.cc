/*!
 * \file launch/scratch.cc
 */
#include "launch/scratch.h"

#include <sys/mman.h>

#include <cstdlib>

#include "select/plan.h"

namespace moonpoly {

namespace {

constexpr size_t kHugePage = 2 << 20;
constexpr size_t kCacheLine = 64;

}  // namespace

void AdviseHugePages(void* data, size_t num_bytes) {
#ifdef MADV_HUGEPAGE
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kHugePage - 1) & ~(kHugePage - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + num_bytes) & ~(kHugePage - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

float* AllocateFloats(int64_t count) {
  size_t num_bytes = static_cast<size_t>(count) * sizeof(float);
  const size_t align = num_bytes >= kHugePage ? kHugePage : kCacheLine;
  num_bytes = (num_bytes + align - 1) & ~(align - 1);
  void* data = nullptr;
  if (posix_memalign(&data, align, num_bytes == 0 ? align : num_bytes) != 0) return nullptr;
  AdviseHugePages(data, num_bytes);
  return static_cast<float*>(data);
}

void FreeFloats(float* data) { std::free(data); }

Scratch::Scratch() : base_(AllocateFloats(kScratchA + kScratchB + kScratchC)) {}

Scratch::~Scratch() {
  FreeFloats(base_);
  FreeFloats(partial_);
  FreeFloats(folded_);
}

Scratch& Scratch::Get() {
  static thread_local Scratch scratch;
  return scratch;
}

float* Scratch::partial() {
  if (partial_ == nullptr) partial_ = AllocateFloats(kMaxPartialFloats);
  return partial_;
}

float* Scratch::folded() {
  if (folded_ == nullptr) folded_ = AllocateFloats(kMaxFoldedFloats);
  return folded_;
}

}  // namespace moonpoly
