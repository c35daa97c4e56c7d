/*!
 * \file ops/parallel.h
 * \brief Sharing the iterations of a loop among the threads of TVM's pool.
 */
#ifndef MOONPOLY_OPS_PARALLEL_H_
#define MOONPOLY_OPS_PARALLEL_H_

#include <tvm/ffi/error.h>
#include <tvm/runtime/c_backend_api.h>

#include <algorithm>
#include <cstdint>

#include "launch/threads.h"

namespace moonpoly {

/*!
 * \brief Call body(begin, end) on ranges that make up 0 <= i < count, each by a thread of its own.
 *
 * \param count Iterations.
 * \param least Iterations below which a thread costs more than it gains.
 * \param body Must not throw: it runs on threads that have nobody to catch.
 */
template <typename Body>
void ParallelFor(int64_t count, int64_t least, const Body& body) {
  const int64_t useful = std::max<int64_t>(1, count / std::max<int64_t>(1, least));
  const int64_t threads = std::min<int64_t>(NumThreads(), useful);
  if (threads <= 1) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
  struct Launch {
    const Body* body;
    int64_t count;
  } launch{&body, count};
  const auto run = [](int thread, TVMParallelGroupEnv* env, void* data) -> int {
    const Launch& shared = *static_cast<const Launch*>(data);
    const int64_t begin = shared.count * thread / env->num_task;
    const int64_t end = shared.count * (thread + 1) / env->num_task;
    if (begin < end) (*shared.body)(begin, end);
    return 0;
  };
  if (TVMBackendParallelLaunch(run, &launch, static_cast<int>(threads)) != 0) {
    TVM_FFI_THROW(RuntimeError) << "can't run on " << threads << " threads";
  }
}

}  // namespace moonpoly

#endif  // MOONPOLY_OPS_PARALLEL_H_
