/*!
 * \file select/region_json.h
 * \brief What the regions of every kind of plan have in common as JSON.
 */
#ifndef MOONPOLY_SELECT_REGION_JSON_H_
#define MOONPOLY_SELECT_REGION_JSON_H_

#include <tvm/ffi/error.h>

#include <string>

#include "artifact/json_reader.h"

namespace moonpoly {

/*! \brief Write the rows and columns that a region covers. */
template <typename AnyRegion>
void BoundsToJson(const AnyRegion& region, tvm::ffi::json::Object* out) {
  out->Set(tvm::ffi::String("m0"), region.m0);
  out->Set(tvm::ffi::String("m1"), region.m1);
  out->Set(tvm::ffi::String("n0"), region.n0);
  out->Set(tvm::ffi::String("n1"), region.n1);
}

/*! \brief Read a region's rows, columns and kernel. Throws ValueError if `ks` lacks the kernel. */
template <typename AnyRegion, typename AnyKernelSet>
AnyRegion BoundsAndKernelFromJson(const AnyKernelSet& ks, const JsonReader& json) {
  AnyRegion region;
  region.m0 = json.GetInt("m0");
  region.m1 = json.GetInt("m1");
  region.n0 = json.GetInt("n0");
  region.n1 = json.GetInt("n1");
  const std::string name = json.GetString("kernel");
  region.kernel = ks.FindKernel(name);
  if (region.kernel < 0) {
    TVM_FFI_THROW(ValueError) << json.where() << " names the kernel " << name
                              << ", which this kernel set lacks";
  }
  return region;
}

}  // namespace moonpoly

#endif  // MOONPOLY_SELECT_REGION_JSON_H_
