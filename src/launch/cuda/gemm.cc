/*!
 * \file launch/cuda/gemm.cc
 */
#include "launch/cuda/gemm.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <array>

#include "launch/cuda/tensor_map.h"
#include "launch/cuda/workspace.h"
#include "select/plan.h"

namespace moonpoly {

namespace {

constexpr uintptr_t kLoadBytes = 16;

void* Offset(void* data, int64_t bytes) { return static_cast<char*>(data) + bytes; }

/*! \brief A dense operand, as the kernels that load by themselves get it. */
struct Operand {
  /*! \brief At a multiple of 16 bytes, with the items that lie between it and the operand. */
  void* aligned;
  int32_t skip;
  /*! \brief Items from one index of m (or n) to the next, and from one of k to the next. */
  int64_t line, step;
  void* data;
};

Operand MakeOperand(void* data, int64_t line, int64_t step, int32_t item_bytes) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t over = address % kLoadBytes;
  return {reinterpret_cast<void*>(address - over), static_cast<int32_t>(over / item_bytes), line,
          step, data};
}

/*! \brief Everything that a kernel may ask for, under the names of GpuParam. */
struct Arguments {
  std::array<cuda::TensorMap, kMaxResidues> x_maps, y_maps;
  Operand a, b;
  void* c;
  Workspace workspace;
  int32_t m, n, k;
  int32_t ldc, vector_c;
  int32_t grid, depth, cluster, slices;
  int32_t part_steps, longer_parts;
  int32_t columns, q_groups;

