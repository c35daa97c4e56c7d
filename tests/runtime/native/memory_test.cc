/*!
 * \file memory_test.cc
 * \brief Products and convolutions of awkward shapes under AddressSanitizer.
 *
 * Every operand is an allocation of its own of exactly its size. The micro-kernels are plain C++
 * that touches exactly what the calling convention allows, so that the sanitizer sees each access.
 */
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace ffi = tvm::ffi;

namespace {

struct Tile {
  bool dot;
  int64_t um, un;
};

constexpr int64_t kPanel = 16;
const Tile kTiles[] = {{false, 14, 32}, {false, 6, 64}, {false, 8, 16}, {false, 1, 32},
                       {false, 5, 48},  {true, 4, 4},   {true, 1, 1}};

std::string NameOf(const Tile& tile) {
  return std::string(tile.dot ? "dot_" : "outer_") + std::to_string(tile.um) + "x" +
         std::to_string(tile.un);
}

float* Data(const DLTensor* tensor) { return static_cast<float*>(tensor->data); }

void RunTile(const Tile& tile, const DLTensor* a, const DLTensor* b, const DLTensor* c,
             bool accumulate) {
  const int64_t m = a->shape[0], k = a->shape[1], n = c->shape[1];
  TVM_FFI_ICHECK_EQ(m % tile.um, 0);
  TVM_FFI_ICHECK_EQ(n % tile.un, 0);
  TVM_FFI_ICHECK_GE(k, 1);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float* out = Data(c) + i * c->strides[0] + j;
      float sum = accumulate ? *out : 0.0f;
      for (int64_t p = 0; p < k; ++p) {
        const float* right =
            tile.dot ? Data(b) + j * b->strides[0] + p
                     : Data(b) + j / kPanel * b->strides[0] + p * b->strides[1] + j % kPanel;
        sum += Data(a)[i * a->strides[0] + p * a->strides[1]] * *right;
      }
      *out = sum;
    }
  }
}

/*! \brief A kernel library of reference micro-kernels, and an epilogue that adds its operands. */
class ReferenceLibrary : public ffi::ModuleObj {
 public:
  const char* kind() const final { return "reference"; }
  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    for (const Tile& tile : kTiles) {
      if (NameOf(tile) != std::string(name)) continue;
      return ffi::Function::FromTyped([tile](DLTensor* a, DLTensor* b, DLTensor* c, int64_t acc) {
        RunTile(tile, a, b, c, acc != 0);
      });
    }
    if (name == "add_row_and_full") {
      return ffi::Function::FromTyped([](DLTensor* c, DLTensor* row, DLTensor* full) {
        for (int64_t i = 0; i < c->shape[0]; ++i) {
          for (int64_t j = 0; j < c->shape[1]; ++j) {
            Data(c)[i * c->strides[0] + j] += Data(row)[i] + Data(full)[i * full->strides[0] + j];
          }
        }
      });
    }
    return std::nullopt;
  }
};

std::string Manifest() {
  std::ostringstream out;
  out << R"({"schema": 1, "op": "gemm", "dtype": "float32", "panel": 16,
    "target": {"name": "reference", "num_pes": 2},
    "grid": {"k": [1, 1024], "m_tiles": [1], "n_tiles": [1]},
    "machine": {"launch_us": 0.5, "call_us": 0.03, "pack_us_per_kb": 0.02, "copy_us_per_kb": 0.02},
    "kernels": [)";
  const char* separator = "";
  for (const Tile& tile : kTiles) {
    const double us = 1e-4 * static_cast<double>(tile.um * tile.un) + 2e-3;
    std::ostringstream cost;
    cost << "[" << us << ", " << us * 500 << "]";
    out << separator << R"({"name": ")" << NameOf(tile) << R"(", "family": ")"
        << (tile.dot ? "dot" : "outer") << R"(", "um": )" << tile.um << R"(, "un": )" << tile.un
        << R"(, "cost": {"packed": )" << cost.str() << R"(, "strided": )" << cost.str() << "}}";
    separator = ", ";
  }
  out << "]}";
  return out.str();
}

