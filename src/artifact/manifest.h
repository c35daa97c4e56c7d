/*!
 * \file artifact/manifest.h
 * \brief What an artifact's manifest.json says, checked.
 */
#ifndef MOONPOLY_ARTIFACT_MANIFEST_H_
#define MOONPOLY_ARTIFACT_MANIFEST_H_

#include <tvm/ffi/string.h>

#include <cstdint>
#include <string>
#include <vector>

#include "artifact/cost_table.h"
#include "artifact/json_reader.h"

namespace moonpoly {

/*! \brief The manifest layout that this library reads. */
constexpr int64_t kManifestSchema = 1;
/*! \brief Rows of B that are a multiple of so many elements apart share one set of a cache. */
constexpr int64_t kAliasingItems = 1024;
/*! \brief Rows of B that start on a cache line each are a multiple of this many elements apart. */
constexpr int64_t kLineItems = 16;

/*! \brief How the reduction is vectorised, which decides the layout of B. */
enum class KernelFamily : uint8_t {
  /*! \brief Vectorised along n; B in panels of the vector length. */
  kOuter,
  /*! \brief Vectorised along k, for few columns; A and B contiguous along k. */
  kDot,
};

/*! \brief One micro-kernel as the manifest describes it. */
struct KernelSpec {
  std::string name;
  KernelFamily family;
  int32_t um;
  int32_t un;
  /*! \brief Microseconds of a task, see CostGrid: with B in packed panels, and with B strided. */
  std::vector<float> packed_us;
  std::vector<float> strided_us;
  /*! \brief The same where the rows of a strided B fall into one cache set, see kAliasingItems. */
  std::vector<float> aliased_us;
  /*! \brief The same where the rows of a strided B start within cache lines, see kLineItems. */
  std::vector<float> unaligned_us;
};

/*! \brief Measured constants of the machine that the plans are made for. */
struct MachineSpec {
  double launch_us;
  double call_us;
  double pack_us_per_kb;
  double copy_us_per_kb;
};

struct Manifest {
  std::string target;
  std::string op;
  std::string dtype;
  int32_t panel;
  int32_t num_pes;
  CostGrid grid;
  MachineSpec machine;
  std::vector<KernelSpec> kernels;

  /*! \brief Throws ValueError naming what is missing or does not fit. */
  static Manifest Parse(const tvm::ffi::String& text);
  static Manifest FromJson(const JsonReader& json);
};

}  // namespace moonpoly

#endif  // MOONPOLY_ARTIFACT_MANIFEST_H_
