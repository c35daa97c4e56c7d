/*!
 * \file ops/fourier.cc
 */
#include "ops/fourier.h"

#include <utility>

namespace moonpoly {

namespace {

using Complex = FourierTransform::Complex;

constexpr double kPi = 3.14159265358979323846;

// The operator of std::complex looks after infinities, by a call.
inline Complex Product(const Complex& a, const Complex& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

bool IsPowerOfTwo(int64_t value) { return (value & (value - 1)) == 0; }

}  // namespace

FourierTransform::FourierTransform(int64_t length, bool inverse) : length_(length) {
  const double sign = inverse ? 1.0 : -1.0;
  if (IsPowerOfTwo(length)) {
    roots_.resize(length / 2);
    for (int64_t k = 0; k < length / 2; ++k)
      roots_[k] = std::polar(1.0, sign * 2 * kPi * k / length);
    return;
  }
  int64_t room = 1;
  while (room < 2 * length - 1) room *= 2;
  chirp_.resize(length);
  filter_.assign(room, 0.0);
  for (int64_t k = 0; k < length; ++k) {
    // The angle's period is 2 n in k^2: reduced, it keeps its digits.
    chirp_[k] = std::polar(1.0, sign * kPi * (k * k % (2 * length)) / length);
    filter_[k] = std::conj(chirp_[k]);
    if (k > 0) filter_[room - k] = filter_[k];
  }
  forward_ = std::make_unique<FourierTransform>(room, false);
  backward_ = std::make_unique<FourierTransform>(room, true);
  forward_->Run(filter_.data());
  for (Complex& value : filter_) value /= static_cast<double>(room);
}

void FourierTransform::Run(Complex* values) const {
  if (chirp_.empty()) {
    RunPowerOfTwo(values);
  } else {
    RunByConvolution(values);
  }
}

void FourierTransform::RunPowerOfTwo(Complex* values) const {
  for (int64_t i = 1, reversed = 0; i < length_; ++i) {
    int64_t bit = length_ >> 1;
    for (; (reversed & bit) != 0; bit >>= 1) reversed ^= bit;
    reversed |= bit;
    if (i < reversed) std::swap(values[i], values[reversed]);
  }
  for (int64_t half = 1; half < length_; half *= 2) {
    const int64_t step = length_ / (2 * half);
    for (int64_t begin = 0; begin < length_; begin += 2 * half) {
      for (int64_t k = 0; k < half; ++k) {
        Complex &low = values[begin + k], &high = values[begin + k + half];
        const Complex turned = Product(high, roots_[k * step]);
        high = low - turned;
        low += turned;
      }
    }
  }
}

void FourierTransform::RunByConvolution(Complex* values) const {
  std::vector<Complex> padded(filter_.size(), 0.0);
  for (int64_t k = 0; k < length_; ++k) padded[k] = Product(values[k], chirp_[k]);
  forward_->Run(padded.data());
  for (size_t k = 0; k < padded.size(); ++k) padded[k] = Product(padded[k], filter_[k]);
  backward_->Run(padded.data());
  for (int64_t k = 0; k < length_; ++k) values[k] = Product(padded[k], chirp_[k]);
}

}  // namespace moonpoly
