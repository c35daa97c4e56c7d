/*!
 * \file launch/cuda/tensor_map.h
 * \brief Tensor maps of matrices, encoded once for each address and shape.
 */
#ifndef MOONPOLY_LAUNCH_CUDA_TENSOR_MAP_H_
#define MOONPOLY_LAUNCH_CUDA_TENSOR_MAP_H_

#include <cstdint>

#include "cuda/driver.h"

namespace moonpoly {
namespace cuda {

/*! \brief A matrix whose dimension `inner` is contiguous. */
struct MappedMatrix {
  void* address;
  int64_t inner, outer;
  /*! \brief Bytes from one index of `outer` to the next: a multiple of 16. */
  int64_t stride_bytes;
  /*! \brief The block that one load fetches. */
  int32_t box_inner, box_outer;
  /*! \brief Whether its rows, of 128 bytes, are swizzled as the tensor cores read them. */
  bool swizzled;
  TensorMapType type;

  bool operator==(const MappedMatrix& other) const {
    return address == other.address && inner == other.inner && outer == other.outer &&
           stride_bytes == other.stride_bytes && box_inner == other.box_inner &&
           box_outer == other.box_outer && swizzled == other.swizzled && type == other.type;
  }
};

/*! \brief Make the map of a matrix. Throws RuntimeError if the driver refuses it. */
void EncodeTensorMap(const MappedMatrix& matrix, TensorMap* map);

/*!
 * \brief The map of a matrix, with zeros outside of it.
 *
 * Kept in this thread's memory, which holds a bounded number of them: copy it before asking for
 * another. Throws RuntimeError if the driver refuses it.
 */
const TensorMap& CachedTensorMap(const MappedMatrix& matrix);

}  // namespace cuda
}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_CUDA_TENSOR_MAP_H_
