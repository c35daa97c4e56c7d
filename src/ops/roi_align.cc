/*!
 * \file ops/roi_align.cc
 * \brief ONNX's RoiAlign: how many samples a cell is made of depends on the region.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "launch/tensor_check.h"
#include "ops/parallel.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

// A cell with more samples along an axis is larger than any image.
constexpr float kMostSamples = 4096.0f;

/*! \brief Four pixels around a point, with their shares of it. */
struct Sample {
  std::array<int64_t, 4> place{};
  std::array<float, 4> weight{};
};

/*! \brief Where the cells of a region lie, and how many samples each is made of. */
struct Region {
  float left, top, cell_x, cell_y;
  int64_t rows, columns;
};

// The pixels below and above a coordinate, and how far it is from the first.
struct Neighbours {
  int64_t low, high;
  float above;
};

Neighbours FindNeighbours(float at, int64_t extent) {
  at = std::max(at, 0.0f);
  const auto low = static_cast<int64_t>(at);
  if (low >= extent - 1) return {extent - 1, extent - 1, 0.0f};
  return {low, low + 1, at - static_cast<float>(low)};
}

Sample SampleAt(float y, float x, int64_t height, int64_t width) {
  Sample sample;
  // A point beyond the image is zero.
  const bool inside =
      y >= -1.0f && y <= static_cast<float>(height) && x >= -1.0f && x <= static_cast<float>(width);
  if (!inside || height == 0 || width == 0) return sample;
  const Neighbours v = FindNeighbours(y, height), h = FindNeighbours(x, width);
  sample.place = {v.low * width + h.low, v.low * width + h.high, v.high * width + h.low,
                  v.high * width + h.high};
  sample.weight = {(1 - v.above) * (1 - h.above), (1 - v.above) * h.above, v.above * (1 - h.above),
                   v.above * h.above};
  return sample;
}

struct Options {
  int64_t out_height, out_width, ratio;
  float scale;
  bool is_max, half_pixel;
};

Region RegionOf(const float* roi, const Options& options) {
  const float shift = options.half_pixel ? 0.5f : 0.0f;
  const float left = roi[0] * options.scale - shift, top = roi[1] * options.scale - shift;
  float extent_x = roi[2] * options.scale - shift - left;
  float extent_y = roi[3] * options.scale - shift - top;
  if (!options.half_pixel) {
    extent_x = std::max(extent_x, 1.0f);
    extent_y = std::max(extent_y, 1.0f);
  }
  const float cell_x = extent_x / static_cast<float>(options.out_width);
  const float cell_y = extent_y / static_cast<float>(options.out_height);
  if (!(std::fabs(cell_x) <= kMostSamples) || !(std::fabs(cell_y) <= kMostSamples)) {
    TVM_FFI_THROW(ValueError) << "a region of " << extent_x << " by " << extent_y
                              << " pixels is no part of an image";
  }
  const auto count = [&](float cell) {
    const int64_t adaptive = std::max<int64_t>(0, static_cast<int64_t>(std::ceil(cell)));
    return options.ratio > 0 ? options.ratio : adaptive;
  };
  return {left, top, cell_x, cell_y, count(cell_y), count(cell_x)};
}

// The samples of all cells, row by row.
std::vector<Sample> SamplesOf(const Region& region, int64_t height, int64_t width,
                              const Options& options) {
  std::vector<Sample> samples;
  samples.reserve(options.out_height * options.out_width * region.rows * region.columns);
  const float step_y = region.cell_y / static_cast<float>(region.rows);
  const float step_x = region.cell_x / static_cast<float>(region.columns);
  for (int64_t i = 0; i < options.out_height; ++i) {
    for (int64_t j = 0; j < options.out_width; ++j) {
      const float top = region.top + static_cast<float>(i) * region.cell_y;
      const float left = region.left + static_cast<float>(j) * region.cell_x;
      for (int64_t r = 0; r < region.rows; ++r) {
        const float y = top + (static_cast<float>(r) + 0.5f) * step_y;
        for (int64_t c = 0; c < region.columns; ++c) {
          const float x = left + (static_cast<float>(c) + 0.5f) * step_x;
          samples.push_back(SampleAt(y, x, height, width));
        }
      }
    }
  }
  return samples;
}

float Average(const float* image, const Sample* samples, int64_t count) {
  float total = 0.0f;
  for (int64_t s = 0; s < count; ++s) {
    for (int k = 0; k < 4; ++k) total += samples[s].weight[k] * image[samples[s].place[k]];
  }
  return total / static_cast<float>(std::max<int64_t>(count, 1));
}

// The largest share of any pixel, as the standard and ONNX Runtime have it, not of any sample.
float Largest(const float* image, const Sample* samples, int64_t count) {
  float largest = count == 0 ? 0.0f : samples[0].weight[0] * image[samples[0].place[0]];
  for (int64_t s = 0; s < count; ++s) {
    for (int k = 0; k < 4; ++k) {
      largest = std::max(largest, samples[s].weight[k] * image[samples[s].place[k]]);
    }
  }
  return largest;
}

// (x (n, c, h, w), rois (r, 4), the image of each) → (r, c, out_height, out_width)
ffi::Tensor RoiAlign(const DLTensor* x, const DLTensor* rois, const DLTensor* images,
                     const Options& options) {
  CheckFloat32(x, "X");
  CheckFloat32(rois, "rois");
  CheckRank(x, 4, "X");
  CheckRank(rois, 2, "rois");
  CheckRank(images, 1, "batch_indices");
  CheckContiguous(x, "X");
  CheckContiguous(rois, "rois");
  const auto* image_of = Elements<int64_t>(images, "batch_indices");
  CheckExtent(rois, 1, 4, "rois");
  const int64_t count = rois->shape[0], channels = x->shape[1];
  const int64_t height = x->shape[2], width = x->shape[3];
  CheckExtent(images, 0, count, "batch_indices");
  std::vector<Region> regions;
  for (int64_t r = 0; r < count; ++r) {
    if (image_of[r] < 0 || image_of[r] >= x->shape[0]) {
      TVM_FFI_THROW(ValueError) << "batch_indices[" << r << "] is " << image_of[r]
                                << ", expected one of " << x->shape[0] << " images";
    }
    regions.push_back(RegionOf(FloatData(rois) + r * 4, options));
  }
  ffi::Tensor out = NewTensor({count, channels, options.out_height, options.out_width}, x->dtype);
  const int64_t cells = options.out_height * options.out_width;
  auto* to = static_cast<float*>(out.data_ptr());
  ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const std::vector<Sample> all = SamplesOf(regions[r], height, width, options);
      const int64_t per_cell = regions[r].rows * regions[r].columns;
      for (int64_t c = 0; c < channels; ++c) {
        const float* image = FloatData(x) + (image_of[r] * channels + c) * height * width;
        float* cell = to + (r * channels + c) * cells;
        for (int64_t i = 0; i < cells; ++i) {
          const Sample* samples = all.data() + i * per_cell;
          // An empty image has no pixel to read.
          cell[i] = height * width == 0 ? 0.0f
                    : options.is_max    ? Largest(image, samples, per_cell)
                                        : Average(image, samples, per_cell);
        }
      }
    }
  });
  return out;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def(
      "moonpoly.op.roi_align",
      [](DLTensor* x, DLTensor* rois, DLTensor* images, int64_t height, int64_t width,
         int64_t ratio, double scale, int64_t is_max, int64_t half_pixel) {
        return RoiAlign(
            x, rois, images,
            {height, width, ratio, static_cast<float>(scale), is_max != 0, half_pixel != 0});
      });
}

}  // namespace moonpoly
