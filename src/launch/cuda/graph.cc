/*!
 * \file launch/cuda/graph.cc
 */
#include "launch/cuda/graph.h"

#include <algorithm>

namespace moonpoly {

namespace {

// Setting so much memory keeps a GPU busy for the time that the host needs to launch a round.
constexpr size_t kDelayBytes = size_t{256} << 20;

/*! \brief Events and memory for the time of a measurement. */
class Scratch {
 public:
  explicit Scratch(size_t num_events) : events_(num_events, nullptr) {
    const cuda::Driver& driver = cuda::GetDriver();
    for (cuda::Event& event : events_) cuda::Check(driver.cuEventCreate(&event, 0), "an event");
    cuda::Check(driver.cuMemAlloc_v2(&delay_, kDelayBytes), "memory for a delay");
  }
  ~Scratch() {
    const cuda::Driver& driver = cuda::GetDriver();
    for (cuda::Event event : events_) {
      if (event != nullptr) driver.cuEventDestroy_v2(event);
    }
    if (delay_ != 0) driver.cuMemFree_v2(delay_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void Record(size_t index, cuda::Stream stream) {
    cuda::Check(cuda::GetDriver().cuEventRecord(events_[index], stream), "cuEventRecord");
  }
  double MicrosBetween(size_t start, size_t end) {
    float milliseconds = 0.0f;
    cuda::Check(cuda::GetDriver().cuEventElapsedTime(&milliseconds, events_[start], events_[end]),
                "cuEventElapsedTime");
    return 1e3 * milliseconds;
  }
  void Delay(cuda::Stream stream) {
    cuda::Check(cuda::GetDriver().cuMemsetD8Async(delay_, 0, kDelayBytes, stream), "a delay");
  }

 private:
  std::vector<cuda::Event> events_;
  cuda::DevicePtr delay_ = 0;
};

}  // namespace

GpuGraphObj::~GpuGraphObj() { cuda::GetDriver().cuGraphExecDestroy(exec_); }

void BeginCapture(int device, cuda::Stream stream) {
  cuda::UseDevice(device);
  cuda::Check(cuda::GetDriver().cuStreamBeginCapture_v2(stream, cuda::kCaptureThreadLocal),
              "cuStreamBeginCapture");
}

GpuGraph EndCapture(int device, cuda::Stream stream) {
  const cuda::Driver& driver = cuda::GetDriver();
  cuda::Graph graph = nullptr;
  cuda::Check(driver.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  cuda::GraphExec exec = nullptr;
  const cuda::Result result = driver.cuGraphInstantiateWithFlags(&exec, graph, 0);
  driver.cuGraphDestroy(graph);
  cuda::Check(result, "cuGraphInstantiate");
  GpuGraph out(device, exec);
  cuda::Check(driver.cuGraphUpload(exec, stream), "cuGraphUpload");
  return out;
}

std::vector<double> TimeGraphs(const std::vector<TimedGraph>& graphs, int64_t rounds,
                               cuda::Stream stream) {
  std::vector<double> us;
  if (graphs.empty()) return us;
  cuda::UseDevice(graphs[0].graph->device());
  const cuda::Driver& driver = cuda::GetDriver();
  Scratch scratch(graphs.size() * 2);
  const auto run = [&](const TimedGraph& each) {
    cuda::Check(driver.cuGraphLaunch(each.graph->exec(), stream), "cuGraphLaunch");
  };
  for (int64_t round = 0; round < rounds; ++round) {
    scratch.Delay(stream);
    for (size_t i = 0; i < graphs.size(); ++i) {
      run(graphs[i]);
      scratch.Record(2 * i, stream);
      for (int64_t j = 0; j < graphs[i].replays; ++j) run(graphs[i]);
      scratch.Record(2 * i + 1, stream);
    }
    cuda::Check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
    for (size_t i = 0; i < graphs.size(); ++i) {
      us.push_back(scratch.MicrosBetween(2 * i, 2 * i + 1) /
                   static_cast<double>(std::max<int64_t>(graphs[i].replays, 1)));
    }
  }
  return us;
}

}  // namespace moonpoly
