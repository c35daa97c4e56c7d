/*!
 * \file ops/recurrent.cc
 */
#include "ops/recurrent.h"

#include <tvm/ffi/error.h>
#include <tvm/runtime/c_backend_api.h>

#include <algorithm>
#include <string>

#include "launch/matmul.h"
#include "launch/tensor_check.h"
#include "launch/threads.h"
#include "select/plan_cache.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

enum Direction : int64_t { kForward, kReverse, kBidirectional };

const int32_t* CheckedLengths(const DLTensor* tensor, int64_t batch, int64_t steps) {
  if (tensor == nullptr) return nullptr;
  if (tensor->dtype.code != kDLInt || tensor->dtype.bits != 32) {
    TVM_FFI_THROW(TypeError) << "sequence_lens must be int32";
  }
  CheckRank(tensor, 1, "sequence_lens");
  CheckExtent(tensor, 0, batch, "sequence_lens");
  const auto* lengths = static_cast<const int32_t*>(tensor->data);
  for (int64_t b = 0; b < batch; ++b) {
    if (lengths[b] < 0 || lengths[b] > steps) {
      TVM_FFI_THROW(ValueError) << "sequence_lens[" << b << "] is " << lengths[b]
                                << ", expected 0 to " << steps << ", the number of steps";
    }
  }
  return lengths;
}

// A (m, k) or C (m, n), rows after each other.
struct MatrixView : DLTensor {
  MatrixView(float* values, int64_t rows, int64_t cols) : extents{rows, cols}, steps{cols, 1} {
    data = values;
    device = {kDLCPU, 0};
    ndim = 2;
    dtype = {kDLFloat, 32, 1};
    shape = extents;
    strides = steps;
    byte_offset = 0;
  }
  int64_t extents[2], steps[2];
};

double PredictedUs(const RecurrentWeight& weight, const RecurrentLayer& layer, int64_t rows,
                   int32_t threads) {
  const Problem problem{1, rows, weight.n, layer.hidden, weight.site->layout.b_mode, threads};
  return CachedPlan(*weight.site->kernels, problem).predicted_us;
}

struct CellLaunch {
  const std::vector<std::unique_ptr<RecurrentCell>>& cells;
};

int RunShareOfCells(int thread, TVMParallelGroupEnv* env, void* data) {
  const auto& cells = static_cast<const CellLaunch*>(data)->cells;
  for (size_t i = thread; i < cells.size(); i += env->num_task) {
    if (cells[i]->Run() != 0) return -1;
  }
  return 0;
}

}  // namespace

const DLTensor* OptionalTensor(const ffi::PackedArgs& args, int index) {
  if (args[index].try_cast<int64_t>().has_value()) return nullptr;
  return args[index].cast<DLTensor*>();
}

const float* CheckedData(const DLTensor* tensor, std::initializer_list<int64_t> shape,
                         const char* name) {
  if (tensor == nullptr) return nullptr;
  CheckFloat32(tensor, name);
  CheckRank(tensor, static_cast<int32_t>(shape.size()), name);
  int axis = 0;
  for (int64_t extent : shape) CheckExtent(tensor, axis++, extent, name);
  CheckContiguous(tensor, name);
  return FloatData(tensor);
}

