/*!
 * \file ops/int8_gather.h
 * \brief The pixels under a convolution's kernel as panels of 8-bit integers.
 */
#ifndef MOONPOLY_OPS_INT8_GATHER_H_
#define MOONPOLY_OPS_INT8_GATHER_H_

#include <cstdint>
#include <vector>

namespace moonpoly {

constexpr int kMaxSpatialDims = 3;

/*! \brief A convolution over three spatial dimensions; fewer have leading ones of size 1. */
struct Int8ConvShape {
  int64_t images, groups;
  /*! \brief Channels of one group, on either side. */
  int64_t in_channels, out_channels;
  int64_t in[kMaxSpatialDims], kernel[kMaxSpatialDims], out[kMaxSpatialDims];
  int64_t stride[kMaxSpatialDims], dilation[kMaxSpatialDims];
  int64_t pad_begin[kMaxSpatialDims], padded[kMaxSpatialDims];

  int64_t depth() const { return in_channels * kernel[0] * kernel[1] * kernel[2]; }
  int64_t pixels() const { return out[0] * out[1] * out[2]; }
  int64_t plane() const { return in[0] * in[1] * in[2]; }
  int64_t padded_plane() const { return padded[0] * padded[1] * padded[2]; }
};

/*! \brief Bytes before and after the padded images that a gather may read, whatever is in them. */
constexpr int64_t kInt8GatherSlack = 64;

/*! \brief Copy one channel between its pads; `flip` as in PackInt8Rows, `pad` after flipping. */
void PadInt8Plane(const Int8ConvShape& shape, const uint8_t* src, uint8_t flip, uint8_t pad,
                  uint8_t* dst);

/*! \brief Gathers panels of 16 output pixels out of padded images. */
class Int8Gather {
 public:
  explicit Int8Gather(const Int8ConvShape& shape);

  /*!
   * \brief Write the panel of the pixels from `first` on.
   *
   * \param image The padded channels of one group of one image.
   * \param dst Whole groups: what is beyond the depth or the last pixel has no meaning, but where
   *        it is beyond the depth it is zero.
   */
  void Panel(const uint8_t* image, int64_t first, uint8_t* dst) const;

 private:
  const Int8ConvShape& shape_;
  /*! \brief By position along the reduction: from a pixel's corner to the byte. */
  std::vector<int64_t> offsets_;
};

}  // namespace moonpoly

#endif  // MOONPOLY_OPS_INT8_GATHER_H_
