// A CUDA driver without a GPU: device memory is the host's, and a launch computes what the blocks
// of a tiled matrix product would, one by one. It checks what a real driver checks of tensor maps.
//
// An image is text: "um un box_x box_y swapped cluster_p cluster_q split dtype out_dtype". The
// kernels and what they take: "tma" (x_map, y_map), "async" and "direct" (a, a_skip, a_m, b,
// b_skip, b_n), "residue" (maps of each, as many as 16 bytes have items and at most 8, a_skip, a_m,
// b_skip, b_n), "strided" and "gemv" (a, a_skip, a_m, a_k, b, b_skip, b_n, b_k); then all of them
// (c, m, n, k, ldc, vector_c, grid), and those with "split" (workspace, counters, cluster, slices),
// but "gemv" of many items (cluster). "columns" is like "tma", but for (columns, q_groups) at the
// very end: how wide its tiles are along y, at most as its image says, and how many clusters lie
// there.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kInvalidValue = 1, kNotReady = 600;

struct Map {
  void* address;
  uint64_t inner, outer, stride_bytes;
  uint32_t box_inner, box_outer;
  int type, swizzle;
};

struct Attribute {
  int id, pad;
  unsigned value[16];
};

struct Config {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  Attribute* attributes;
  unsigned num_attributes;
};

std::string log_text;
bool capturing = false;
int num_maps = 0;

float OfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

float FromHalf(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) / 16777216.0f;
    return sign != 0 ? -value : value;
  }
  return OfBits(sign | (exponent + 112) << 23 | mantissa << 13);
}

