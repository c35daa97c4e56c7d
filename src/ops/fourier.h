/*!
 * \file ops/fourier.h
 * \brief The discrete Fourier transform of any length.
 */
#ifndef MOONPOLY_OPS_FOURIER_H_
#define MOONPOLY_OPS_FOURIER_H_

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

namespace moonpoly {

/*!
 * \brief The transform of one length, in double precision, with its roots of unity.
 *
 * A power of two is halved repeatedly (Cooley and Tukey); another length becomes a circular
 * convolution of such a length (Bluestein). Both take O(n log n).
 */
class FourierTransform {
 public:
  using Complex = std::complex<double>;

  /*! \param length At least 1. \param inverse The sign of the exponent; nothing is scaled. */
  FourierTransform(int64_t length, bool inverse);

  /*! \brief Transform `length` values in place. */
  void Run(Complex* values) const;

 private:
  void RunPowerOfTwo(Complex* values) const;
  void RunByConvolution(Complex* values) const;

  int64_t length_;
  /*! \brief Root k of a power of two is exp(2 pi i k / n), with the sign of the exponent. */
  std::vector<Complex> roots_;
  /*! \brief For another length: exp(pi i k^2 / n), the filter, and the transforms around it. */
  std::vector<Complex> chirp_;
  std::vector<Complex> filter_;
  std::unique_ptr<FourierTransform> forward_;
  std::unique_ptr<FourierTransform> backward_;
};

}  // namespace moonpoly

#endif  // MOONPOLY_OPS_FOURIER_H_
