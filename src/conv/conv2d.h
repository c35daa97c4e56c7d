/*!
 * \file conv/conv2d.h
 * \brief 2-D convolution as an implicit product: the input is gathered block by block.
 */
#ifndef MOONPOLY_CONV_CONV2D_H_
#define MOONPOLY_CONV_CONV2D_H_

#include <tvm/ffi/container/tensor.h>

#include "artifact/kernel_set.h"
#include "conv/conv_shape.h"
#include "launch/matmul.h"

namespace moonpoly {

/*!
 * \brief Y = addend + conv2d(X, W), then the epilogue.
 * \param x (batch, channels, height, width), contiguous.
 * \param w (out_channels, channels / groups, kernel_h, kernel_w), contiguous.
 * \param addend What Y starts from, of Y's shape; null for zero. May be Y itself.
 * \param y (batch, out_channels, out_h, out_w), contiguous.
 *
 * For the epilogue the rows are the output channels and the columns the output pixels.
 * Throws TypeError or ValueError naming the operand, or what a micro-kernel raised.
 */
void RunConv2d(const KernelSetObj& ks, const ConvAttrs& attrs, const DLTensor* x, const DLTensor* w,
               const DLTensor* addend, const DLTensor* y, const EpilogueSpec* epilogue,
               const DLTensor* const* epilogue_operands);

}  // namespace moonpoly

#endif  // MOONPOLY_CONV_CONV2D_H_
