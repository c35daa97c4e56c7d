/*!
 * \file ops/element_type.h
 * \brief From a run-time dtype to a C++ type.
 */
#ifndef MOONPOLY_OPS_ELEMENT_TYPE_H_
#define MOONPOLY_OPS_ELEMENT_TYPE_H_

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

#include <cstdint>
#include <cstring>

namespace moonpoly {

/*! \brief A 16-bit float, compared by the float32 that it stands for. */
template <bool kIsBfloat>
struct Half {
  uint16_t bits;

  operator float() const {
    uint32_t wide;
    if (kIsBfloat) {
      wide = static_cast<uint32_t>(bits) << 16;
    } else {
      const uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
      if (magnitude >= 0x7c00u) {
        wide = sign | 0x7f800000u | (magnitude & 0x3ffu) << 13;
      } else {
        // Scaling by 2^112 mends the exponent's bias, also of subnormal numbers.
        uint32_t shifted = magnitude << 13;
        float value;
        std::memcpy(&value, &shifted, sizeof(value));
        value *= 5.192296858534828e33f;
        std::memcpy(&wide, &value, sizeof(wide));
        wide |= sign;
      }
    }
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
  }
};

template <typename T>
struct TypeTag {
  using type = T;
};

/*! \brief Call f(TypeTag<T>()) with the C++ type of `dtype`. Throws TypeError for another. */
template <typename F>
auto WithElementType(DLDataType dtype, F f) {
  switch (dtype.code << 8 | dtype.bits) {
    case kDLFloat << 8 | 32:
      return f(TypeTag<float>());
    case kDLFloat << 8 | 64:
      return f(TypeTag<double>());
    case kDLFloat << 8 | 16:
      return f(TypeTag<Half<false>>());
    case kDLBfloat << 8 | 16:
      return f(TypeTag<Half<true>>());
    case kDLInt << 8 | 8:
      return f(TypeTag<int8_t>());
    case kDLInt << 8 | 16:
      return f(TypeTag<int16_t>());
    case kDLInt << 8 | 32:
      return f(TypeTag<int32_t>());
    case kDLInt << 8 | 64:
      return f(TypeTag<int64_t>());
    case kDLUInt << 8 | 8:
    case kDLBool << 8 | 8:
      return f(TypeTag<uint8_t>());
    case kDLUInt << 8 | 16:
      return f(TypeTag<uint16_t>());
    case kDLUInt << 8 | 32:
      return f(TypeTag<uint32_t>());
    case kDLUInt << 8 | 64:
      return f(TypeTag<uint64_t>());
    default:
      TVM_FFI_THROW(TypeError) << "can't order elements of dtype "
                               << tvm::ffi::DLDataTypeToString(dtype);
  }
}

/*! \brief Whether a comes before b in ascending order; a NaN comes last. */
template <typename T>
bool Before(const T& a, const T& b) {
  return a < b || (b != b && a == a);
}

}  // namespace moonpoly

#endif  // MOONPOLY_OPS_ELEMENT_TYPE_H_
