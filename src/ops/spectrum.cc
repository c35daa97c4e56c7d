/*!
 * \file ops/spectrum.cc
 * \brief ONNX's DFT, STFT and MelWeightMatrix.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "launch/tensor_check.h"
#include "ops/fourier.h"
#include "ops/parallel.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

using Complex = FourierTransform::Complex;

// Transforms fewer than these are not worth a second thread.
constexpr int64_t kLeastTransforms = 16;

template <typename F>
auto WithReal(const DLTensor* x, const char* name, F f) {
  if (x->dtype.code == kDLFloat && x->dtype.bits == 32) return f(float{});
  if (x->dtype.code == kDLFloat && x->dtype.bits == 64) return f(double{});
  TVM_FFI_THROW(TypeError) << name << " must be float32 or float64";
}

// The parts of a number, of which a real signal holds the first only.
int64_t CheckParts(const DLTensor* x, const char* name) {
  CheckContiguous(x, name);
  const int64_t parts = x->ndim < 2 ? 0 : x->shape[x->ndim - 1];
  if (parts != 1 && parts != 2) {
    TVM_FFI_THROW(ValueError) << name << " must end with an axis of 1 (real) or 2 (complex), got "
                              << ShapeText(x);
  }
  return parts;
}

// Read up to `count` numbers that lie `stride` apart.
template <typename T>
void Load(const T* from, int64_t stride, int64_t parts, int64_t count, Complex* to) {
  for (int64_t k = 0; k < count; ++k) {
    to[k] = {static_cast<double>(from[k * stride]),
             parts == 2 ? static_cast<double>(from[k * stride + 1]) : 0.0};
  }
}

template <typename T>
void Store(const Complex* from, double scale, int64_t stride, int64_t parts, int64_t count, T* to) {
  for (int64_t k = 0; k < count; ++k) {
    to[k * stride] = static_cast<T>(from[k].real() * scale);
    if (parts == 2) to[k * stride + 1] = static_cast<T>(from[k].imag() * scale);
  }
}

// Complete one half of a spectrum to that of a real signal.
void MirrorSpectrum(Complex* values, int64_t length) {
  values[0].imag(0.0);
  if (length % 2 == 0) values[length / 2].imag(0.0);
  for (int64_t k = length / 2 + 1; k < length; ++k) values[k] = std::conj(values[length - k]);
}

// (x of rank r, length or an empty tensor, axis, inverse, onesided) → the transform along the axis
ffi::Tensor Dft(const DLTensor* x, const DLTensor* length_tensor, const DLTensor* axis_tensor,
                bool inverse, bool onesided) {
  const int64_t parts = CheckParts(x, "input");
  int64_t axis = ReadInteger(axis_tensor, "axis");
  if (axis < -x->ndim || axis > x->ndim - 2 || axis == -1) {
    TVM_FFI_THROW(ValueError) << "axis must be one of a signal of shape " << ShapeText(x)
                              << ", and not the last, got " << axis;
  }
  axis = axis < 0 ? axis + x->ndim : axis;
  const bool to_real = inverse && onesided;
  if (onesided && (parts == 2) != inverse) {
    TVM_FFI_THROW(ValueError) << "half a spectrum is that of a real signal, got " << ShapeText(x);
  }
  const int64_t extent = x->shape[axis];
  int64_t length = to_real ? 2 * (extent - 1) : extent;
  if (NumElements(length_tensor) > 0) length = ReadInteger(length_tensor, "dft_length");
  if (length < 1) TVM_FFI_THROW(ValueError) << "dft_length must be at least 1, got " << length;
  const int64_t half = length / 2 + 1;
  const int64_t taken = std::min(extent, to_real ? half : length);
  const int64_t given = onesided && !inverse ? half : length, given_parts = to_real ? 1 : 2;
  std::vector<int64_t> shape(x->shape, x->shape + x->ndim);
  shape[axis] = given;
  shape.back() = given_parts;
  ffi::Tensor out = NewTensor(shape, x->dtype);
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < axis; ++i) outer *= x->shape[i];
  for (int64_t i = axis + 1; i < x->ndim - 1; ++i) inner *= x->shape[i];
  const FourierTransform transform(length, inverse);
  const double scale = inverse ? 1.0 / static_cast<double>(length) : 1.0;
  WithReal(x, "input", [&](auto zero) {
    using T = decltype(zero);
    const auto* from = reinterpret_cast<const T*>(ConstData(x));
    auto* to = static_cast<T*>(out.data_ptr());
    ParallelFor(outer * inner, kLeastTransforms, [&](int64_t begin, int64_t end) {
      std::vector<Complex> line(length);
      for (int64_t row = begin; row < end; ++row) {
        const int64_t i = row / inner, j = row % inner;
        std::fill(line.begin(), line.end(), Complex(0.0));
        Load(from + (i * extent * inner + j) * parts, inner * parts, parts, taken, line.data());
        if (to_real) MirrorSpectrum(line.data(), length);
        transform.Run(line.data());
        Store(line.data(), scale, inner * given_parts, given_parts, given,
              to + (i * given * inner + j) * given_parts);
      }
    });
  });
  return out;
}

// (signal (b, n, 1 or 2), step, window or an empty tensor, frame length or an empty tensor,
//  onesided) → (b, frames, bins, 2)
ffi::Tensor Stft(const DLTensor* signal, const DLTensor* step_tensor, const DLTensor* window,
                 const DLTensor* length_tensor, bool onesided) {
  CheckRank(signal, 3, "signal");
  CheckRank(window, 1, "window");
  CheckContiguous(window, "window");
  const int64_t parts = CheckParts(signal, "signal");
  if (onesided && parts == 2) {
    TVM_FFI_THROW(ValueError) << "half a spectrum is that of a real signal, got "
                              << ShapeText(signal);
  }
  const int64_t batch = signal->shape[0], extent = signal->shape[1];
  const bool has_window = window->shape[0] > 0;
  int64_t length = has_window ? window->shape[0] : extent;
  if (NumElements(length_tensor) > 0) length = ReadInteger(length_tensor, "frame_length");
  if (has_window) CheckExtent(window, 0, length, "window");
  const int64_t step = ReadInteger(step_tensor, "frame_step");
  if (length < 1 || length > extent || step < 1) {
    TVM_FFI_THROW(ValueError) << "frames of " << length << " samples, " << step
                              << " apart, can't be taken of a signal of " << extent;
  }
  const int64_t frames = (extent - length) / step + 1, bins = onesided ? length / 2 + 1 : length;
  ffi::Tensor out = NewTensor({batch, frames, bins, 2}, signal->dtype);
  const FourierTransform transform(length, false);
  WithReal(signal, "signal", [&](auto zero) {
    using T = decltype(zero);
    if (has_window && window->dtype.bits != signal->dtype.bits) {
      TVM_FFI_THROW(TypeError) << "window must be of the signal's type";
    }
    const auto* from = reinterpret_cast<const T*>(ConstData(signal));
    const auto* weights = reinterpret_cast<const T*>(ConstData(window));
    auto* to = static_cast<T*>(out.data_ptr());
    ParallelFor(batch * frames, kLeastTransforms, [&](int64_t begin, int64_t end) {
      std::vector<Complex> line(length);
      for (int64_t row = begin; row < end; ++row) {
        const int64_t first = row / frames * extent + row % frames * step;
        Load(from + first * parts, parts, parts, length, line.data());
        for (int64_t k = 0; has_window && k < length; ++k) {
          line[k] *= static_cast<double>(weights[k]);
        }
        transform.Run(line.data());
        Store(line.data(), 1.0, 2, 2, bins, to + row * bins * 2);
      }
    });
  });
  return out;
}

double ReadReal(const DLTensor* tensor, const char* name) {
  if (NumElements(tensor) != 1 || tensor->dtype.code != kDLFloat || tensor->dtype.bits != 64) {
    TVM_FFI_THROW(TypeError) << name << " must be one float64, got shape " << ShapeText(tensor);
  }
  return *reinterpret_cast<const double*>(ConstData(tensor));
}

// The triangles that sum up a spectrum's bins by the ear's scale: (bins, num_mel_bins), float64.
ffi::Tensor MelWeightMatrix(const DLTensor* count_tensor, const DLTensor* length_tensor,
                            const DLTensor* rate_tensor, const DLTensor* lower_tensor,
                            const DLTensor* upper_tensor) {
  const int64_t count = ReadInteger(count_tensor, "num_mel_bins");
  const int64_t length = ReadInteger(length_tensor, "dft_length");
  const int64_t rate = ReadInteger(rate_tensor, "sample_rate");
  const double lower = ReadReal(lower_tensor, "lower_edge_hertz");
  const double upper = ReadReal(upper_tensor, "upper_edge_hertz");
  if (count < 0 || length < 0 || rate < 1) {
    TVM_FFI_THROW(ValueError) << "expected num_mel_bins and dft_length of at least 0 and a positive"
                              << " sample_rate, got " << count << ", " << length << " and " << rate;
  }
  const auto mel_of = [](double hertz) { return 2595.0 * std::log10(1.0 + hertz / 700.0); };
  const double first = mel_of(lower), span = (mel_of(upper) - first) / (count + 2);
  const int64_t bins = length / 2 + 1;
  std::vector<int64_t> edges(count + 2);
  for (int64_t i = 0; i < count + 2; ++i) {
    const double hertz = 700.0 * (std::pow(10.0, (first + i * span) / 2595.0) - 1.0);
    edges[i] = static_cast<int64_t>(std::floor((length + 1) * hertz / rate));
    if (edges[i] < 0 || edges[i] > bins || (i <= count && i > 0 && edges[i] == bins)) {
      TVM_FFI_THROW(ValueError) << "the edges " << lower << " and " << upper
                                << " Hz lie beyond the " << bins << " bins of a spectrum at "
                                << rate << " Hz";
    }
  }
  ffi::Tensor out = NewTensor({bins, count}, {kDLFloat, 64, 1});
  auto* to = static_cast<double*>(out.data_ptr());
  std::fill(to, to + bins * count, 0.0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t left = edges[i], peak = edges[i + 1], right = edges[i + 2];
    if (left == peak) to[peak * count + i] = 1.0;
    for (int64_t j = left; left < peak && j <= peak; ++j) {
      to[j * count + i] = static_cast<double>(j - left) / (peak - left);
    }
    for (int64_t j = peak; j < right; ++j) {
      to[j * count + i] = static_cast<double>(right - j) / (right - peak);
    }
  }
  return out;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def("moonpoly.op.dft",
           [](DLTensor* x, DLTensor* length, DLTensor* axis, int64_t inverse, int64_t onesided) {
             return Dft(x, length, axis, inverse != 0, onesided != 0);
           })
      .def("moonpoly.op.stft",
           [](DLTensor* signal, DLTensor* step, DLTensor* window, DLTensor* length,
              int64_t onesided) { return Stft(signal, step, window, length, onesided != 0); })
      .def("moonpoly.op.mel_weight_matrix",
           [](DLTensor* count, DLTensor* length, DLTensor* rate, DLTensor* lower, DLTensor* upper) {
             return MelWeightMatrix(count, length, rate, lower, upper);
           });
}

}  // namespace moonpoly
