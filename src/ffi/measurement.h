/*!
 * \file ffi/measurement.h
 * \brief What measurements that are taken in C++ share.
 */
#ifndef MOONPOLY_FFI_MEASUREMENT_H_
#define MOONPOLY_FFI_MEASUREMENT_H_

#include <tvm/ffi/container/tensor.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace moonpoly {

using Clock = std::chrono::steady_clock;

/*! \brief Microseconds from `start` until now. */
inline double MicrosSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/*!
 * \brief Microseconds of one call of `find`, which returns a plan's predicted time.
 *
 * A look-up of a plan that is known is shorter than the clock's step, so many are timed together.
 * Of a selection the median of three counts: an interrupt during one is not the selector's time.
 */
template <typename Find>
double SelectionUs(bool cached, Find find) {
  constexpr int kLookups = 1000, kSelections = 3;
  volatile float sink = 0.0f;
  if (cached) {
    sink = find();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kLookups; ++i) sink = find();
    return MicrosSince(start) / kLookups;
  }
  double times[kSelections];
  for (double& time : times) {
    const Clock::time_point start = Clock::now();
    sink = find();
    time = MicrosSince(start);
  }
  (void)sink;
  std::sort(times, times + kSelections);
  return times[kSelections / 2];
}

/*! \brief Measured values as a float64 tensor. */
inline tvm::ffi::Tensor ToTensor(const std::vector<double>& values) {
  struct Allocator {
    void AllocData(DLTensor* tensor) { tensor->data = new double[tensor->shape[0]]; }
    void FreeData(DLTensor* tensor) { delete[] static_cast<double*>(tensor->data); }
  };
  const int64_t count = static_cast<int64_t>(values.size());
  tvm::ffi::Tensor out =
      tvm::ffi::Tensor::FromNDAlloc(Allocator(), tvm::ffi::ShapeView(&count, 1),
                                    DLDataType{kDLFloat, 64, 1}, DLDevice{kDLCPU, 0});
  std::copy(values.begin(), values.end(), static_cast<double*>(out.data_ptr()));
  return out;
}

}  // namespace moonpoly

#endif  // MOONPOLY_FFI_MEASUREMENT_H_
