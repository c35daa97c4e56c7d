/*!
 * \file conv/gather.h
 * \brief Gathering the input of a convolution into panels.
 */
#ifndef MOONPOLY_CONV_GATHER_H_
#define MOONPOLY_CONV_GATHER_H_

#include "conv/conv_shape.h"
#include "launch/operands.h"

namespace moonpoly {

/*! \brief The gather for this machine and shape: a GatherFn whose context is the ConvShape. */
GatherFn ChooseGather(const ConvShape& shape, int64_t lanes);

}  // namespace moonpoly

#endif  // MOONPOLY_CONV_GATHER_H_
