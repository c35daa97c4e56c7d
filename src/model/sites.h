/*!
 * \file model/sites.h
 * \brief The call sites of loaded models: what an intrinsic needs beside its tensors.
 */
#ifndef MOONPOLY_MODEL_SITES_H_
#define MOONPOLY_MODEL_SITES_H_

#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <string>

#include "artifact/kernel_set.h"
#include "conv/conv_shape.h"
#include "launch/matmul.h"

namespace moonpoly {

/*! \brief Reads a tensor as if its axes were permuted; the data stays where it is. */
struct AxisOrder {
  /*! \brief 0: the tensor as it is. */
  int32_t ndim = 0;
  int32_t axes[kMaxBatchDims + 3];
};

/*! \brief One matmul or conv2d of a model. Immutable once registered. */
struct Site {
  enum class Op : uint8_t { kMatmul, kConv2d };

  Op op;
  const KernelSetObj* kernels;
  EpilogueSpec epilogue;
  MatmulLayout layout;
  AxisOrder a_order, b_order, c_order;
  /*! \brief Columns of a packed B before padding; -1 where the tensors tell. */
  int64_t n;
  ConvAttrs conv;
  /*! \brief Whether the argument before the output is what a convolution is added to. */
  bool has_addend;
  std::string node;
};

/*!
 * \brief Read a model's metadata and resolve its micro-kernels and epilogues in `lib`.
 *
 * Does nothing for a model that is registered already (same digest). Throws ValueError.
 */
void RegisterModel(const tvm::ffi::String& metadata, const tvm::ffi::Module& lib);

/*! \brief The site with this id; lock-free. Throws ValueError for an unknown one. */
const Site& FindSite(int64_t id);

}  // namespace moonpoly

#endif  // MOONPOLY_MODEL_SITES_H_
