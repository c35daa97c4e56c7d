/*!
 * \file model/sites.cc
 */
#include "model/sites.h"

#include <tvm/ffi/error.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "artifact/json_reader.h"
#include "artifact/micro_kernel.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

constexpr int64_t kMetadataSchema = 1;
constexpr int kIndexBits = 16;
constexpr int64_t kMaxSites = int64_t{1} << kIndexBits;

/*! \brief A registered model; lives as long as the process, as its code does. */
struct Model {
  int64_t key;  // the high bits of its site ids
  std::vector<KernelSet> kernel_sets;
  std::vector<ffi::Function> epilogues;
  std::vector<Site> sites;
};

/*!
 * \brief Open-addressed table of models, replaced as a whole when it grows: readers never wait.
 */
struct Table {
  explicit Table(size_t capacity) : mask(capacity - 1), slots(capacity) {}

  const Model* Find(int64_t key) const {
    for (size_t i = static_cast<size_t>(key);; ++i) {
      const Model* model = slots[i & mask].load(std::memory_order_acquire);
      if (model == nullptr || model->key == key) return model;
    }
  }
  void Insert(const Model* model) {
    size_t i = static_cast<size_t>(model->key);
    while (slots[i & mask].load(std::memory_order_relaxed) != nullptr) ++i;
    slots[i & mask].store(model, std::memory_order_release);
  }

  size_t mask;
  std::vector<std::atomic<const Model*>> slots;
};

/*! \brief Owns all models and tables. Old tables are kept: a reader may still look into one. */
struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<Model>> models;
  std::vector<std::unique_ptr<Table>> tables;
  std::atomic<const Table*> current{nullptr};

  static Registry& Get() {
    static Registry& registry = *new Registry;
    return registry;
  }

  void Add(std::unique_ptr<Model> model) {
    models.push_back(std::move(model));
    if (tables.empty() || models.size() * 2 > tables.back()->slots.size()) {
      tables.push_back(
          std::make_unique<Table>(tables.empty() ? 16 : tables.back()->slots.size() * 4));
      for (const std::unique_ptr<Model>& each : models) tables.back()->Insert(each.get());
      current.store(tables.back().get(), std::memory_order_release);
    } else {
      tables.back()->Insert(models.back().get());
    }
  }
};

OperandKind ParseKind(const std::string& kind, const std::string& where) {
  if (kind == "col") return OperandKind::kCol;
  if (kind == "row") return OperandKind::kRow;
  if (kind == "full") return OperandKind::kFull;
  if (kind == "scalar") return OperandKind::kScalar;
  TVM_FFI_THROW(ValueError) << where << ".kind must be col, row, full or scalar, got " << kind;
}

BMode ParseBMode(const std::string& mode, const std::string& where) {
  if (mode == "packed") return BMode::kPacked;
  if (mode == "row") return BMode::kRowMajor;
  if (mode == "transposed") return BMode::kTransposed;
  TVM_FFI_THROW(ValueError) << where << ".b must be packed, row or transposed, got " << mode;
}

void ParseEpilogue(const JsonReader& json, const ffi::Module& lib, Model* model,
                   EpilogueSpec* out) {
  model->epilogues.push_back(ResolveFunction(lib, json.GetString("function")));
  auto* cell = const_cast<ffi::FunctionObj*>(
      static_cast<const ffi::FunctionObj*>(model->epilogues.back().get()));
  out->safe_call = cell->safe_call;
  out->handle = cell;
  for (const JsonReader& operand : json.GetObjects("operands")) {
    if (out->num_operands == kMaxEpilogueOperands) {
      TVM_FFI_THROW(ValueError) << json.where() << " has more than " << kMaxEpilogueOperands
                                << " operands";
    }
    out->kinds[out->num_operands++] = ParseKind(operand.GetString("kind"), operand.where());
  }
}

AxisOrder ParseAxes(const JsonReader& json, const char* key) {
  AxisOrder order;
  if (!json.Has(key)) return order;
  const std::vector<int64_t> axes = json.GetInts(key);
  uint64_t seen = 0;
  for (int64_t axis : axes) {
    if (0 <= axis && axis < static_cast<int64_t>(axes.size())) seen |= uint64_t{1} << axis;
  }
  constexpr size_t kMost = sizeof(order.axes) / sizeof(order.axes[0]);
  if (axes.empty() || axes.size() > kMost || seen != (uint64_t{1} << axes.size()) - 1) {
    TVM_FFI_THROW(ValueError) << json.where() << "." << key << " must be a permutation of at most "
                              << kMost << " axes";
  }
  order.ndim = static_cast<int32_t>(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) order.axes[i] = static_cast<int32_t>(axes[i]);
  return order;
}

