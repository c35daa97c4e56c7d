/*!
 * \file launch/cuda/graph.cc
 */
#include "launch/cuda/graph.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace moonpoly {

namespace {

// Setting so much memory keeps a GPU busy for the time that the host needs to launch a round.
constexpr size_t kDelayBytes = size_t{256} << 20;
// The least time that it takes: no GPU writes faster than this.
constexpr double kDelayUs = 40.0;

// Kept for the process: allocating it takes longer than many a measurement.
cuda::DevicePtr DelayBuffer(int device) {
  static std::mutex mutex;
  static auto& buffers = *new std::map<int, cuda::DevicePtr>;
  std::lock_guard<std::mutex> lock(mutex);
  cuda::DevicePtr& buffer = buffers[device];
  if (buffer == 0) {
    cuda::Check(cuda::GetDriver().cuMemAlloc_v2(&buffer, kDelayBytes), "memory for a delay");
  }
  return buffer;
}

/*! \brief Events for the time of a measurement. */
class Events {
 public:
  explicit Events(size_t count) : events_(count, nullptr) {
    for (cuda::Event& event : events_) {
      cuda::Check(cuda::GetDriver().cuEventCreate(&event, 0), "cuEventCreate");
    }
  }
  ~Events() {
    for (cuda::Event event : events_) {
      if (event != nullptr) cuda::GetDriver().cuEventDestroy_v2(event);
    }
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  void Record(size_t index, cuda::Stream stream) {
    cuda::Check(cuda::GetDriver().cuEventRecord(events_[index], stream), "cuEventRecord");
  }
  double MicrosBetween(size_t start, size_t end) {
    float milliseconds = 0.0f;
    cuda::Check(cuda::GetDriver().cuEventElapsedTime(&milliseconds, events_[start], events_[end]),
                "cuEventElapsedTime");
    return 1e3 * milliseconds;
  }

 private:
  std::vector<cuda::Event> events_;
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

std::vector<double> TimeLaunches(const std::vector<Enqueue>& works, int64_t calls, int64_t rounds,
                                 double host_us, int device, cuda::Stream stream) {
  cuda::UseDevice(device);
  const cuda::Driver& driver = cuda::GetDriver();
  Events events(works.size() * 2);
  const cuda::DevicePtr delay = DelayBuffer(device);
  const int64_t delays =
      1 + static_cast<int64_t>(host_us * static_cast<double>(calls + 1) / kDelayUs);
  std::vector<double> us;
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < works.size(); ++i) {
      for (int64_t j = 0; j < delays; ++j) {
        cuda::Check(driver.cuMemsetD8Async(delay, 0, kDelayBytes, stream), "a delay");
      }
      works[i](stream);
      events.Record(2 * i, stream);
      for (int64_t j = 0; j < calls; ++j) works[i](stream);
      events.Record(2 * i + 1, stream);
    }
    cuda::Check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
    for (size_t i = 0; i < works.size(); ++i) {
      us.push_back(events.MicrosBetween(2 * i, 2 * i + 1) / static_cast<double>(calls));
    }
  }
  return us;
}

std::vector<double> TimeGraphs(const std::vector<TimedGraph>& graphs, int64_t rounds,
                               cuda::Stream stream) {
  std::vector<double> us;
  if (graphs.empty()) return us;
  cuda::UseDevice(graphs[0].graph->device());
  const cuda::Driver& driver = cuda::GetDriver();
  Events events(graphs.size() * 2);
  const cuda::DevicePtr delay = DelayBuffer(graphs[0].graph->device());
  const auto run = [&](const TimedGraph& each) {
    cuda::Check(driver.cuGraphLaunch(each.graph->exec(), stream), "cuGraphLaunch");
  };
  for (int64_t round = 0; round < rounds; ++round) {
    cuda::Check(driver.cuMemsetD8Async(delay, 0, kDelayBytes, stream), "a delay");
    for (size_t i = 0; i < graphs.size(); ++i) {
      run(graphs[i]);
      events.Record(2 * i, stream);
      for (int64_t j = 0; j < graphs[i].replays; ++j) run(graphs[i]);
      events.Record(2 * i + 1, stream);
    }
    cuda::Check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
    for (size_t i = 0; i < graphs.size(); ++i) {
      us.push_back(events.MicrosBetween(2 * i, 2 * i + 1) /
                   static_cast<double>(std::max<int64_t>(graphs[i].replays, 1)));
    }
  }
  return us;
}

}  // namespace moonpoly
