/*!
 * \file artifact/gpu_names.cc
 * \brief What the manifest calls layouts, ways of loading and a kernel's arguments.
 */
#include <tvm/ffi/error.h>

#include <algorithm>
#include <iterator>

#include "artifact/gpu_manifest.h"

namespace moonpoly {

namespace {

constexpr const char* kLayoutNames[] = {"nn", "nt", "tn", "tt"};

template <typename Value>
struct Named {
  const char* name;
  Value value;
};

constexpr Named<GpuLoads> kLoads[] = {
    {"tma", GpuLoads::kTma},       {"async", GpuLoads::kAsync}, {"residue", GpuLoads::kResidue},
    {"direct", GpuLoads::kDirect}, {"gemv", GpuLoads::kGemv},   {"strided", GpuLoads::kStrided}};

constexpr Named<GpuParam> kParams[] = {{"x_map", GpuParam::kXMap},
                                       {"y_map", GpuParam::kYMap},
                                       {"a", GpuParam::kA},
                                       {"b", GpuParam::kB},
                                       {"c", GpuParam::kC},
                                       {"workspace", GpuParam::kWorkspace},
                                       {"counters", GpuParam::kCounters},
                                       {"m", GpuParam::kM},
                                       {"n", GpuParam::kN},
                                       {"k", GpuParam::kK},
                                       {"ldc", GpuParam::kLdc},
                                       {"vector_c", GpuParam::kVectorC},
                                       {"grid", GpuParam::kGrid},
                                       {"depth", GpuParam::kDepth},
                                       {"cluster", GpuParam::kCluster},
                                       {"slices", GpuParam::kSlices},
                                       {"part_steps", GpuParam::kPartSteps},
                                       {"longer_parts", GpuParam::kLongerParts},
                                       {"columns", GpuParam::kColumns},
                                       {"q_groups", GpuParam::kQGroups},
                                       {"a_skip", GpuParam::kASkip},
                                       {"b_skip", GpuParam::kBSkip},
                                       {"a_m", GpuParam::kAM},
                                       {"a_k", GpuParam::kAK},
                                       {"b_n", GpuParam::kBN},
                                       {"b_k", GpuParam::kBK}};

template <typename Value, size_t kCount>
Value Find(const Named<Value> (&known)[kCount], const std::string& name, const std::string& where) {
  for (const Named<Value>& each : known) {
    if (name == each.name) return each.value;
  }
  std::string names;
  for (const Named<Value>& each : known)
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  TVM_FFI_THROW(ValueError) << where << " must be one of " << names << ", got \"" << name << "\"";
}

}  // namespace

// "x_map" and "y_map" are followed by "x_map1" to "x_map7" where there is one for each residue.
GpuParam ParseGpuParam(const std::string& name, const std::string& where) {
  constexpr size_t kStem = 5;
  const bool numbered = name.size() == kStem + 1 && name.compare(1, 4, "_map") == 0 &&
                        name[kStem] > '0' && name[kStem] < '0' + kMaxResidues;
  const GpuParam stem = Find(kParams, numbered ? name.substr(0, kStem) : name, where);
  return static_cast<GpuParam>(static_cast<int>(stem) + (numbered ? name[kStem] - '0' : 0));
}

GpuLayout ParseGpuLayout(const std::string& text) {
  const auto* found = std::find(std::begin(kLayoutNames), std::end(kLayoutNames), text);
  if (found == std::end(kLayoutNames)) {
    TVM_FFI_THROW(ValueError) << "a layout must be nn, nt, tn or tt, got \"" << text << "\"";
  }
  return static_cast<GpuLayout>(found - std::begin(kLayoutNames));
}

const char* GpuLayoutName(GpuLayout layout) { return kLayoutNames[static_cast<int>(layout)]; }

GpuLoads ParseGpuLoads(const std::string& text, const std::string& where) {
  return Find(kLoads, text, where);
}

const char* GpuLoadsName(GpuLoads loads) { return kLoads[static_cast<int>(loads)].name; }

}  // namespace moonpoly
