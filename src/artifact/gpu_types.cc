/*!
 * \file artifact/gpu_types.cc
 */
#include "artifact/gpu_types.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <iterator>

namespace moonpoly {

namespace {

struct Named {
  const char* name;
  DLDataType type;
};

constexpr Named kOutputs[] = {{"float16", {kDLFloat, 16, 1}},
                              {"bfloat16", {kDLBfloat, 16, 1}},
                              {"float32", {kDLFloat, 32, 1}},
                              {"int32", {kDLInt, 32, 1}}};

struct ItemType {
  const char* name;
  DLDataType type;
  cuda::TensorMapType map;
  /*! \brief The usual output. */
  const char* output;
  /*! \brief Whether sums are float32, which any float type may be made of. */
  bool any_float;
};

constexpr ItemType kItems[] = {
    {"float16", {kDLFloat, 16, 1}, cuda::kMapFloat16, "float16", true},
    {"bfloat16", {kDLBfloat, 16, 1}, cuda::kMapBfloat16, "bfloat16", true},
    // Such a map rounds float32 to what the tensor cores read.
    {"tf32", {kDLFloat, 32, 1}, cuda::kMapTfloat32, "float32", false},
    {"float8_e4m3fn", {kDLFloat8_e4m3fn, 8, 1}, cuda::kMapUint8, "bfloat16", true},
    {"int8", {kDLInt, 8, 1}, cuda::kMapUint8, "int32", false}};

}  // namespace

GpuTypes ParseGpuTypes(const std::string& dtype, const std::string& output) {
  const auto* item = std::find_if(std::begin(kItems), std::end(kItems),
                                  [&](const ItemType& each) { return dtype == each.name; });
  if (item == std::end(kItems)) {
    TVM_FFI_THROW(ValueError) << "the manifest is for gemm/" << dtype
                              << ", expected float16, bfloat16, tf32, float8_e4m3fn or int8";
  }
  const std::string wanted = output.empty() ? item->output : output;
  const auto* out = std::find_if(std::begin(kOutputs), std::end(kOutputs),
                                 [&](const Named& each) { return wanted == each.name; });
  const bool possible = out != std::end(kOutputs) &&
                        (wanted == item->output || (item->any_float && out->type.code != kDLInt));
  if (!possible) {
    TVM_FFI_THROW(ValueError) << "no micro-kernel of " << dtype << " gives " << wanted;
  }
  return {item->type, out->type, item->map};
}

}  // namespace moonpoly
