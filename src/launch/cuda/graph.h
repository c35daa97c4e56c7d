/*!
 * \file launch/cuda/graph.h
 * \brief Captured graphs, and timing them one after the other on the GPU's own clock.
 */
#ifndef MOONPOLY_LAUNCH_CUDA_GRAPH_H_
#define MOONPOLY_LAUNCH_CUDA_GRAPH_H_

#include <tvm/ffi/memory.h>
#include <tvm/ffi/object.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "cuda/driver.h"

namespace moonpoly {

/*! \brief An executable graph of what was enqueued on a stream. */
class GpuGraphObj : public tvm::ffi::Object {
 public:
  GpuGraphObj(int device, cuda::GraphExec exec) : device_(device), exec_(exec) {}
  ~GpuGraphObj();
  GpuGraphObj(const GpuGraphObj&) = delete;
  GpuGraphObj& operator=(const GpuGraphObj&) = delete;

  int device() const { return device_; }
  cuda::GraphExec exec() const { return exec_; }

  static constexpr bool _type_mutable = false;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("moonpoly.GpuGraph", GpuGraphObj, tvm::ffi::Object);

 private:
  int device_;
  cuda::GraphExec exec_;
};

class GpuGraph : public tvm::ffi::ObjectRef {
 public:
  GpuGraph(int device, cuda::GraphExec exec)
      : GpuGraph(tvm::ffi::make_object<GpuGraphObj>(device, exec)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(GpuGraph, tvm::ffi::ObjectRef, GpuGraphObj);
  explicit GpuGraph(tvm::ffi::ObjectPtr<GpuGraphObj> n) : tvm::ffi::ObjectRef(std::move(n)) {}
};

/*! \brief Record what this thread enqueues on the stream from here on, instead of running it. */
void BeginCapture(int device, cuda::Stream stream);
/*! \brief End the record. */
GpuGraph EndCapture(int device, cuda::Stream stream);

/*! \brief A graph, and how many times it runs in one sample. */
struct TimedGraph {
  GpuGraph graph;
  int64_t replays;
};

/*! \brief Something to enqueue on a stream. */
using Enqueue = std::function<void(cuda::Stream)>;

/*!
 * \brief Microseconds of each piece of work, [rounds][works], launched one by one.
 *
 * For a first look at many: no graph is made. Each piece is enqueued once untimed and then `calls`
 * times, behind a delay that the host needs less than `host_us` per call to fill.
 */
std::vector<double> TimeLaunches(const std::vector<Enqueue>& works, int64_t calls, int64_t rounds,
                                 double host_us, int device, cuda::Stream stream);

/*!
 * \brief Microseconds of one run of each graph, [rounds][graphs].
 *
 * In every round the graphs take turns, each preceded by an untimed run of its own. The GPU is kept
 * busy until the round is enqueued, so that the host's time to launch is not measured.
 */
std::vector<double> TimeGraphs(const std::vector<TimedGraph>& graphs, int64_t rounds,
                               cuda::Stream stream);

}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_CUDA_GRAPH_H_
