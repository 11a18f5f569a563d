// GPUs as the environment describes them, without anything that runs kernels; their memory is
// driver_memory.cpp's.
//   STUB_GPUS="NVIDIA H200:132:9.0;NVIDIA H100 PCIe:114:9.0"  name, SMs, compute capability
//   STUB_SAME_UUID=1         all are one
//   STUB_NO_PEERS=1          none reaches another's memory
//   STUB_DRIVER=13000        what the driver says that it is
//   STUB_ELAPSED_MS=0.5      between any two events; 0 when unset
//   STUB_ELAPSED_FALLS=0.9   each time so many times as long as the one before
//   STUB_KEEPS_CAPTURES=1    a stream whose capture has begun is captured until that ends
//   STUB_CAPTURES=1          a stream that waits for the default one is being captured
//   STUB_RESIDENT=1          an SM holds a block of any kernel, and two SMs a cluster; else nothing
//   STUB_CAPTURED=STREAM     that stream is being captured
//   STUB_LAUNCHES=FILE       a line for each launch, "kernel blocks stream"
//   STUB_MAPS=FILE           a line for each map of a matrix, "encode" or "move"
//   STUB_ORDER=FILE          a line for each event, "record event stream" or "wait event stream"
//   STUB_EXPIRES=1           the first wait of a GEMM kernel ends by its deadline
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/driver_api.h"
#include "stretto/device/gemm_task.h"
#include "stub_variable.h"

namespace stretto::cuda {

Result stub_answer(std::string_view symbol);

namespace {

struct Gpu {
  std::string name;
  int sms = 0, major = 0, minor = 0;
};

const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> described = [] {
    std::vector<Gpu> all;
    std::istringstream list(variable("STUB_GPUS"));
    for (std::string entry; std::getline(list, entry, ';');) {
      Gpu& gpu = all.emplace_back();
      std::istringstream fields(entry);
      char between = 0;
      std::getline(fields, gpu.name, ':');
      fields >> gpu.sms >> between >> gpu.major >> between >> gpu.minor;
    }
    return all;
  }();
  return described;
}

// A context is known by its GPU's number, which no null pointer has.
ContextHandle context_of(DeviceId device) {
  return reinterpret_cast<ContextHandle>(static_cast<uintptr_t>(device) + 1);
}
thread_local ContextHandle current = nullptr;

struct Captures {
  std::mutex mutex;
  std::set<StreamHandle> streams;
};
Captures& captures() {
  static Captures all;
  return all;
}

// Functions are known by the names of their kernels.
FunctionHandle function_of(const char* name) {
  static std::mutex mutex;
  static std::set<std::string> names;
  const std::lock_guard lock(mutex);
  return reinterpret_cast<FunctionHandle>(const_cast<char*>(names.insert(name).first->c_str()));
}

// Leaves what a wait leaves that has seen one notify less than it needs: the first that a block
// has.
void expire_first_wait(const device::GemmParams& kernel, uint32_t num_blocks) {
  for (uint32_t block = 0; block < num_blocks; ++block) {
    for (uint32_t i = kernel.first_task[block]; i < kernel.first_task[block + 1]; ++i) {
      const device::GemmTask& task = kernel.tasks[i];
      if (task.num_waits == 0) continue;
      const device::WaitEntry& wait = kernel.waits[task.first_wait];
      device::RunControl& control = *kernel.signals.control;
      control.error = {block,       task.tile,      wait.signal, kernel.signals.kernel,
                       wait.amount, wait.amount - 1};
      control.expired_here = control.abort = 1;
      if (control.host_word != nullptr) *control.host_word = 1;
      return;
    }
  }
}

void note_order(const char* what, EventHandle event, StreamHandle stream) {
  const std::string file = variable("STUB_ORDER");
  if (file.empty()) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::ofstream(file, std::ios::app) << what << ' ' << reinterpret_cast<uintptr_t>(event) << ' '
                                     << reinterpret_cast<uintptr_t>(stream) << '\n';
}

void note_map(const char* what) {
  const std::string file = variable("STUB_MAPS");
  if (!file.empty()) std::ofstream(file, std::ios::app) << what << '\n';
}

}  // namespace