  void* Find(GpuParam param) {
    if (param < GpuParam::kYMap) return &x_maps[static_cast<size_t>(param)];
    if (param < GpuParam::kA) {
      return &y_maps[static_cast<size_t>(param) - static_cast<size_t>(GpuParam::kYMap)];
    }
    switch (param) {
      case GpuParam::kA:
        return &a.aligned;
      case GpuParam::kB:
        return &b.aligned;
      case GpuParam::kC:
        return &c;
      case GpuParam::kWorkspace:
        return &workspace.sums;
      case GpuParam::kCounters:
        return &workspace.counters;
      case GpuParam::kM:
        return &m;
      case GpuParam::kN:
        return &n;
      case GpuParam::kK:
        return &k;
      case GpuParam::kLdc:
        return &ldc;
      case GpuParam::kVectorC:
        return &vector_c;
      case GpuParam::kGrid:
        return &grid;
      case GpuParam::kDepth:
        return &depth;
      case GpuParam::kCluster:
        return &cluster;
      case GpuParam::kSlices:
        return &slices;
      case GpuParam::kPartSteps:
        return &part_steps;
      case GpuParam::kLongerParts:
        return &longer_parts;
      case GpuParam::kColumns:
        return &columns;
      case GpuParam::kQGroups:
        return &q_groups;
      case GpuParam::kASkip:
        return &a.skip;
      case GpuParam::kBSkip:
        return &b.skip;
      case GpuParam::kAM:
        return &a.line;
      case GpuParam::kAK:
        return &a.step;
      case GpuParam::kBN:
        return &b.line;
      case GpuParam::kBK:
        return &b.step;
      default:
        break;
    }
    return nullptr;
  }
};

bool KContiguousInA(GpuLayout layout) { return (static_cast<int>(layout) & 2) == 0; }
bool KContiguousInB(GpuLayout layout) { return (static_cast<int>(layout) & 1) != 0; }

// Elements of a row of C that kernels may store at once: those of 16 bytes, or two, or one.
int32_t VectorOf(const void* c, int64_t ldc, int64_t cols, int32_t item_bytes) {
  const uint64_t places = reinterpret_cast<uintptr_t>(c) / item_bytes | static_cast<uint64_t>(ldc) |
                          static_cast<uint64_t>(cols);
  const int32_t widest = static_cast<int32_t>(kLoadBytes) / item_bytes;
  return places % widest == 0 ? widest : places % 2 == 0 ? 2 : 1;
}

cuda::MappedMatrix WholeMatrix(const GpuKernelSetObj& ks, const Operand& operand, int64_t lines,
                               int64_t k, int32_t box) {
  cuda::MappedMatrix matrix{};
  matrix.address = operand.data;
  matrix.inner = k;
  matrix.outer = lines;
  matrix.stride_bytes = operand.line * ks.manifest().types.item_bytes();
  matrix.box_inner = ks.manifest().types.step();
  matrix.box_outer = box;
  matrix.swizzled = true;
  matrix.type = ks.manifest().types.map;
  return matrix;
}

// Every line of a residue, from the first on and from the multiple of 16 bytes before it; each load
// fetches so much more. Where there is no such line a kernel stores nothing of what it loads.
cuda::MappedMatrix OfResidue(cuda::MappedMatrix matrix, const GpuTypes& types, int first) {
  const int residues = types.residues();
  const int64_t line = first < matrix.outer ? first : 0;
  const uintptr_t address =
      reinterpret_cast<uintptr_t>(Offset(matrix.address, line * matrix.stride_bytes));
  const uintptr_t over = address % kLoadBytes;
  matrix.address = reinterpret_cast<void*>(address - over);
  matrix.inner += static_cast<int64_t>(over) / types.item_bytes();
  matrix.outer = first < matrix.outer ? (matrix.outer - first + residues - 1) / residues : 1;
  matrix.stride_bytes *= residues;
  matrix.box_inner += types.aligned_items();
  matrix.swizzled = false;
  return matrix;
}

void FillMaps(const GpuKernelSetObj& ks, const GpuKernelSpec& kernel, Arguments* arguments) {
  const Operand& x = kernel.swapped ? arguments->b : arguments->a;
  const Operand& y = kernel.swapped ? arguments->a : arguments->b;
  const int64_t x_lines = kernel.swapped ? arguments->n : arguments->m;
  const int64_t y_lines = kernel.swapped ? arguments->m : arguments->n;
  const cuda::MappedMatrix of_x = WholeMatrix(ks, x, x_lines, arguments->k, kernel.box_x);
  const cuda::MappedMatrix of_y = WholeMatrix(ks, y, y_lines, arguments->k, kernel.box_y);
  if (kernel.loads == GpuLoads::kTma) {
    arguments->x_maps[0] = cuda::CachedTensorMap(of_x);
    arguments->y_maps[0] = cuda::CachedTensorMap(of_y);
    return;
  }
  const GpuTypes& types = ks.manifest().types;
  for (int i = 0; i < types.residues(); ++i) {
    arguments->x_maps[i] = cuda::CachedTensorMap(OfResidue(of_x, types, i));
    arguments->y_maps[i] = cuda::CachedTensorMap(OfResidue(of_y, types, i));
  }
}

void LaunchRegion(const GpuKernelSetObj& ks, const GpuMatmul& matmul, const GpuRegion& region,
                  cuda::Function function, bool overlap, cuda::Stream stream) {
  const GpuKernelSpec& kernel = ks.kernel(region.kernel);
  const GpuProblem& problem = matmul.problem;
  const bool k_in_a = KContiguousInA(problem.layout), k_in_b = KContiguousInB(problem.layout);
  const int64_t a_m = k_in_a ? matmul.lda : 1, a_k = k_in_a ? 1 : matmul.lda;
  const int64_t b_n = k_in_b ? matmul.ldb : 1, b_k = k_in_b ? 1 : matmul.ldb;
  const GpuTiling tiling = TilingOf(kernel, region.rows(), region.cols(), region.split);
  Arguments arguments;
  const int32_t item = ks.manifest().types.item_bytes();
  const int32_t output = ks.manifest().types.output_bytes();
  arguments.a = MakeOperand(Offset(matmul.a, region.m0 * a_m * item), a_m, a_k, item);
  arguments.b = MakeOperand(Offset(matmul.b, region.n0 * b_n * item), b_n, b_k, item);
  arguments.c = Offset(matmul.c, (region.m0 * matmul.ldc + region.n0) * output);
  arguments.m = static_cast<int32_t>(region.rows());
  arguments.n = static_cast<int32_t>(region.cols());
  arguments.k = static_cast<int32_t>(problem.k);
  arguments.ldc = static_cast<int32_t>(matmul.ldc);
  arguments.vector_c = VectorOf(arguments.c, matmul.ldc, region.cols(), output);
  // Blocks that make up a whole number of clusters find no tile.
  const int32_t neighbours = NeighboursOf(kernel, ks.manifest().machine, tiling, overlap);
  const int64_t blocks = CeilDiv(tiling.blocks, int64_t{neighbours}) * neighbours;
  arguments.grid = static_cast<int32_t>(blocks);
  arguments.cluster = region.split.cluster;
  arguments.columns = kernel.swapped ? kernel.um : kernel.un;
  arguments.q_groups = kernel.swapped ? tiling.bands : tiling.strips;
  arguments.slices = region.split.slices;
  const int32_t step = ks.manifest().types.step();
  const int64_t steps = (problem.k + step - 1) / step;
  const GpuDepth depth =
      DepthOf(kernel, ks.manifest().machine, tiling, region.split, steps, overlap);
  arguments.depth = depth.slots;
  arguments.part_steps = static_cast<int32_t>(steps / region.split.blocks());
  arguments.longer_parts = static_cast<int32_t>(steps % region.split.blocks());
  if (kernel.box_x > 0) FillMaps(ks, kernel, &arguments);
  arguments.workspace = {};
  if (region.split.slices > 1) {
    arguments.workspace = WorkspaceOf(kernel, region, matmul.device, stream);
  }
  std::array<void*, kMaxGpuParams> addresses;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    addresses[i] = arguments.Find(kernel.params[i]);
  }
  cuda::Launch(function, static_cast<unsigned>(blocks), static_cast<unsigned>(kernel.threads),
               static_cast<unsigned>(depth.shared_bytes),
               static_cast<unsigned>(neighbours * kernel.cluster() * region.split.cluster), overlap,
               stream, addresses.data());
}

void FillZero(const GpuMatmul& matmul, int64_t item_bytes, cuda::Stream stream) {
  cuda::Check(cuda::GetDriver().cuMemsetD2D8Async(
                  reinterpret_cast<cuda::DevicePtr>(matmul.c), matmul.ldc * item_bytes, 0,
                  matmul.problem.n * item_bytes, matmul.problem.m, stream),
              "cuMemsetD2D8Async");
}

}  // namespace

void LaunchGpuMatmul(const GpuKernelSetObj& ks, const GpuMatmul& matmul, const GpuPlan& plan,
                     cuda::Stream stream) {
  const GpuProblem& problem = matmul.problem;
  if (problem.m == 0 || problem.n == 0) return;
  cuda::UseDevice(matmul.device);
  if (problem.k == 0) {
    FillZero(matmul, ks.manifest().types.output_bytes(), stream);
    return;
  }
  const std::vector<cuda::Function>& functions = ks.Functions(matmul.device, stream);
  for (int i = 0; i < plan.num_regions; ++i) {
    const GpuRegion& region = plan.regions[i];
    LaunchRegion(ks, matmul, region, functions[region.kernel], plan.overlap, stream);
  }
}

cuda::Stream CurrentStream(int device) {
  return static_cast<cuda::Stream>(TVMFFIEnvGetStream(kDLCUDA, device));
}

}  // namespace moonpoly
