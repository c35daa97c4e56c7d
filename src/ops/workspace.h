/*!
 * \file ops/workspace.h
 * \brief Memory that a thread keeps between calls and that grows to what the largest call wanted.
 */
#ifndef MOONPOLY_OPS_WORKSPACE_H_
#define MOONPOLY_OPS_WORKSPACE_H_

#include <cstddef>
#include <cstdint>

namespace moonpoly {

/*! \brief Places in a workspace, each aligned to 64 bytes. */
class WorkspacePlan {
 public:
  /*! \brief Reserve room for `count` elements of `T`; returns where it will be. */
  template <typename T>
  size_t Add(int64_t count) {
    const size_t offset = size_;
    size_ = (size_ + static_cast<size_t>(count) * sizeof(T) + 63) & ~size_t{63};
    return offset;
  }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

/*!
 * \brief At least `num_bytes` of the calling thread, valid until its next call; null where memory
 *        can't be had.
 */
char* ThreadWorkspace(size_t num_bytes);

}  // namespace moonpoly

#endif  // MOONPOLY_OPS_WORKSPACE_H_