extern "C" {

// Maps say what they are of: where that lies, and all else that they were asked for.
Result cuTensorMapEncodeTiled(device::TensorMap* map, int type, uint32_t rank, void* address,
                              const uint64_t* sizes, const uint64_t* strides, const uint32_t* box,
                              const uint32_t* steps, int interleave, int swizzle, int promotion,
                              int fill) {
  note_map("encode");
  uint64_t sum = 0;
  const auto add = [&sum](uint64_t number) { sum = (sum ^ number) * 0x9e3779b97f4a7c15; };
  for (const int number : {type, interleave, swizzle, promotion, fill}) {
    add(static_cast<uint64_t>(number));
  }
  for (uint32_t i = 0; i < rank; ++i) {
    for (const uint64_t number : {sizes[i], uint64_t{box[i]}, uint64_t{steps[i]}}) add(number);
    if (i + 1 < rank) add(strides[i]);
  }
  std::memset(map, 0, sizeof(*map));
  std::memcpy(map, &address, sizeof(address));
  std::memcpy(reinterpret_cast<char*>(map) + sizeof(address), &sum, sizeof(sum));
  return stub_answer("cuTensorMapEncodeTiled");
}

Result cuTensorMapReplaceAddress(device::TensorMap* map, void* address) {
  note_map("move");
  std::memcpy(map, &address, sizeof(address));
  return stub_answer("cuTensorMapReplaceAddress");
}

Result cuGetErrorName(Result, const char** name) {
  *name = "CUDA_ERROR_OF_THE_STUB";
  return kSuccess;
}

Result cuGetErrorString(Result, const char** text) {
  *text = "as the environment says";
  return kSuccess;
}

Result cuDriverGetVersion(int* version) {
  const std::string said = variable("STUB_DRIVER");
  *version = said.empty() ? 13000 : std::atoi(said.c_str());
  return kSuccess;
}

Result cuDeviceGetCount(int* count) {
  *count = static_cast<int>(gpus().size());
  return kSuccess;
}

Result cuDeviceGet(DeviceId* device, int index) {
  *device = index;
  return kSuccess;
}

Result cuDeviceGetName(char* name, int length, DeviceId device) {
  std::strncpy(name, gpus()[static_cast<size_t>(device)].name.c_str(),
               static_cast<size_t>(length) - 1);
  return kSuccess;
}

Result cuDeviceGetUuid_v2(DeviceUuid* uuid, DeviceId device) {
  *uuid = {};
  uuid->bytes[0] = variable("STUB_SAME_UUID").empty() ? static_cast<unsigned char>(device) : 0;
  return kSuccess;
}

Result cuDeviceGetAttribute(int* value, int which, DeviceId device) {
  const Gpu& gpu = gpus()[static_cast<size_t>(device)];
  switch (which) {
    case kAttributeSmCount:
      *value = gpu.sms;
      break;
    case kAttributeComputeMajor:
      *value = gpu.major;
      break;
    case kAttributeComputeMinor:
      *value = gpu.minor;
      break;
    case kAttributeSharedBytesPerBlock:
      *value = 227 << 10;
      break;
    default:
      return kInvalidValue;
  }
  return kSuccess;
}

Result cuDeviceCanAccessPeer(int* can, DeviceId, DeviceId) {
  *can = variable("STUB_NO_PEERS").empty() ? 1 : 0;
  return kSuccess;
}

Result cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceId device) {
  *context = context_of(device);
  return kSuccess;
}

Result cuCtxSetCurrent(ContextHandle context) {
  current = context;
  return kSuccess;
}

Result cuCtxGetCurrent(ContextHandle* context) {
  *context = current;
  return kSuccess;
}

