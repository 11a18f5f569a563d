// GPUs as the environment describes them, with memory but without anything that runs kernels.
//   STUB_GPUS="NVIDIA H200:132:9.0;NVIDIA H100 PCIe:114:9.0"  name, SMs, compute capability
//   STUB_SAME_UUID=1         all are one
//   STUB_NO_PEERS=1          none reaches another's memory
//   STUB_MEMORY=1000000      bytes that all of them have
//   STUB_EXPIRES=1           the first wait of a GEMM kernel ends by its deadline
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/driver_api.h"
#include "stretto/device/gemm_task.h"

namespace stretto::cuda {

Result stub_answer(std::string_view symbol);

namespace {

constexpr Result kInvalidValue = 1;

struct Gpu {
  std::string name;
  int sms = 0, major = 0, minor = 0;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

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

struct Memory {
  std::mutex mutex;
  std::map<DevicePtr, size_t> sizes;
  size_t used = 0;
};
Memory& memory() {
  static Memory instance;
  return instance;
}

void* host(DevicePtr address) { return reinterpret_cast<void*>(address); }

// A context is known by its GPU's number, which no null pointer has.
ContextHandle context_of(DeviceId device) {
  return reinterpret_cast<ContextHandle>(static_cast<uintptr_t>(device) + 1);
}
thread_local ContextHandle current = nullptr;

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
      return;
    }
  }
}

}  // namespace

extern "C" {

Result cuGetErrorName(Result, const char** name) {
  *name = "CUDA_ERROR_OF_THE_STUB";
  return kSuccess;
}

Result cuGetErrorString(Result, const char** text) {
  *text = "as the environment says";
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

Result cuModuleGetFunction(FunctionHandle* function, ModuleHandle, const char* name) {
  *function = function_of(name);
  return stub_answer("cuModuleGetFunction");
}

Result cuLaunchKernelEx(const LaunchConfig* config, FunctionHandle function, void** arguments,
                        void**) {
  if (!variable("STUB_EXPIRES").empty() && function == function_of("stretto_gemm")) {
    expire_first_wait(*static_cast<const device::GemmParams*>(arguments[0]), config->grid_x);
  }
  return stub_answer("cuLaunchKernelEx");
}

Result cuMemAlloc_v2(DevicePtr* address, size_t num_bytes) {
  const std::string most = variable("STUB_MEMORY");
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  if (!most.empty() && all.used + num_bytes > std::stoull(most)) return kOutOfMemory;
  void* mapped = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<DevicePtr>(mapped);
  all.sizes[*address] = num_bytes;
  all.used += num_bytes;
  return kSuccess;
}

Result cuMemFree_v2(DevicePtr address) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto found = all.sizes.find(address);
  if (found == all.sizes.end()) return kInvalidValue;
  munmap(host(address), found->second);
  all.used -= found->second;
  all.sizes.erase(found);
  return kSuccess;
}

Result cuMemGetAllocationGranularity(size_t* granularity, const MemoryProperties*, int) {
  *granularity = 1;
  return kSuccess;
}

// The handle is the memory's address, where it is mapped too.
Result cuMemCreate(MemoryHandle* handle, size_t num_bytes, const MemoryProperties*,
                   unsigned long long) {
  return cuMemAlloc_v2(handle, num_bytes);
}

Result cuMemRelease(MemoryHandle handle) { return cuMemFree_v2(handle); }

Result cuMemSetAccess(DevicePtr, size_t, const MemoryAccess* access, size_t) {
  constexpr Result kInvalidDevice = 101;
  return access->location.id > 0 && !variable("STUB_NO_PEERS").empty() ? kInvalidDevice : kSuccess;
}

Result cuMemcpyDtoDAsync_v2(DevicePtr to, DevicePtr from, size_t num_bytes, StreamHandle) {
  std::memmove(host(to), host(from), num_bytes);
  return kSuccess;
}

Result cuMemcpyDtoHAsync_v2(void* to, DevicePtr from, size_t num_bytes, StreamHandle) {
  std::memcpy(to, host(from), num_bytes);
  return kSuccess;
}

Result cuMemcpyHtoDAsync_v2(DevicePtr to, const void* from, size_t num_bytes, StreamHandle) {
  std::memcpy(host(to), from, num_bytes);
  return kSuccess;
}

Result cuMemsetD8Async(DevicePtr at, unsigned char value, size_t count, StreamHandle) {
  std::memset(host(at), value, count);
  return kSuccess;
}

Result cuMemsetD32Async(DevicePtr at, unsigned value, size_t count, StreamHandle) {
  auto* words = static_cast<unsigned*>(host(at));
  for (size_t i = 0; i < count; ++i) words[i] = value;
  return kSuccess;
}

}  // extern "C"

}  // namespace stretto::cuda
