/*!
 * \file ops/dynamic_quantize.h
 * \brief Quantizing numbers to uint8 by their own range, on one thread.
 */
#ifndef MOONPOLY_OPS_DYNAMIC_QUANTIZE_H_
#define MOONPOLY_OPS_DYNAMIC_QUANTIZE_H_

#include <cstdint>

namespace moonpoly {

/*! \brief What maps numbers to uint8: value = scale * (byte - zero). */
struct ByteScale {
  float scale;
  uint8_t zero;
};

/*! \brief The scale of the range from `low` <= 0 to `high` >= 0. */
ByteScale ScaleOfRange(float low, float high);

/*! \brief The scale of the range of `count` numbers, widened to zero. */
ByteScale ScaleOf(const float* x, int64_t count);

/*! \brief y = saturate(round(x / scale) + zero), ties to even. */
void QuantizeBytes(const float* x, int64_t count, const ByteScale& scale, uint8_t* y);

}  // namespace moonpoly

#endif  // MOONPOLY_OPS_DYNAMIC_QUANTIZE_H_
