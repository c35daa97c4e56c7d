/*!
 * \file conv/folded.cc
 */
#include "conv/folded.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstring>

#include "conv/gather.h"
#include "launch/scratch.h"
#include "launch/threads.h"
#include "select/plan_cache.h"

namespace moonpoly {

namespace {

// An image's part of a row this much shorter than its panels is worth folding: one in eight.
constexpr int64_t kWorthwhileShare = 8;
// Rows of an image that are copied and finished together.
constexpr int64_t kBlockRows = 64;
// Copying less than this is not worth a second thread.
constexpr int64_t kSharedFloats = 16 << 10;

/*! \brief The product of some images, to be copied to its place and finished there. */
struct Unfolding {
  const GemmCall* call;
  const float* product;
  int64_t first_image, images, rows, pixels;

  int64_t blocks() const { return CeilDiv(rows, kBlockRows); }
};

int UnfoldBlock(const Unfolding& unfolding, int64_t image, int64_t block,
                EpilogueRunner* epilogue) {
  const GemmCall& call = *unfolding.call;
  const int64_t pixels = unfolding.pixels, ld = unfolding.images * pixels;
  const int64_t begin = block * kBlockRows, end = std::min(unfolding.rows, begin + kBlockRows);
  const int64_t coordinates[] = {unfolding.first_image + image, 0};
  COperand c = call.c;
  c.data += coordinates[0] * call.batch.c[0];
  for (int64_t row = begin; row < end; ++row) {
    const float* from = unfolding.product + row * ld + image * pixels;
    float* to = c.data + row * c.ld;
    if (call.accumulate) {
      for (int64_t i = 0; i < pixels; ++i) to[i] += from[i];
    } else {
      std::memcpy(to, from, pixels * sizeof(float));
    }
  }
  if (!epilogue->active()) return 0;
  epilogue->SetBatch(coordinates, 2);
  return epilogue->Run(c, begin, end - begin, 0, pixels);
}

int Unfold(int task, TVMParallelGroupEnv* env, void* data) {
  const Unfolding& unfolding = *static_cast<const Unfolding*>(data);
  EpilogueRunner epilogue(unfolding.call->epilogue);
  const int64_t blocks = unfolding.blocks();
  const Span share = Share(unfolding.images * blocks, task, env->num_task);
  for (int64_t item = share.begin; item < share.end; ++item) {
    const int status = UnfoldBlock(unfolding, item / blocks, item % blocks, &epilogue);
    if (status != 0) return status;
  }
  return 0;
}

void UnfoldOrThrow(const Unfolding& unfolding) {
  const int64_t floats = unfolding.rows * unfolding.images * unfolding.pixels;
  const int32_t threads = floats < kSharedFloats ? 1 : NumThreads();
  auto* data = const_cast<Unfolding*>(&unfolding);
  TVMParallelGroupEnv alone{nullptr, 1};
  const int status =
      threads == 1 ? Unfold(0, &alone, data) : TVMBackendParallelLaunch(Unfold, data, threads);
  if (status != 0) throw tvm::ffi::details::MoveFromSafeCallRaised();
}

}  // namespace

bool ShouldFold(const ConvShape& shape, int64_t images, int64_t rows, int64_t panel) {
  const int64_t pixels = shape.pixels();
  const int64_t empty = CeilDiv(pixels, panel) * panel - pixels;
  return images > 1 && rows > 0 && shape.attrs.groups == 1 && empty * kWorthwhileShare > pixels &&
         2 * rows * pixels <= kMaxFoldedFloats;
}

void RunFolded(const GemmCall& call, const ConvShape& shape, int64_t images, int64_t rows) {
  const int64_t most = kMaxFoldedFloats / (rows * shape.pixels());
  for (int64_t first = 0; first < images; first += most) {
    ConvShape folded = shape;
    folded.images = std::min(most, images - first);
    folded.image_step = call.batch.b[0];
    float* product = Scratch::Get().folded();
    if (product == nullptr) {
      TVM_FFI_THROW(MemoryError) << "can't allocate scratch memory for a convolution";
    }
    GemmCall all;
    all.ks = call.ks;
    all.a = call.a;
    all.b = {call.b.data + first * folded.image_step, BMode::kGathered, call.b.ld,
             ChooseGather(folded, call.ks->panel()), &folded};
    all.c = {product, folded.columns()};
    all.epilogue = nullptr;
    all.plan = &CachedPlan(
        *call.ks, {1, rows, folded.columns(), folded.depth(), BMode::kGathered, NumThreads()});
    LaunchGemmOrThrow(all);
    UnfoldOrThrow({&call, product, first, folded.images, rows, shape.pixels()});
  }
}

}  // namespace moonpoly
