/*!
 * \file conv/folded.h
 * \brief Convolution of a batch of small images as one product.
 */
#ifndef MOONPOLY_CONV_FOLDED_H_
#define MOONPOLY_CONV_FOLDED_H_

#include "conv/conv_shape.h"
#include "launch/gemm.h"

namespace moonpoly {

/*!
 * \brief Whether the images are better put side by side as the columns of one product.
 *
 * Worth a copy of the result where the columns of one image would leave many lanes of the last
 * panel empty; the weights are read once for all images then, too.
 */
bool ShouldFold(const ConvShape& shape, int64_t images, int64_t rows, int64_t panel);

/*!
 * \brief Run the convolution that `call` stands for, image by image, with the images side by side.
 * \param call One product for each image, without groups; its plan and its B's mode are not used.
 * \param shape The geometry of one image.
 */
void RunFolded(const GemmCall& call, const ConvShape& shape, int64_t images, int64_t rows);

}  // namespace moonpoly

#endif  // MOONPOLY_CONV_FOLDED_H_