/*! \brief A tensor whose memory is exactly as large as it is, so that a step outside is seen. */
struct Operand {
  explicit Operand(std::vector<int64_t> extents, std::mt19937* random = nullptr)
      : shape(std::move(extents)), strides(shape.size(), 1) {
    int64_t count = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      strides[i] = count;
      count *= shape[i];
    }
    values.reset(new float[count]);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (int64_t i = 0; i < count; ++i) values[i] = random != nullptr ? uniform(*random) : NAN;
    view = {values.get(),
            {kDLCPU, 0},
            static_cast<int32_t>(shape.size()),
            {kDLFloat, 32, 1},
            shape.data(),
            strides.data(),
            0};
  }
  Operand(const Operand&) = delete;

  std::vector<int64_t> shape, strides;
  std::unique_ptr<float[]> values;
  DLTensor view;
};

int failures = 0;

void Expect(float got, double exact, double size, const std::string& where) {
  if (std::abs(got - exact) <= 1e-5 * size + 1e-6) return;
  if (failures++ < 10) std::printf("%s: got %g, expected %g\n", where.c_str(), got, exact);
}

void CheckGemm(const ffi::Any& kernels, int64_t m, int64_t n, int64_t k, int mode, bool trans_a) {
  std::mt19937 random(static_cast<uint32_t>(m * 131 + n * 17 + k));
  const auto gemm = ffi::Function::GetGlobalRequired("moonpoly.gemm");
  const auto pack = ffi::Function::GetGlobalRequired("moonpoly.pack_b");
  Operand a(trans_a ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k}, &random);
  Operand b(mode == 2 ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n}, &random);
  Operand c({m, n});
  if (mode == 0) {
    ffi::Tensor packed = pack(&b.view, false, kPanel).cast<ffi::Tensor>();
    gemm(kernels, &a.view, packed, &c.view, 0, trans_a);
  } else {
    gemm(kernels, &a.view, &b.view, &c.view, mode, trans_a);
  }
  const std::string where = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
                            " mode " + std::to_string(mode);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double exact = 0, size = 0;
      for (int64_t p = 0; p < k; ++p) {
        const double left = a.values[trans_a ? p * m + i : i * k + p];
        const double right = b.values[mode == 2 ? j * k + p : p * n + j];
        exact += left * right;
        size += std::abs(left * right);
      }
      Expect(c.values[i * n + j], exact, size, where);
    }
  }
}

struct Conv {
  int64_t images, channels, height, width, out_channels, kernel_h, kernel_w;
  int64_t stride_h, stride_w, pad_h, pad_w, dilation, groups;
};

