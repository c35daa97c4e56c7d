/*!
 * \file ops/recurrent.h
 * \brief What RNN, GRU and LSTM share: the layer's operands, its products, the walk through time.
 *
 * The products of the inputs with their weights are made beforehand, for all steps at once. What is
 * left for each step is the product of the state with the recurrent weights, which runs on the
 * micro-kernels, and the gates.
 */
#ifndef MOONPOLY_OPS_RECURRENT_H_
#define MOONPOLY_OPS_RECURRENT_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "launch/gemm.h"
#include "model/sites.h"
#include "ops/activation.h"
#include "ops/int8_recurrent.h"

namespace moonpoly {

/*! \brief Recurrent weights of all directions: (d, n, h) transposed or (d, panels, h, L) packed. */
struct RecurrentWeight {
  const Site* site = nullptr;
  const DLTensor* data = nullptr;
  /*! \brief Columns of the product. */
  int64_t n = 0;
  /*! \brief The weights instead of `site` and `data` where they are 8-bit integers. */
  const Int8RecurrentWeight* int8 = nullptr;
};

/*! \brief One product that a step repeats, planned once: c (m, n) = a (m, k) times the weights. */
struct StepProduct {
  BoundMatmul bound;
  Plan plan;
  const KernelSetObj* kernels = nullptr;
  std::shared_ptr<Int8StepProduct> int8;

  /*! \brief Returns 0, or -1 with the error raised in the thread's FFI state. */
  int Run() const;
};

/*! \brief The operands of a layer after checking. Offsets and strides are in elements. */
struct RecurrentLayer {
  int64_t steps, batch, directions, hidden, gates;
  bool reverse_first, batch_first;
  float clip;
  std::vector<Activation> activations;
  int64_t activations_per_direction;
  const float* projected;
  const int32_t* lengths;
  const float* initial_h;
  float* y;
  float* y_h;

  bool reverse(int64_t direction) const { return direction == 1 || reverse_first; }
  int64_t length(int64_t row) const { return lengths == nullptr ? steps : lengths[row]; }
  /*! \brief The step of the sequence that `row` sees at the walk's step `s` < length(row). */
  int64_t time(int64_t direction, int64_t row, int64_t s) const {
    return reverse(direction) ? length(row) - 1 - s : s;
  }
  const float* input(int64_t direction, int64_t row, int64_t t) const {
    const int64_t place = batch_first ? row * steps + t : t * batch + row;
    return projected + (place * directions + direction) * gates * hidden;
  }
  float* output(int64_t direction, int64_t row, int64_t t) const {
    const int64_t place = batch_first ? (row * steps + t) * directions + direction
                                      : (t * directions + direction) * batch + row;
    return y + place * hidden;
  }
  /*! \brief Where a state tensor, such as the initial one, keeps its row. */
  int64_t state(int64_t direction, int64_t row) const {
    return (batch_first ? row * directions + direction : direction * batch + row) * hidden;
  }
  const Activation& activation(int64_t direction, int64_t index) const {
    return activations[direction * activations_per_direction + index];
  }
};

/*! \brief Arguments that the three operators begin with; others and the outputs follow. */
enum RecurrentArg : int {
  kArgSite,
  kArgProjected,
  kArgWeight,
  kArgInitialH,
  kArgLengths,
  kArgDirection,
  kArgBatchFirst,
  kArgClip,
  kArgActivations,
  kNumSharedArgs,
};

/*! \brief A tensor argument, or null where 0 is passed in its place. */
const DLTensor* OptionalTensor(const tvm::ffi::PackedArgs& args, int index);

/*! \brief Data of a contiguous float32 tensor of `shape`; null for a null tensor. Throws. */
const float* CheckedData(const DLTensor* tensor, std::initializer_list<int64_t> shape,
                         const char* name);

/*!
 * \brief Read and check the shared arguments; outputs y and y_h are at `first_output` and after.
 *
 * Throws TypeError or ValueError naming the argument.
 */
RecurrentLayer ReadLayer(const tvm::ffi::PackedArgs& args, int64_t gates,
                         int64_t activations_per_direction, int first_output);

/*! \brief The weights at `index` with the site at `site_index`, for `n` columns. */
RecurrentWeight ReadWeight(const tvm::ffi::PackedArgs& args, int site_index, int index, int64_t n,
                           const RecurrentLayer& layer);

/*! \brief Rows of the batch in one direction: one thread walks them through all steps. */
struct RecurrentShare {
  int64_t direction, first_row, num_rows;
  /*! \brief Threads of its products. */
  int32_t threads;
  /*! \brief Whether the shares run at once, or one after the other. */
  bool at_once;
};

/*! \brief Deal rows and directions out, by what the cost model says of their products. */
std::vector<RecurrentShare> DealShares(const RecurrentLayer& layer, const RecurrentWeight& weight);

/*! \brief Bind and plan c (m, n) = a (m, h) times the weights of a direction. */
StepProduct PlanProduct(const RecurrentWeight& weight, const RecurrentShare& share, int64_t hidden,
                        float* a, float* c);

/*!
 * \brief Walks a share through time. Memory is taken when it is made, so that Run() throws nothing.
 */
class RecurrentCell {
 public:
  RecurrentCell(const RecurrentLayer& layer, const RecurrentShare& share);
  virtual ~RecurrentCell() = default;

