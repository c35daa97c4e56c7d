/*!
 * \file select/cost_model.h
 * \brief Which terms rank the plans.
 */
#ifndef MOONPOLY_SELECT_COST_MODEL_H_
#define MOONPOLY_SELECT_COST_MODEL_H_

#include <cstdint>

namespace moonpoly {

/*! \brief The partial ones are the paper's ablations. */
enum class CostModel : int32_t {
  kFull = 0,
  /*! \brief Only the number of rounds of tasks. */
  kWavesOnly = 1,
  /*! \brief Only the cost of one task. */
  kTaskOnly = 2,
};

/*! \brief Throws ValueError unless `number` is one of the three. */
CostModel ToCostModel(int64_t number);

}  // namespace moonpoly

#endif  // MOONPOLY_SELECT_COST_MODEL_H_