void CheckConv(const ffi::Module& library, const Conv& v, int64_t key) {
  std::mt19937 random(static_cast<uint32_t>(key));
  const int64_t out_h =
      (v.height + 2 * v.pad_h - v.dilation * (v.kernel_h - 1) - 1) / v.stride_h + 1;
  const int64_t out_w =
      (v.width + 2 * v.pad_w - v.dilation * (v.kernel_w - 1) - 1) / v.stride_w + 1;
  std::ostringstream site;
  site
      << R"({"schema": 1, "artifacts": {"gemm_float32": )" << Manifest()
      << R"(}, "sites": [{"id": )" << (key << 16)
      << R"(, "op": "conv2d", "artifact": "gemm_float32", "node": "conv", "strides": [)"
      << v.stride_h << ", " << v.stride_w << R"(], "pads": [)" << v.pad_h << ", " << v.pad_w << ", "
      << v.pad_h << ", " << v.pad_w << R"(], "dilations": [)" << v.dilation << ", " << v.dilation
      << R"(], "groups": )" << v.groups
      << R"(, "addend": true, "epilogue": {"function": "add_row_and_full", "operands": [{"kind": "row"},)"
      << R"( {"kind": "full"}]}}]})";
  ffi::Function::GetGlobalRequired("moonpoly.register_model")(ffi::String(site.str()), library);
  const int64_t depth = v.channels / v.groups, each = v.out_channels / v.groups;
  Operand x({v.images, v.channels, v.height, v.width}, &random);
  Operand w({v.out_channels, depth, v.kernel_h, v.kernel_w}, &random);
  Operand bias({v.out_channels, 1, 1}, &random);
  Operand residual({v.images, v.out_channels, out_h, out_w}, &random);
  Operand y({v.images, v.out_channels, out_h, out_w}, &random);
  const int64_t count = v.images * v.out_channels * out_h * out_w;
  const std::vector<float> addend(y.values.get(), y.values.get() + count);
  ffi::Function::GetGlobalRequired("moonpoly.conv2d")(key << 16, &x.view, &w.view, &bias.view,
                                                      &residual.view, &y.view, &y.view);
  int64_t at = 0;
  for (int64_t image = 0; image < v.images; ++image) {
    for (int64_t o = 0; o < v.out_channels; ++o) {
      for (int64_t p = 0; p < out_h; ++p) {
        for (int64_t q = 0; q < out_w; ++q, ++at) {
          double exact = static_cast<double>(bias.values[o]) + residual.values[at] + addend[at];
          double size = 3;
          for (int64_t c = 0; c < depth; ++c) {
            for (int64_t r = 0; r < v.kernel_h; ++r) {
              for (int64_t s = 0; s < v.kernel_w; ++s) {
                const int64_t h = p * v.stride_h - v.pad_h + r * v.dilation;
                const int64_t l = q * v.stride_w - v.pad_w + s * v.dilation;
                if (h < 0 || h >= v.height || l < 0 || l >= v.width) continue;
                const int64_t channel = o / each * depth + c;
                const double term =
                    static_cast<double>(
                        x.values[((image * v.channels + channel) * v.height + h) * v.width + l]) *
                    w.values[((o * depth + c) * v.kernel_h + r) * v.kernel_w + s];
                exact += term;
                size += std::abs(term);
              }
            }
          }
          Expect(y.values[at], exact, size, "conv " + std::to_string(key));
        }
      }
    }
  }
}

}  // namespace

int main() {
  const ffi::Module library(ffi::make_object<ReferenceLibrary>());
  const ffi::Any kernels =
      ffi::Function::GetGlobalRequired("moonpoly.KernelSet")(ffi::String(Manifest()), library);
  const int64_t shapes[][3] = {{1, 1, 1},    {1, 40, 300},  {13, 15, 17},  {14, 32, 64},
                               {15, 33, 65}, {29, 47, 5},   {40, 2, 350},  {5, 3, 1200},
                               {61, 7, 213}, {3, 401, 12},  {0, 5, 5},     {5, 0, 5},
                               {5, 5, 0},    {2, 8, 20000}, {37, 81, 1500}};
  for (const int threads : {1, 2}) {
    ffi::Function::GetGlobalRequired("moonpoly.set_num_threads")(threads);
    for (const auto& shape : shapes) {
      for (const int mode : {0, 1, 2}) {
        for (const bool trans_a : {false, true}) {
          CheckGemm(kernels, shape[0], shape[1], shape[2], mode, trans_a);
        }
      }
    }
    const Conv convs[] = {
        {1, 3, 17, 19, 9, 7, 7, 2, 2, 3, 3, 1, 1},   {2, 8, 9, 9, 20, 3, 3, 1, 1, 1, 1, 1, 1},
        {1, 16, 9, 11, 8, 1, 1, 1, 1, 0, 0, 1, 1},   {2, 6, 9, 11, 8, 1, 1, 2, 2, 0, 0, 1, 1},
        {1, 12, 13, 10, 24, 3, 2, 1, 2, 1, 0, 2, 4}, {1, 4, 20, 21, 10, 5, 5, 3, 3, 2, 2, 1, 2},
        {1, 6, 7, 7, 6, 3, 3, 1, 1, 1, 1, 1, 6},     {1, 5, 1, 60, 4, 1, 9, 1, 1, 0, 4, 1, 1},
        {3, 5, 7, 7, 18, 3, 3, 1, 1, 1, 1, 1, 1},    {4, 9, 5, 5, 11, 1, 1, 1, 1, 0, 0, 1, 1},
        {1, 3, 20, 75, 4, 9, 9, 1, 1, 4, 4, 1, 1},   {1, 4, 33, 99, 4, 3, 3, 2, 2, 1, 1, 1, 1}};
    int64_t key = 100 * threads;
    for (const Conv& conv : convs) CheckConv(library, conv, ++key);
  }
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