Result cuEventElapsedTime(float* ms, EventHandle, EventHandle) {
  static std::atomic<double> share = 1;
  *ms = static_cast<float>(share * std::atof(variable("STUB_ELAPSED_MS").c_str()));
  if (const std::string falls = variable("STUB_ELAPSED_FALLS"); !falls.empty()) {
    share = share * std::atof(falls.c_str());
  }
  return stub_answer("cuEventElapsedTime");
}

Result cuStreamBeginCapture_v2(StreamHandle stream, int) {
  const std::lock_guard lock(captures().mutex);
  captures().streams.insert(stream);
  return stub_answer("cuStreamBeginCapture_v2");
}

Result cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  const std::lock_guard lock(captures().mutex);
  captures().streams.erase(stream);
  *graph = nullptr;
  return stub_answer("cuStreamEndCapture");
}

Result cuStreamGetCaptureInfo_v2(StreamHandle stream, int* status, uint64_t* id, GraphHandle*,
                                 const void**, size_t*) {
  const std::string number = std::to_string(reinterpret_cast<uintptr_t>(stream));
  *status = variable("STUB_CAPTURED") == number ? 1 : 0;
  if (*status == 1) *id = 7;
  if (!variable("STUB_KEEPS_CAPTURES").empty()) {
    const std::lock_guard lock(captures().mutex);
    *status = captures().streams.contains(stream) ? 1 : 0;
    if (id != nullptr) *id = reinterpret_cast<uintptr_t>(stream);
  }
  const bool is_legacy = reinterpret_cast<uintptr_t>(stream) == 1;
  return is_legacy && !variable("STUB_CAPTURES").empty() ? kCaptureImplicit : kSuccess;
}

Result cuEventCreate(EventHandle* event, unsigned) {
  static std::atomic<uintptr_t> last = 0;
  *event = reinterpret_cast<EventHandle>(++last);
  return stub_answer("cuEventCreate");
}

Result cuEventRecord(EventHandle event, StreamHandle stream) {
  note_order("record", event, stream);
  return stub_answer("cuEventRecord");
}

Result cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  note_order("wait", event, stream);
  return stub_answer("cuStreamWaitEvent");
}

// Streams are known by numbers, which those that stand for the default one do not have.
Result cuStreamCreateWithPriority(StreamHandle* stream, unsigned, int) {
  static std::atomic<uintptr_t> last = 256;
  *stream = reinterpret_cast<StreamHandle>(++last);
  return stub_answer("cuStreamCreateWithPriority");
}

Result cuModuleGetFunction(FunctionHandle* function, ModuleHandle, const char* name) {
  *function = function_of(name);
  return stub_answer("cuModuleGetFunction");
}

Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, FunctionHandle, int, size_t) {
  if (!variable("STUB_RESIDENT").empty()) *blocks = 1;
  return stub_answer("cuOccupancyMaxActiveBlocksPerMultiprocessor");
}

Result cuOccupancyMaxActiveClusters(int* clusters, FunctionHandle, const LaunchConfig*) {
  const size_t device = reinterpret_cast<uintptr_t>(current) - 1;
  if (!variable("STUB_RESIDENT").empty()) *clusters = gpus()[device].sms / 2;
  return stub_answer("cuOccupancyMaxActiveClusters");
}

Result cuLaunchKernelEx(const LaunchConfig* config, FunctionHandle function, void** arguments,
                        void**) {
  if (!variable("STUB_EXPIRES").empty() && function == function_of("stretto_gemm")) {
    expire_first_wait(*static_cast<const device::GemmParams*>(arguments[0]), config->grid_x);
  }
  if (const std::string file = variable("STUB_LAUNCHES"); !file.empty()) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::ofstream(file, std::ios::app)
        << reinterpret_cast<const char*>(function) << ' ' << config->grid_x << ' '
        << reinterpret_cast<uintptr_t>(config->stream) << '\n';
  }
  return stub_answer("cuLaunchKernelEx");
}

}  // extern "C"

}  // namespace stretto::cuda
