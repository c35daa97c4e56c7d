/*!
 * \file ops/workspace.cc
 */
#include "ops/workspace.h"

#include <cstdlib>

namespace moonpoly {

namespace {

class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  char* Get(size_t num_bytes) {
    if (num_bytes <= size_ && data_ != nullptr) return data_;
    std::free(data_);
    // Room to grow, so that slowly growing shapes don't allocate at every call.
    const size_t wanted = (num_bytes + num_bytes / 4 + 4095) & ~size_t{4095};
    void* data = nullptr;
    const bool ok = posix_memalign(&data, 64, wanted == 0 ? 4096 : wanted) == 0;
    data_ = ok ? static_cast<char*>(data) : nullptr;
    size_ = ok ? wanted : 0;
    return data_;
  }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace

char* ThreadWorkspace(size_t num_bytes) {
  static thread_local Buffer buffer;
  return buffer.Get(num_bytes);
}

}  // namespace moonpoly