ConvAttrs ParseConv(const JsonReader& json) {
  const std::vector<int64_t> strides = json.GetInts("strides"), pads = json.GetInts("pads"),
                             dilations = json.GetInts("dilations");
  ConvAttrs attrs;
  attrs.groups = json.GetInt("groups");
  bool valid =
      strides.size() == 2 && pads.size() == 4 && dilations.size() == 2 && attrs.groups >= 1;
  for (int64_t each : strides) valid = valid && each >= 1;
  for (int64_t each : dilations) valid = valid && each >= 1;
  for (int64_t each : pads) valid = valid && each >= 0;
  if (!valid) {
    TVM_FFI_THROW(ValueError) << json.where()
                              << " must have 2 positive strides, 4 pads of 0 or more (top, left, "
                                 "bottom, right), 2 positive dilations and positive groups";
  }
  attrs.stride_h = strides[0];
  attrs.stride_w = strides[1];
  attrs.pad_top = pads[0];
  attrs.pad_left = pads[1];
  attrs.pad_bottom = pads[2];
  attrs.pad_right = pads[3];
  attrs.dilation_h = dilations[0];
  attrs.dilation_w = dilations[1];
  return attrs;
}

Site ParseSite(const JsonReader& json, const ffi::Module& lib,
               const std::map<std::string, const KernelSetObj*>& kernel_sets, Model* model) {
  Site site{};
  site.node = json.GetString("node");
  site.n = -1;
  const std::string artifact = json.GetString("artifact");
  const auto found = kernel_sets.find(artifact);
  if (found == kernel_sets.end()) {
    TVM_FFI_THROW(ValueError) << json.where() << " uses the artifact " << artifact
                              << ", which the model lacks";
  }
  site.kernels = found->second;
  const std::string op = json.GetString("op");
  if (op == "matmul") {
    site.op = Site::Op::kMatmul;
    site.layout.trans_a = json.GetBool("trans_a");
    site.layout.b_mode = ParseBMode(json.GetString("b"), json.where());
    if (json.Has("n")) site.n = json.GetInt("n");
    site.a_order = ParseAxes(json, "a_axes");
    site.b_order = ParseAxes(json, "b_axes");
    site.c_order = ParseAxes(json, "c_axes");
  } else if (op == "conv2d") {
    site.op = Site::Op::kConv2d;
    site.conv = ParseConv(json);
    site.has_addend = json.Has("addend") && json.GetBool("addend");
  } else {
    TVM_FFI_THROW(ValueError) << json.where() << ".op must be matmul or conv2d, got " << op;
  }
  if (json.Has("epilogue")) ParseEpilogue(json.GetObject("epilogue"), lib, model, &site.epilogue);
  return site;
}

}  // namespace

void RegisterModel(const ffi::String& metadata, const ffi::Module& lib) {
  const JsonReader json = JsonReader::Parse(metadata, "model");
  const int64_t schema = json.GetInt("schema");
  if (schema != kMetadataSchema) {
    TVM_FFI_THROW(ValueError) << "the model has schema " << schema << ", this library reads schema "
                              << kMetadataSchema << "; compile the model again";
  }
  auto model = std::make_unique<Model>();
  std::map<std::string, const KernelSetObj*> kernel_sets;
  const std::vector<JsonReader> sites = json.GetObjects("sites");
  if (sites.empty()) return;
  model->key = sites.front().GetInt("id") >> kIndexBits;

  Registry& registry = Registry::Get();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const Table* table = registry.current.load(std::memory_order_acquire);
  if (table != nullptr && table->Find(model->key) != nullptr) return;

  const JsonReader artifacts = json.GetObject("artifacts");
  for (const std::string& name : artifacts.Keys()) {
    model->kernel_sets.emplace_back(Manifest::FromJson(artifacts.GetObject(name.c_str())), lib);
    kernel_sets[name] = model->kernel_sets.back().get();
  }
  for (const JsonReader& entry : sites) {
    const int64_t id = entry.GetInt("id"), index = id & (kMaxSites - 1);
    if (id >> kIndexBits != model->key || index != static_cast<int64_t>(model->sites.size())) {
      TVM_FFI_THROW(ValueError) << entry.where() << ".id is " << id << ", expected "
                                << ((model->key << kIndexBits) | model->sites.size());
    }
    model->sites.push_back(ParseSite(entry, lib, kernel_sets, model.get()));
  }
  registry.Add(std::move(model));
}

const Site& FindSite(int64_t id) {
  const Table* table = Registry::Get().current.load(std::memory_order_acquire);
  const Model* model = table == nullptr ? nullptr : table->Find(id >> kIndexBits);
  const size_t index = static_cast<size_t>(id & (kMaxSites - 1));
  if (model == nullptr || index >= model->sites.size()) {
    TVM_FFI_THROW(ValueError) << "unknown call site " << id
                              << "; register the model's metadata before running it";
  }
  return model->sites[index];
}

}  // namespace moonpoly