RecurrentLayer ReadLayer(const ffi::PackedArgs& args, int64_t gates,
                         int64_t activations_per_direction, int first_output) {
  RecurrentLayer layer;
  const DLTensor* y = args[first_output].cast<DLTensor*>();
  CheckRank(y, 4, "Y");
  const int64_t direction = args[kArgDirection].cast<int64_t>();
  layer.batch_first = args[kArgBatchFirst].cast<int64_t>() != 0;
  layer.reverse_first = direction == kReverse;
  layer.directions = direction == kBidirectional ? 2 : 1;
  layer.steps = y->shape[layer.batch_first ? 1 : 0];
  layer.batch = y->shape[layer.batch_first ? 0 : 2];
  layer.hidden = y->shape[3];
  layer.gates = gates;
  layer.clip = static_cast<float>(args[kArgClip].cast<double>());
  layer.activations_per_direction = activations_per_direction;
  layer.activations = ParseActivations(args[kArgActivations].cast<std::string>(),
                                       layer.directions * activations_per_direction);
  const int64_t width = layer.directions * gates * layer.hidden;
  const int64_t outer = layer.batch_first ? layer.batch : layer.steps;
  const int64_t inner = layer.batch_first ? layer.steps : layer.batch;
  layer.projected =
      CheckedData(args[kArgProjected].cast<DLTensor*>(), {outer, inner, width}, "projected input");
  layer.lengths = CheckedLengths(OptionalTensor(args, kArgLengths), layer.batch, layer.steps);
  const int64_t d = layer.directions, b = layer.batch, h = layer.hidden;
  const int64_t state[] = {layer.batch_first ? b : d, layer.batch_first ? d : b};
  layer.initial_h =
      CheckedData(OptionalTensor(args, kArgInitialH), {state[0], state[1], h}, "initial_h");
  const auto* y_data = layer.batch_first ? CheckedData(y, {b, layer.steps, d, h}, "Y")
                                         : CheckedData(y, {layer.steps, d, b, h}, "Y");
  layer.y = const_cast<float*>(y_data);
  layer.y_h = const_cast<float*>(
      CheckedData(args[first_output + 1].cast<DLTensor*>(), {state[0], state[1], h}, "Y_h"));
  return layer;
}

RecurrentWeight ReadWeight(const ffi::PackedArgs& args, int site_index, int index, int64_t n,
                           const RecurrentLayer& layer) {
  RecurrentWeight weight;
  weight.site = &FindSite(args[site_index].cast<int64_t>());
  weight.data = args[index].cast<DLTensor*>();
  weight.n = n;
  const bool packed = weight.site->layout.b_mode == BMode::kPacked;
  const int64_t d = layer.directions, h = layer.hidden, lanes = weight.site->kernels->panel();
  if (packed) {
    CheckedData(weight.data, {d, CeilDiv(n, lanes), h, lanes}, "R");
  } else {
    CheckedData(weight.data, {d, n, h}, "R");
  }
  return weight;
}

std::vector<RecurrentShare> DealShares(const RecurrentLayer& layer, const RecurrentWeight& weight) {
  const int32_t threads = NumThreads();
  const int64_t d = layer.directions;
  if (weight.int8 != nullptr) {
    // All rows together: what they are quantized by is the range of all.
    std::vector<RecurrentShare> whole;
    for (int64_t direction = 0; direction < d; ++direction) {
      whole.push_back({direction, 0, layer.batch, 1, d > 1});
    }
    return whole;
  }
  // All rows of a direction together, its products on all threads, one direction after the other.
  double best = PredictedUs(weight, layer, layer.batch, threads) * d;
  int64_t best_parts = 0;
  for (int64_t parts = 1; threads > 1 && parts <= std::min<int64_t>(layer.batch, threads);
       parts *= 2) {
    const double us =
        PredictedUs(weight, layer, CeilDiv(layer.batch, parts), 1) * CeilDiv(d * parts, threads);
    if (us < best) {
      best = us;
      best_parts = parts;
    }
  }
  std::vector<RecurrentShare> shares;
  for (int64_t direction = 0; direction < d; ++direction) {
    for (int64_t part = 0; part < std::max<int64_t>(best_parts, 1); ++part) {
      const Span rows = Share(layer.batch, part, std::max<int64_t>(best_parts, 1));
      shares.push_back({direction, rows.begin, rows.end - rows.begin, best_parts == 0 ? threads : 1,
                        best_parts > 0});
    }
  }
  return shares;
}

