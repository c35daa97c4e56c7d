/*!
 * \file launch/epilogue.h
 * \brief The fused element-wise function that runs on each finished block of C while it is in
 * cache.
 */
#ifndef MOONPOLY_LAUNCH_EPILOGUE_H_
#define MOONPOLY_LAUNCH_EPILOGUE_H_

#include <tvm/ffi/c_api.h>

#include <cstdint>

#include "launch/operands.h"

namespace moonpoly {

constexpr int kMaxEpilogueOperands = 8;

/*! \brief How an operand spreads over C(m, n). */
enum class OperandKind : uint8_t {
  kCol,     // (n,): one value for each column
  kRow,     // (m,): one value for each row
  kFull,    // (m, n)
  kScalar,  // (1,)
};

struct EpilogueOperand {
  OperandKind kind;
  DLDataType dtype;
  const char* data;
  /*! \brief Row stride of kFull, in elements. */
  int64_t ld;
  /*! \brief Steps along the batch dimensions, in elements. */
  int64_t batch[kMaxBatchDims];
};

/*! \brief A compiled epilogue with its operands. */
struct Epilogue {
  TVMFFISafeCallType safe_call;
  void* handle;
  int32_t num_operands;
  EpilogueOperand operands[kMaxEpilogueOperands];
};

/*! \brief Calls an epilogue block by block; lives on the stack of the thread that computes. */
class EpilogueRunner {
 public:
  explicit EpilogueRunner(const Epilogue* epilogue);
  EpilogueRunner(const EpilogueRunner&) = delete;
  EpilogueRunner& operator=(const EpilogueRunner&) = delete;

  /*! \brief Move to the batch element with these coordinates. */
  void SetBatch(const int64_t* coordinates, int32_t ndim);

  /*! \brief Run on rows [m0, m0 + rows) and columns [n0, n0 + cols) of C. Returns 0 or -1. */
  int Run(const COperand& c, int64_t m0, int64_t rows, int64_t n0, int64_t cols);

  bool active() const { return epilogue_ != nullptr; }

 private:
  struct Argument {
    DLTensor tensor;
    int64_t shape[2];
    int64_t strides[2];
  };

  const Epilogue* epilogue_;
  const char* data_[kMaxEpilogueOperands];
  Argument arguments_[kMaxEpilogueOperands + 1];
  TVMFFIAny args_[kMaxEpilogueOperands + 1];
};

}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_EPILOGUE_H_
