/*!
 * \file artifact/manifest.h
 * \brief What an artifact's manifest.json says, checked.
 */
#ifndef MOONPOLY_ARTIFACT_MANIFEST_H_
#define MOONPOLY_ARTIFACT_MANIFEST_H_

#include <tvm/ffi/string.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "artifact/cost_table.h"
#include "artifact/json_reader.h"

namespace moonpoly {

/*! \brief The manifest layout that this library reads. */
constexpr int64_t kManifestSchema = 1;
/*! \brief Rows that are a multiple of so many elements apart share one set of a cache. */
constexpr int64_t kAliasingItems = 1024;
/*! \brief Rows that start on a cache line each are a multiple of this many elements apart. */
constexpr int64_t kLineItems = 16;

/*! \brief How the reduction is vectorised, which decides the layout of B. */
enum class KernelFamily : uint8_t {
  /*! \brief Vectorised along n; B in panels of the vector length. */
  kOuter,
  /*! \brief Vectorised along k, for few columns; A and B contiguous along k. */
  kDot,
};

/*!
 * \brief How rows follow one another in memory: those of C and of a strided B, which are n elements
 * long, or for dot kernels those of A and B, which are k elements long.
 */
enum class RowKind : uint8_t {
  kPlain,
  /*! \brief A multiple of kAliasingItems apart: they fall into one set of the first cache. */
  kAliased,
  /*! \brief No multiple of kLineItems long: they start within cache lines. */
  kUnaligned,
};
constexpr size_t kNumRowKinds = 3;

inline RowKind RowKindOf(int64_t row_items) {
  if (row_items % kLineItems != 0) return RowKind::kUnaligned;
  return row_items % kAliasingItems == 0 ? RowKind::kAliased : RowKind::kPlain;
}

/*! \brief One micro-kernel as the manifest describes it. */
struct KernelSpec {
  std::string name;
  KernelFamily family;
  int32_t um;
  int32_t un;
  /*! \brief Microseconds of a task, see CostGrid: with B in packed panels, and with B strided. */
  std::array<std::vector<float>, kNumRowKinds> packed_us;
  std::array<std::vector<float>, kNumRowKinds> strided_us;
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
