/*!
 * \file conv/conv_shape.h
 * \brief The geometry of a convolution, and the product that it becomes.
 */
#ifndef MOONPOLY_CONV_CONV_SHAPE_H_
#define MOONPOLY_CONV_CONV_SHAPE_H_

#include <cstdint>

namespace moonpoly {

/*! \brief The attributes of a 2-D convolution. */
struct ConvAttrs {
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;
};

/*!
 * \brief One group of one image: Y(m, out_h * out_w) = W(m, k) B(k, out_h * out_w), where column
 *        (p, q) of row (c, r, s) of B is X[c, p stride_h - pad_top + r dilation_h, ...].
 */
struct ConvShape {
  ConvAttrs attrs;
  int64_t channels;  // of one group
  int64_t height, width;
  int64_t kernel_h, kernel_w;
  int64_t out_h, out_w;
  /*! \brief Images side by side in the columns, so many floats apart in X. */
  int64_t images = 1, image_step = 0;

  int64_t depth() const { return channels * kernel_h * kernel_w; }
  int64_t pixels() const { return out_h * out_w; }
  int64_t columns() const { return images * pixels(); }
  /*! \brief Whether X itself is B: nothing to gather. */
  bool is_pointwise() const {
    return kernel_h == 1 && kernel_w == 1 && attrs.stride_h == 1 && attrs.stride_w == 1 &&
           attrs.pad_top == 0 && attrs.pad_left == 0 && out_h == height && out_w == width;
  }
};

}  // namespace moonpoly

#endif  // MOONPOLY_CONV_CONV_SHAPE_H_