StepProduct PlanProduct(const RecurrentWeight& weight, const RecurrentShare& share, int64_t hidden,
                        float* a, float* c) {
  if (weight.int8 != nullptr) {
    StepProduct product;
    product.int8 =
        std::make_shared<Int8StepProduct>(*weight.int8, share.direction, share.num_rows, a, c);
    return product;
  }
  const Site& site = *weight.site;
  DLTensor b = *weight.data;
  // One direction: the first dimension is left out. Both layouts are contiguous.
  int64_t per_direction = 1;
  for (int i = 1; i < b.ndim; ++i) per_direction *= b.shape[i];
  b.byte_offset += share.direction * per_direction * sizeof(float);
  b.ndim -= 1;
  b.shape += 1;
  b.strides = nullptr;
  StepProduct product;
  product.kernels = site.kernels;
  const MatrixView a_view(a, share.num_rows, hidden), c_view(c, share.num_rows, weight.n);
  BindMatmul(*site.kernels, site.layout, &a_view, &b, &c_view, nullptr, nullptr, &product.bound);
  product.bound.problem.threads = share.threads;
  product.plan = CachedPlan(*site.kernels, product.bound.problem);
  return product;
}

int StepProduct::Run() const {
  if (int8 != nullptr) {
    int8->Run();
    return 0;
  }
  GemmCall call;
  call.ks = kernels;
  call.plan = &plan;
  call.a = bound.a;
  call.b = bound.b;
  call.c = bound.c;
  call.batch = bound.batch;
  call.epilogue = nullptr;
  return LaunchGemm(call);
}

RecurrentCell::RecurrentCell(const RecurrentLayer& layer, const RecurrentShare& share)
    : layer_(layer), share_(share), h_(share.num_rows * layer.hidden) {
  Load(layer.initial_h, &h_);
}

void RecurrentCell::Load(const float* states, std::vector<float>* rows) const {
  if (states == nullptr) return std::fill(rows->begin(), rows->end(), 0.0f);
  for (int64_t i = 0; i < share_.num_rows; ++i) {
    const float* from = states + layer_.state(share_.direction, share_.first_row + i);
    std::copy_n(from, layer_.hidden, rows->data() + i * layer_.hidden);
  }
}

void RecurrentCell::Store(const std::vector<float>& rows, float* states) const {
  for (int64_t i = 0; i < share_.num_rows; ++i) {
    std::copy_n(rows.data() + i * layer_.hidden, layer_.hidden,
                states + layer_.state(share_.direction, share_.first_row + i));
  }
}

int RecurrentCell::Run() {
  int64_t steps = 0;
  for (int64_t i = 0; i < share_.num_rows; ++i) {
    steps = std::max(steps, layer_.length(share_.first_row + i));
  }
  for (int64_t s = 0; s < steps; ++s) {
    if (Step(s) != 0) return -1;
    WriteOutputs(s);
  }
  // What lies beyond a row's length is zero.
  for (int64_t i = 0; i < share_.num_rows; ++i) {
    const int64_t row = share_.first_row + i;
    for (int64_t t = layer_.length(row); t < layer_.steps; ++t) {
      std::fill_n(layer_.output(share_.direction, row, t), layer_.hidden, 0.0f);
    }
  }
  Store(h_, layer_.y_h);
  Finish();
  return 0;
}

void RecurrentCell::WriteOutputs(int64_t s) {
  ForActiveRows(s, [&](int64_t i, int64_t row, int64_t t) {
    std::copy_n(h(i), layer_.hidden, layer_.output(share_.direction, row, t));
  });
}

void RunCells(const std::vector<std::unique_ptr<RecurrentCell>>& cells, bool at_once) {
  int status = 0;
  if (at_once) {
    CellLaunch launch{cells};
    const int num_tasks = std::min<int>(static_cast<int>(cells.size()), NumThreads());
    status = TVMBackendParallelLaunch(RunShareOfCells, &launch, num_tasks);
  } else {
    for (size_t i = 0; i < cells.size() && status == 0; ++i) status = cells[i]->Run();
  }
  if (status != 0) throw ffi::details::MoveFromSafeCallRaised();
}

}  // namespace moonpoly
