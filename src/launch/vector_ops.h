/*!
 * \file launch/vector_ops.h
 * \brief Data movement that packing is made of, in the widest form that this machine runs.
 */
#ifndef MOONPOLY_LAUNCH_VECTOR_OPS_H_
#define MOONPOLY_LAUNCH_VECTOR_OPS_H_

#include <cstdint>

namespace moonpoly {

struct VectorOps {
  /*! \brief dst[c * dst_ld + r] = src[r * src_ld + c] for r < rows, c < cols. */
  void (*transpose)(const float* src, int64_t src_ld, int64_t rows, int64_t cols, float* dst,
                    int64_t dst_ld);
  /*! \brief Copy whole panels: dst[(p * k + i) * L + l] = src[i * src_ld + p * L + l], L lanes. */
  void (*pack_panels)(const float* src, int64_t src_ld, int64_t k, int64_t num_panels,
                      int64_t lanes, float* dst);
};

/*! \brief The operations for this machine; chosen on first use. */
const VectorOps& HostVectorOps();

}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_VECTOR_OPS_H_