  /*! \brief Run all steps and write the last state. Returns 0, or -1 with the error raised. */
  int Run();

 protected:
  /*! \brief Compute step `s` for the active rows. Returns as Run() does. */
  virtual int Step(int64_t s) = 0;
  /*! \brief Write what a cell keeps beside h. */
  virtual void Finish() {}

  /*! \brief Call f(i, row, t) for each row of the share, `row` of the batch, whose walk goes on. */
  template <typename F>
  void ForActiveRows(int64_t s, F f) {
    for (int64_t i = 0; i < share_.num_rows; ++i) {
      const int64_t row = share_.first_row + i;
      if (s < layer_.length(row)) f(i, row, layer_.time(share_.direction, row, s));
    }
  }
  /*! \brief Row i of the state h. */
  float* h(int64_t i) { return h_.data() + i * layer_.hidden; }
  const float* input(int64_t row, int64_t t) const {
    return layer_.input(share_.direction, row, t);
  }
  void Apply(int64_t index, float* x, int64_t count) const {
    Clip(layer_.clip, x, count);
    Activate(layer_.activation(share_.direction, index), x, count);
  }
  /*! \brief Copy the rows' part of a state tensor; zeros where there is none. */
  void Load(const float* states, std::vector<float>* rows) const;
  void Store(const std::vector<float>& rows, float* states) const;

  const RecurrentLayer& layer_;
  const RecurrentShare share_;
  std::vector<float> h_;

 private:
  void WriteOutputs(int64_t s);
};

/*! \brief Run every cell, at once where the shares say so. Throws what a product raised. */
void RunCells(const std::vector<std::unique_ptr<RecurrentCell>>& cells, bool at_once);

/*! \brief Deal out the rows of a layer, make a `Cell` for each share from `rest`, and run them. */
template <typename Cell, typename... Rest>
void RunLayer(const RecurrentLayer& layer, const RecurrentWeight& weight, const Rest&... rest) {
  if (layer.batch == 0 || layer.hidden == 0) return;
  const std::vector<RecurrentShare> shares = DealShares(layer, weight);
  std::vector<std::unique_ptr<RecurrentCell>> cells;
  for (const RecurrentShare& share : shares) {
    cells.push_back(std::make_unique<Cell>(layer, share, weight, rest...));
  }
  RunCells(cells, shares.front().at_once);
}

}  // namespace moonpoly

#endif  // MOONPOLY_OPS_RECURRENT_H_
