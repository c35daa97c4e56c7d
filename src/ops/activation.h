/*!
 * \file ops/activation.h
 * \brief The activations of recurrent layers, on arrays of float32 in place.
 */
#ifndef MOONPOLY_OPS_ACTIVATION_H_
#define MOONPOLY_OPS_ACTIVATION_H_

#include <cstdint>
#include <string>
#include <vector>

namespace moonpoly {

/*! \brief One activation with its parameters, as ONNX's RNN, GRU and LSTM name them. */
struct Activation {
  enum class Kind : uint8_t {
    kSigmoid,
    kTanh,
    kRelu,
    kAffine,
    kLeakyRelu,
    kThresholdedRelu,
    kScaledTanh,
    kHardSigmoid,
    kElu,
    kSoftsign,
    kSoftplus,
  };
  Kind kind;
  float alpha;
  float beta;
};

/*!
 * \brief Read "name alpha beta" triples separated by blanks: "sigmoid 0 0 tanh 0 0".
 *
 * Throws ValueError for an unknown name, or unless there are `count` of them.
 */
std::vector<Activation> ParseActivations(const std::string& text, size_t count);

/*! \brief x[i] = activation(x[i]) for i in [0, count). */
void Activate(const Activation& activation, float* x, int64_t count);

/*! \brief Bound every element by [-limit, limit]; a limit of 0 leaves them. */
void Clip(float limit, float* x, int64_t count);

}  // namespace moonpoly

#endif  // MOONPOLY_OPS_ACTIVATION_H_