// Round to nearest even; values of the tests stay within half's range.
uint16_t ToHalf(float value) {
  const uint32_t bits = BitsOf(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const float magnitude = value < 0 ? -value : value;
  if (magnitude < 6.103515625e-5f) {
    const float scaled = magnitude * 16777216.0f;
    uint32_t whole = static_cast<uint32_t>(scaled);
    const float rest = scaled - static_cast<float>(whole);
    whole += rest > 0.5f || (rest == 0.5f && (whole & 1) != 0);
    return static_cast<uint16_t>(sign | whole);
  }
  const uint32_t rounded = (bits & 0x7fffffffu) + 0xfffu + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

uint16_t ToBfloat(float value) {
  const uint32_t bits = BitsOf(value);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

float FromE4m3(uint8_t byte) {
  const int exponent = byte >> 3 & 15;
  const float mantissa = static_cast<float>((byte & 7) + (exponent > 0 ? 8 : 0));
  const float value =
      mantissa * OfBits(static_cast<uint32_t>((exponent > 0 ? exponent : 1) + 117) << 23);
  return (byte & 0x80) != 0 ? -value : value;
}

/*! An element type: its bytes, and the number that tensor maps give it. */
struct Type {
  const char* name;
  int bytes, map;
};

constexpr Type kTypes[] = {{"float16", 2, 6},       {"bfloat16", 2, 9}, {"tf32", 4, 11},
                           {"float8_e4m3fn", 1, 0}, {"int8", 1, 0},     {"float32", 4, 7},
                           {"int32", 4, 3}};

const Type* FindType(const std::string& name) {
  for (const Type& each : kTypes) {
    if (name == each.name) return &each;
  }
  return nullptr;
}

// Every value of every type is a double.
double Get(const Type& type, const void* base, int64_t index) {
  const std::string name = type.name;
  const char* at = static_cast<const char*>(base) + index * type.bytes;
  uint32_t bits = 0;
  std::memcpy(&bits, at, type.bytes);
  if (name == "float16") return FromHalf(static_cast<uint16_t>(bits));
  if (name == "bfloat16") return OfBits(bits << 16);
  if (name == "tf32") return OfBits((bits + 0x1000u) & 0xffffe000u);
  if (name == "float8_e4m3fn") return FromE4m3(static_cast<uint8_t>(bits));
  if (name == "int8") return static_cast<int8_t>(bits);
  if (name == "int32") return static_cast<int32_t>(bits);
  return OfBits(bits);
}

void Put(const Type& type, void* base, int64_t index, double value) {
  const std::string name = type.name;
  const float rounded = static_cast<float>(value);
  uint32_t bits = BitsOf(rounded);
  if (name == "float16") bits = ToHalf(rounded);
  if (name == "bfloat16") bits = ToBfloat(rounded);
  if (name == "int32") bits = static_cast<uint32_t>(static_cast<int64_t>(value));
  std::memcpy(static_cast<char*>(base) + index * type.bytes, &bits, type.bytes);
}

struct Kernel {
  std::string symbol;
  int um, un, box_x, box_y, swapped, cluster_p, cluster_q, split;
  const Type *item = nullptr, *output = nullptr;
  int shared_bytes = 0;

  bool ByMap() const { return symbol == "tma" || symbol == "columns"; }
  bool LoadsItems() const { return !ByMap() && symbol != "residue"; }
  // Takes the columns of a launch's tiles; whether they and the clusters along them are possible.
  bool TakeColumns(int columns, int q_groups, int m, int n) {
    int& widest = swapped != 0 ? um : un;
    if (columns < 8 || columns > widest) return false;
    widest = columns;
    box_y = columns / cluster_p;
    const int extent = swapped != 0 ? m : n, group = columns * cluster_q;
    return q_groups == (extent + group - 1) / group;
  }
  bool TakesRows() const { return symbol == "async" || symbol == "direct"; }
  bool AddsUpInClustersOnly() const { return symbol == "gemv" && um * un > 8; }
  int Step() const { return 128 / item->bytes; }
  int Residues() const { return symbol == "residue" ? std::min(8, 16 / item->bytes) : 1; }
  // Rows that start anywhere are read from a multiple of 16 bytes to one.
  int BoxItems() const { return Step() + (symbol == "residue" ? 16 / item->bytes : 0); }
  // Sums of integers are integers.
  const Type& Sum() const {
    return *FindType(std::string(item->name) == "int8" ? "int32" : "float32");
  }
};

double Load(const Type& type, const Map& map, int64_t outer, int64_t inner) {
  if (outer >= static_cast<int64_t>(map.outer) || inner >= static_cast<int64_t>(map.inner))
    return 0;
  const char* row = static_cast<const char*>(map.address) + outer * map.stride_bytes;
  return Get(type, row, inner);
}

// An operand as a kernel sees it: element (line, k), zero outside.
struct Operand {
  std::vector<Map> maps;
  const Type* type = nullptr;
  const void* items = nullptr;
  int64_t lines = 0, depth = 0, skip = 0, line = 0, step = 0;

  double At(int64_t i, int64_t k) const {
    if (maps.size() == 1) return Load(*type, maps[0], i, k);
    if (!maps.empty()) {
      const int64_t count = static_cast<int64_t>(maps.size()), first = i % count;
      const int64_t start = (skip + first * line) & (16 / type->bytes - 1);
      return Load(*type, maps[first], i / count, k + start);
    }
    return i < lines && k < depth ? Get(*type, items, skip + i * line + k * step) : 0.0;
  }
};

struct Call {
  Operand x, y;
  void* c;
  int m, n, k, ldc, vector_c, grid, cluster = 1, slices = 1, columns = 0, q_groups = 0;
  void* workspace = nullptr;
  int* counters = nullptr;
};

/*! Reads arguments in their order. */
class Reader {
 public:
  explicit Reader(void** arguments) : arguments_(arguments) {}
  template <typename T>
  T Next() {
    T value;
    std::memcpy(&value, *arguments_++, sizeof(value));
    return value;
  }

 private:
  void** arguments_;
};

Call ReadCall(const Kernel& kernel, void** arguments) {
  Reader reader(arguments);
  Call call{};
  Operand a, b;
  if (kernel.LoadsItems()) {
    for (Operand* each : {&a, &b}) {
      each->items = reader.Next<const void*>();
      each->skip = reader.Next<int>();
      each->line = reader.Next<int64_t>();
      each->step = kernel.TakesRows() ? 1 : reader.Next<int64_t>();
    }
  } else {
    for (Operand* each : {&call.x, &call.y}) {
      for (int i = 0; i < kernel.Residues(); ++i) each->maps.push_back(reader.Next<Map>());
    }
  }
  if (kernel.symbol == "residue") {
    for (Operand* each : {&a, &b}) {
      each->skip = reader.Next<int>();
      each->line = reader.Next<int64_t>();
    }
    for (Operand* each : {&call.x, &call.y}) {
      const Operand& from = (each == &call.x) == (kernel.swapped != 0) ? b : a;
      each->skip = from.skip;
      each->line = from.line;
    }
  }
  call.c = reader.Next<void*>();
  call.m = reader.Next<int>();
  call.n = reader.Next<int>();
  call.k = reader.Next<int>();
  call.ldc = reader.Next<int>();
  call.vector_c = reader.Next<int>();
  call.grid = reader.Next<int>();
  if (kernel.split != 0 && kernel.AddsUpInClustersOnly()) {
    call.cluster = reader.Next<int>();
  } else if (kernel.split != 0) {
    call.workspace = reader.Next<void*>();
    call.counters = reader.Next<int*>();
    call.cluster = reader.Next<int>();
    call.slices = reader.Next<int>();
  }
  if (kernel.symbol == "columns") {
    call.columns = reader.Next<int>();
    call.q_groups = reader.Next<int>();
  }
  if (kernel.LoadsItems()) {
    a.lines = call.m;
    b.lines = call.n;
    a.depth = b.depth = call.k;
    call.x = kernel.swapped != 0 ? b : a;
    call.y = kernel.swapped != 0 ? a : b;
  }
  call.x.type = call.y.type = kernel.item;
  return call;
}

// The slice's part of a tile; the last slice to come adds up what all left in the workspace.
void ComputeTile(const Kernel& kernel, const Call& call, int64_t tile, int64_t m0, int64_t n0,
                 int slice) {
  const int64_t depth = kernel.Step(), steps = (call.k + depth - 1) / depth;
  const int64_t first = slice * steps / call.slices * depth;
  const int64_t last = std::min<int64_t>(call.k, (slice + 1) * steps / call.slices * depth);
  const int64_t tiles = call.grid / (call.cluster * call.slices);
  const Type& part = kernel.Sum();
  for (int64_t i = 0; i < kernel.um; ++i) {
    for (int64_t j = 0; j < kernel.un; ++j) {
      const int64_t x = kernel.swapped != 0 ? n0 + j : m0 + i;
      const int64_t y = kernel.swapped != 0 ? m0 + i : n0 + j;
      double sum = 0;
      // What lies outside is stored nowhere.
      const bool inside = m0 + i < call.m && n0 + j < call.n;
      for (int64_t k = first; inside && k < last; ++k) sum += call.x.At(x, k) * call.y.At(y, k);
      if (call.slices > 1) {
        const int64_t place = i * kernel.un + j, area = int64_t{kernel.um} * kernel.un;
        Put(part, call.workspace, (slice * tiles + tile) * area + place, sum);
        if (call.counters[tile * call.cluster] != call.slices - 1) continue;
        sum = 0;
        for (int s = 0; s < call.slices; ++s) {
          sum += Get(part, call.workspace, (s * tiles + tile) * area + place);
        }
      }
      if (inside) {
        Put(*kernel.output, call.c, (m0 + i) * call.ldc + n0 + j, sum);
      }
    }
  }
  if (call.slices > 1) {
    int* counter = call.counters + tile * call.cluster;
    *counter = *counter == call.slices - 1 ? 0 : *counter + 1;
  }
}

void ComputeAll(const Kernel& kernel, const Call& call) {
  const int along_m = kernel.swapped != 0 ? kernel.cluster_q : kernel.cluster_p;
  const int along_n = kernel.swapped != 0 ? kernel.cluster_p : kernel.cluster_q;
  const int64_t wide_m = int64_t{kernel.um} * along_m, wide_n = int64_t{kernel.un} * along_n;
  const int64_t bands = (call.m + wide_m - 1) / wide_m, strips = (call.n + wide_n - 1) / wide_n;
  const int64_t clusters = call.grid / (along_m * along_n * call.cluster);
  const int64_t tiles = bands * strips;
  // Split kernels have a cluster for each tile and slice, the others walk on.
  const int64_t stride = kernel.split != 0 ? clusters : std::max<int64_t>(clusters, 1);
  for (int64_t cluster = 0; cluster < clusters; ++cluster) {
    const int slice = kernel.split != 0 ? static_cast<int>(cluster / tiles) : 0;
    for (int64_t tile = kernel.split != 0 ? cluster % tiles : cluster; tile < tiles;
         tile += kernel.split != 0 ? tiles : stride) {
      for (int i = 0; i < along_m; ++i) {
        for (int j = 0; j < along_n; ++j) {
          ComputeTile(kernel, call, tile, tile % bands * wide_m + i * kernel.um,
                      tile / bands * wide_n + j * kernel.un, slice);
        }
      }
    }
  }
}

}  // namespace

extern "C" {

// For the test: what was launched since the last call, a line each.
const char* fake_log() {
  static std::string out;
  out.swap(log_text);
  log_text.clear();
  return out.c_str();
}
int fake_num_maps() { return num_maps; }

int cuInit(unsigned) { return 0; }
int cuGetErrorString(int error, const char** text) {
  *text = error == kInvalidValue ? "invalid argument" : "other";
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? 0 : 101;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 16 ? 132 : attribute == 75 ? 9 : 0;
  return 0;
}
int cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, length, "pretended GPU");
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  static int place;
  *context = &place;
  return 0;
}
int cuCtxGetCurrent(void** context) { return *context = nullptr, 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuCtxSynchronize() { return 0; }
int cuModuleLoadData(void** module, const void* image) {
  auto* kernel = new Kernel;
  char item[32] = "", output[32] = "";
  const int read =
      std::sscanf(static_cast<const char*>(image), "%d %d %d %d %d %d %d %d %31s %31s", &kernel->um,
                  &kernel->un, &kernel->box_x, &kernel->box_y, &kernel->swapped, &kernel->cluster_p,
                  &kernel->cluster_q, &kernel->split, item, output);
  kernel->item = FindType(item);
  kernel->output = FindType(output);
  if (read != 10 || kernel->item == nullptr || kernel->output == nullptr) return 200;
  *module = kernel;
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  auto* kernel = static_cast<Kernel*>(module);
  kernel->symbol = name;
  const std::string known[] = {"tma", "residue", "async", "direct", "gemv", "strided", "columns"};
  if (std::find(std::begin(known), std::end(known), kernel->symbol) == std::end(known)) {
    return 500;
  }
  *function = kernel;
  return 0;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  if (attribute != 8 && attribute != 9) return kInvalidValue;
  if (attribute == 8) static_cast<Kernel*>(function)->shared_bytes = value;
  return 0;
}
int cuTensorMapEncodeTiled(Map* map, int type, uint32_t rank, void* address, const uint64_t* shape,
                           const uint64_t* strides, const uint32_t* box, const uint32_t* elements,
                           int interleave, int swizzle, int, int fill) {
  const int bytes = type == 0 ? 1 : type == 11 ? 4 : 2;
  const bool known = type == 0 || type == 6 || type == 9 || type == 11;
  const bool valid = known && rank == 2 && reinterpret_cast<uintptr_t>(address) % 16 == 0 &&
                     strides[0] % 16 == 0 && shape[0] > 0 && shape[1] > 0 &&
                     (swizzle == 0 || (swizzle == 3 && box[0] * bytes <= 128)) &&
                     box[0] * bytes % 16 == 0 && box[0] <= 256 && box[1] <= 256 &&
                     elements[0] == 1 && elements[1] == 1 && interleave == 0 && fill == 0 &&
                     strides[0] > 0;
  if (!valid) return kInvalidValue;
  ++num_maps;
  *map = {address, shape[0], shape[1], strides[0], box[0], box[1], type, swizzle};
  return 0;
}
int cuLaunchKernelEx(const Config* config, void* function, void** arguments, void**) {
  Kernel kernel = *static_cast<Kernel*>(function);
  unsigned cluster = 1, overlap = 0;
  for (unsigned i = 0; i < config->num_attributes; ++i) {
    if (config->attributes[i].id == 4) cluster = config->attributes[i].value[0];
    if (config->attributes[i].id == 6) overlap = config->attributes[i].value[0];
  }
  const Call call = ReadCall(kernel, arguments);
  if (kernel.symbol == "columns" &&
      !kernel.TakeColumns(call.columns, call.q_groups, call.m, call.n)) {
    return kInvalidValue;
  }
  const unsigned expected = kernel.cluster_p * kernel.cluster_q * call.cluster;
  // Overlapped launches may keep neighbours together that share nothing.
  const bool may_be_kept = overlap != 0 && kernel.ByMap() && kernel.split == 0;
  const bool kept = may_be_kept && expected == 1 && (cluster == 2 || cluster == 4);
  if ((cluster != expected && !kept) || config->grid[0] == 0 || config->grid[0] % cluster != 0 ||
      config->grid[0] != static_cast<unsigned>(call.grid) ||
      config->shared_bytes > static_cast<unsigned>(kernel.shared_bytes)) {
    return kInvalidValue;
  }
  for (const auto& [operand, box] : {std::pair(&call.x, kernel.box_x), {&call.y, kernel.box_y}}) {
    for (const Map& map : operand->maps) {
      if (map.box_inner != static_cast<unsigned>(kernel.BoxItems()) ||
          map.box_outer != static_cast<unsigned>(box) || map.type != kernel.item->map ||
          (map.swizzle == 0) != (kernel.symbol == "residue")) {
        return kInvalidValue;
      }
    }
  }
  // Asynchronous copies are of 16 bytes, from multiples of 16.
  if (kernel.symbol == "async") {
    for (const Operand* each : {&call.x, &call.y}) {
      const bool single = each->lines == 1;
      if (each->skip != 0 || (!single && each->line * kernel.item->bytes % 16 != 0)) {
        return kInvalidValue;
      }
    }
  }
  // Rows of C must allow the vectors that the kernel is told to store.
  if (reinterpret_cast<uintptr_t>(call.c) / kernel.output->bytes % call.vector_c != 0 ||
      call.ldc % call.vector_c != 0 || call.n % call.vector_c != 0) {
    return kInvalidValue;
  }
  ComputeAll(kernel, call);
  log_text += kernel.symbol + " grid=" + std::to_string(config->grid[0]) +
              " cluster=" + std::to_string(cluster) + " overlap=" + std::to_string(overlap) +
              " shared=" + std::to_string(config->shared_bytes) + " m=" + std::to_string(call.m) +
              " n=" + std::to_string(call.n) + " vector=" + std::to_string(call.vector_c) +
              " slices=" + std::to_string(call.slices) + "\n";
  return 0;
}
int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  *address = reinterpret_cast<unsigned long long>(::operator new(bytes));
  return 0;
}
int cuMemFree_v2(unsigned long long address) {
  ::operator delete(reinterpret_cast<void*>(address));
  return 0;
}
int cuMemcpyHtoD_v2(unsigned long long address, const void* data, size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(address), data, bytes);
  return 0;
}
int cuMemsetD8Async(unsigned long long address, unsigned char value, size_t bytes, void*) {
  std::memset(reinterpret_cast<void*>(address), value, bytes);
  return 0;
}
int cuMemsetD2D8Async(unsigned long long address, size_t pitch, unsigned char value, size_t width,
                      size_t height, void*) {
  for (size_t i = 0; i < height; ++i) {
    std::memset(reinterpret_cast<char*>(address) + i * pitch, value, width);
  }
  return 0;
}
int cuStreamCreate(void** stream, unsigned) {
  static int place;
  *stream = &place;
  return 0;
}
int cuStreamSynchronize(void*) { return 0; }
int cuStreamIsCapturing(void*, int* status) {
  *status = capturing;
  return 0;
}
int cuStreamBeginCapture_v2(void*, int) {
  capturing = true;
  return 0;
}
int cuStreamEndCapture(void*, void** graph) {
  if (!capturing) return kNotReady;
  capturing = false;
  static int place;
  *graph = &place;
  return 0;
}
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  *exec = graph;
  return 0;
}
int cuGraphUpload(void*, void*) { return 0; }
int cuGraphLaunch(void*, void*) { return 0; }
int cuGraphExecDestroy(void*) { return 0; }
int cuGraphDestroy(void*) { return 0; }
int cuEventCreate(void** event, unsigned) {
  static int place;
  *event = &place;
  return 0;
}
int cuEventDestroy_v2(void*) { return 0; }
int cuEventRecord(void*, void*) { return 0; }
int cuEventElapsedTime(float* milliseconds, void*, void*) {
  *milliseconds = 0.25f;
  return 0;
}

}  // extern "C"
