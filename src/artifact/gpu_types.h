/*!
 * \file artifact/gpu_types.h
 * \brief The element types of a GPU's kernel set: what A and B hold, and what C.
 */
#ifndef MOONPOLY_ARTIFACT_GPU_TYPES_H_
#define MOONPOLY_ARTIFACT_GPU_TYPES_H_

#include <dlpack/dlpack.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "cuda/driver.h"

namespace moonpoly {

/*! \brief Tensor maps of an operand at most, one for each residue of its rows. */
constexpr int kMaxResidues = 8;

struct GpuTypes {
  /*! \brief As tensors carry them. */
  DLDataType item, output;
  /*! \brief How tensor maps of A and B read them. */
  cuda::TensorMapType map;

  int32_t item_bytes() const { return item.bits / 8; }
  int32_t output_bytes() const { return output.bits / 8; }
  /*! \brief Items of k that kernels take at a time: 128 bytes. */
  int32_t step() const { return 128 / item_bytes(); }
  /*! \brief Items of 16 bytes: what rows of A and B must be apart a multiple of for maps. */
  int32_t aligned_items() const { return 16 / item_bytes(); }
  /*! \brief Rows that are so many apart must start alike within 16 bytes for a map of them. */
  int32_t residues() const { return std::min(aligned_items(), kMaxResidues); }
};

/*!
 * \brief The types of a workload. `output` may be empty for the usual one of `dtype`.
 *
 * "tf32" is float32 in memory. Throws ValueError for what no kernel computes.
 */
GpuTypes ParseGpuTypes(const std::string& dtype, const std::string& output);

}  // namespace moonpoly

#endif  // MOONPOLY_ARTIFACT_GPU_TYPES_H_
