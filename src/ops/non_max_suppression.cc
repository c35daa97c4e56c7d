/*!
 * \file ops/non_max_suppression.cc
 * \brief ONNX's NonMaxSuppression.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <limits>

#include "launch/tensor_check.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

struct Box {
  float y0, x0, y1, x1;

  float area() const { return (y1 - y0) * (x1 - x0); }
};

Box ReadBox(const float* data, bool center) {
  if (center) {
    const float x = data[0], y = data[1], half_w = data[2] / 2, half_h = data[3] / 2;
    return {y - half_h, x - half_w, y + half_h, x + half_w};
  }
  // Any pair of opposite corners.
  return {std::min(data[0], data[2]), std::min(data[1], data[3]), std::max(data[0], data[2]),
          std::max(data[1], data[3])};
}

bool Suppresses(const Box& kept, const Box& box, float threshold) {
  const float height = std::min(kept.y1, box.y1) - std::max(kept.y0, box.y0);
  const float width = std::min(kept.x1, box.x1) - std::max(kept.x0, box.x0);
  if (!(height > 0.0f) || !(width > 0.0f)) return false;
  const float area = kept.area(), other = box.area();
  if (!(area > 0.0f) || !(other > 0.0f)) return false;
  const float common = height * width;
  return common / (area + other - common) > threshold;
}

float ReadFloat(const DLTensor* tensor, const char* name) {
  CheckFloat32(tensor, name);
  if (NumElements(tensor) != 1) {
    TVM_FFI_THROW(ValueError) << name << " must be one number, got shape " << ShapeText(tensor);
  }
  return *FloatData(tensor);
}

// (boxes (b, n, 4), scores (b, c, n), most boxes of a class, overlap threshold, least score,
//  whether a box is a center and extents) → (selected, 3): batch element, class, box
ffi::Tensor NonMaxSuppression(const DLTensor* boxes, const DLTensor* scores, const DLTensor* most,
                              const DLTensor* overlap, const DLTensor* least, bool center) {
  CheckFloat32(boxes, "boxes");
  CheckFloat32(scores, "scores");
  CheckRank(boxes, 3, "boxes");
  CheckRank(scores, 3, "scores");
  CheckContiguous(boxes, "boxes");
  CheckContiguous(scores, "scores");
  const int64_t batch = scores->shape[0], classes = scores->shape[1], count = scores->shape[2];
  CheckExtent(boxes, 0, batch, "boxes");
  CheckExtent(boxes, 1, count, "boxes");
  CheckExtent(boxes, 2, 4, "boxes");
  if (NumElements(most) != 1 || most->dtype.bits != 64) {
    TVM_FFI_THROW(TypeError) << "max_output_boxes_per_class must be one int64";
  }
  const int64_t limit = *reinterpret_cast<const int64_t*>(ConstData(most));
  const float threshold = ReadFloat(overlap, "iou_threshold");
  const float least_score = ReadFloat(least, "score_threshold");
  std::vector<int64_t> selected;
  std::vector<int64_t> order;
  std::vector<Box> kept;
  for (int64_t pair = 0; pair < batch * classes; ++pair) {
    const float* score = FloatData(scores) + pair * count;
    const float* box_data = FloatData(boxes) + pair / classes * count * 4;
    order.clear();
    kept.clear();
    for (int64_t i = 0; i < count; ++i) {
      if (score[i] > least_score) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return score[a] > score[b]; });
    for (int64_t index : order) {
      if (static_cast<int64_t>(kept.size()) >= limit) break;
      const Box box = ReadBox(box_data + index * 4, center);
      const bool suppressed = std::any_of(kept.begin(), kept.end(), [&](const Box& better) {
        return Suppresses(better, box, threshold);
      });
      if (suppressed) continue;
      kept.push_back(box);
      selected.insert(selected.end(), {pair / classes, pair % classes, index});
    }
  }
  ffi::Tensor out = NewTensor({static_cast<int64_t>(selected.size()) / 3, 3}, {kDLInt, 64, 1});
  std::copy(selected.begin(), selected.end(), static_cast<int64_t*>(out.data_ptr()));
  return out;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def(
      "moonpoly.op.non_max_suppression", [](DLTensor* boxes, DLTensor* scores, DLTensor* most,
                                            DLTensor* overlap, DLTensor* least, int64_t center) {
        return NonMaxSuppression(boxes, scores, most, overlap, least, center != 0);
      });
}

}  // namespace moonpoly
