/*!
 * \file artifact/gpu_kernel_set.cc
 */
#include "artifact/gpu_kernel_set.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <map>
#include <utility>

namespace moonpoly {

GpuKernelSetObj::GpuKernelSetObj(GpuManifest manifest, Images images)
    : manifest_(std::move(manifest)),
      serving_(manifest_.kernels),
      images_(std::move(images)),
      corrected_(
          std::any_of(manifest_.kernels.begin(), manifest_.kernels.end(),
                      [](const GpuKernelSpec& kernel) { return !kernel.correction.empty(); })) {
  static std::atomic<uint64_t> next_id{1};
  id_ = next_id.fetch_add(1, std::memory_order_relaxed);
  if (images_.size() == 0) return;
  for (const GpuKernelSpec& spec : manifest_.kernels) {
    if (images_.count(spec.image) == 0) {
      TVM_FFI_THROW(ValueError) << "the artifact lacks " << spec.image << ", the code of "
                                << spec.name << "; run `moonpoly export --target "
                                << manifest_.target << "`";
    }
  }
}

int32_t GpuKernelSetObj::FindKernel(const std::string& name) const {
  for (int32_t i = 0; i < num_kernels(); ++i) {
    if (kernel(i).name == name) return i;
  }
  return -1;
}

const std::vector<cuda::Function>& GpuKernelSetObj::Functions(int device,
                                                              cuda::Stream stream) const {
  const FunctionTable* table = loaded_[device].load(std::memory_order_acquire);
  if (table != nullptr) return *table;
  std::lock_guard<std::mutex> lock(mutex_);
  table = loaded_[device].load(std::memory_order_relaxed);
  if (table == nullptr) {
    tables_.push_back(Load(stream));
    table = tables_.back().get();
    loaded_[device].store(table, std::memory_order_release);
  }
  return *table;
}

std::unique_ptr<GpuKernelSetObj::FunctionTable> GpuKernelSetObj::Load(cuda::Stream stream) const {
  if (images_.size() == 0) {
    TVM_FFI_THROW(RuntimeError) << "this kernel set was made without code, to plan only";
  }
  const cuda::Driver& driver = cuda::GetDriver();
  cuda::CaptureStatus capturing = cuda::kCaptureNone;
  cuda::Check(driver.cuStreamIsCapturing(stream, &capturing), "cuStreamIsCapturing");
  if (capturing != cuda::kCaptureNone) {
    TVM_FFI_THROW(RuntimeError) << "the kernels can't be loaded while a graph is captured; call "
                                   "once before the capture";
  }
  auto table = std::make_unique<FunctionTable>();
  std::map<std::string, cuda::Module> modules;
  // What the largest of the kernels needs that a function stands behind.
  std::map<std::pair<std::string, std::string>, int32_t> most_bytes;
  for (const GpuKernelSpec& spec : manifest_.kernels) {
    int32_t& most = most_bytes[{spec.image, spec.symbol}];
    most = std::max({most, spec.shared_bytes, manifest_.machine.lone_bytes});
  }
  for (const GpuKernelSpec& spec : manifest_.kernels) {
    cuda::Module& module = modules[spec.image];
    if (module == nullptr) {
      // Modules stay loaded as long as the process: launches may be in flight at any time.
      cuda::Check(driver.cuModuleLoadData(&module, images_[spec.image].data()),
                  ("loading " + spec.image).c_str());
    }
    cuda::Function function = nullptr;
    cuda::Check(driver.cuModuleGetFunction(&function, module, spec.symbol.c_str()),
                ("finding " + spec.symbol).c_str());
    cuda::Check(driver.cuFuncSetAttribute(function, cuda::kMaxDynamicSharedBytes,
                                          most_bytes[{spec.image, spec.symbol}]),
                ("giving shared memory to " + spec.name).c_str());
    // Multiprocessors that had less of it would have to be emptied before they get more.
    cuda::Check(driver.cuFuncSetAttribute(function, cuda::kPreferredSharedPercent, 100),
                ("giving shared memory to " + spec.name).c_str());
    table->push_back(function);
  }
  return table;
}

}  // namespace moonpoly
