/*!
 * \file select/cost_model.cc
 */
#include "select/cost_model.h"

#include <tvm/ffi/error.h>

namespace moonpoly {

CostModel ToCostModel(int64_t number) {
  if (number < 0 || number > 2) {
    TVM_FFI_THROW(ValueError) << "cost_model must be 0 (full), 1 (waves only) or 2 (task cost "
                                 "only), got "
                              << number;
  }
  return static_cast<CostModel>(number);
}

}  // namespace moonpoly
