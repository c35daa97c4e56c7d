/*!
 * \file ops/int8_recurrent.h
 * \brief The product that a recurrent step repeats, with weights of 8-bit integers.
 */
#ifndef MOONPOLY_OPS_INT8_RECURRENT_H_
#define MOONPOLY_OPS_INT8_RECURRENT_H_

#include <tvm/ffi/container/tensor.h>

#include <cstdint>
#include <vector>

namespace moonpoly {

/*! \brief Weights (k, n) of all directions, as PackInt8 lays them out. */
struct Int8RecurrentWeight {
  const uint8_t* panels;
  const int32_t* sums;
  const float* scales;
  /*! \brief int8 or uint8, as the weights were. */
  const DLTensor* zeros;
  int64_t k, n;
};

/*! \brief Check the tensors; `directions` times (k, n). Throws TypeError or ValueError. */
Int8RecurrentWeight ReadInt8Weight(const DLTensor* panels, const DLTensor* sums,
                                   const DLTensor* scales, const DLTensor* zeros,
                                   int64_t directions, int64_t k, int64_t n);

/*! \brief C (m, n) = A (m, k) times the weights of a direction, A quantized by its range first. */
class Int8StepProduct {
 public:
  /*! \brief Takes all the memory that Run() needs. */
  Int8StepProduct(const Int8RecurrentWeight& weight, int64_t direction, int64_t m, const float* a,
                  float* c);

  void Run();

 private:
  const Int8RecurrentWeight weight_;
  const uint8_t* panels_;
  const int32_t* sums_;
  const float* scales_;
  int64_t m_;
  const float* a_;
  float* c_;
  bool any_zero_ = false;
  std::vector<uint8_t> rows_;
  std::vector<int32_t> col_zeros_, products_;
};

}  // namespace moonpoly

#endif  // MOONPOLY_OPS_INT8_RECURRENT_H_
