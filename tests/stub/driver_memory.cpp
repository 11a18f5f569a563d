// The memory of the stub's GPUs, which is the host's: copies and fills are made at once.
//   STUB_MEMORY=1000000      bytes that all of them have; each says that it has its part
//   STUB_NO_PEERS=1          none reaches another's
//   STUB_KNOWS_MEMORY=1      what they have not allocated is the host's; else it is the current
//   GPU's
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

#include "gpu/driver_api.h"
#include "stub_variable.h"

namespace stretto::cuda {

Result stub_answer(std::string_view symbol);

namespace {

struct Memory {
  std::mutex mutex;
  std::map<DevicePtr, size_t> sizes;
  std::map<DevicePtr, int> owners;
  std::map<int, size_t> file_sizes;  // of what this process has made
  size_t used = 0;
};
Memory& memory() {
  static Memory instance;
  return instance;
}

constexpr size_t kApart = 4096;  // what lies behind an allocation is none

void* host(DevicePtr address) { return reinterpret_cast<void*>(address); }

}  // namespace

extern "C" {

// driver.cpp's
Result cuDeviceGetCount(int* count);
Result cuCtxGetCurrent(ContextHandle* context);

namespace {
int current_gpu() {
  ContextHandle context = nullptr;
  cuCtxGetCurrent(&context);
  return static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
}
}  // namespace

Result cuMemAlloc_v2(DevicePtr* address, size_t num_bytes) {
  const std::string most = variable("STUB_MEMORY");
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  if (!most.empty() && all.used + num_bytes > std::stoull(most)) return kOutOfMemory;
  void* mapped = mmap(nullptr, num_bytes + kApart, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<DevicePtr>(mapped);
  all.sizes[*address] = num_bytes;
  all.owners[*address] = current_gpu();
  all.used += num_bytes;
  return kSuccess;
}

Result cuMemGetAddressRange_v2(DevicePtr* begin, size_t* num_bytes, DevicePtr at) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  auto found = all.sizes.upper_bound(at);
  if (found == all.sizes.begin() || (--found)->first + found->second <= at) return kInvalidValue;
  *begin = found->first;
  *num_bytes = found->second;
  return kSuccess;
}

Result cuPointerGetAttributes(unsigned count, int* which, void** answers, DevicePtr at) {
  if (const Result answer = stub_answer("cuPointerGetAttributes"); answer != kSuccess)
    return answer;
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  auto found = all.sizes.upper_bound(at);
  const bool is_own = found != all.sizes.begin() && (--found)->first + found->second > at;
  const bool is_known = is_own || variable("STUB_KNOWS_MEMORY").empty();
  for (unsigned i = 0; i < count; ++i) {
    int answer = 0;
    if (which[i] == kPointerMemoryKind) answer = is_known ? kMemoryDevice : 0;
    if (which[i] == kPointerDevice) answer = is_own ? all.owners[found->first] : current_gpu();
    *static_cast<int*>(answers[i]) = answer;
  }
  return kSuccess;
}

Result cuMemFree_v2(DevicePtr address) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto found = all.sizes.find(address);
  if (found == all.sizes.end()) return kInvalidValue;
  munmap(host(address), found->second + kApart);
  all.used -= found->second;
  all.owners.erase(address);
  all.sizes.erase(found);
  return kSuccess;
}

Result cuMemHostAlloc(void** at, size_t num_bytes, unsigned) {
  *at = std::calloc(1, num_bytes);
  return *at == nullptr ? kOutOfMemory : kSuccess;
}

Result cuMemFreeHost(void* at) {
  std::free(at);
  return kSuccess;
}

Result cuMemGetInfo_v2(size_t* free, size_t* all) {
  const std::string most = variable("STUB_MEMORY");
  Memory& memory_of_all = memory();
  const std::lock_guard lock(memory_of_all.mutex);
  int gpus = 1;
  cuDeviceGetCount(&gpus);
  const size_t of_all = most.empty() ? size_t{160} << 30 : std::stoull(most);
  *all = of_all / static_cast<size_t>(gpus);
  *free = (of_all - std::min(of_all, memory_of_all.used)) / static_cast<size_t>(gpus);
  return kSuccess;
}

Result cuMemGetAllocationGranularity(size_t* granularity, const MemoryProperties*, int) {
  *granularity = 4096;
  return kSuccess;
}

// A handle is the descriptor of a nameless file, which other processes can map.
Result cuMemCreate(MemoryHandle* handle, size_t num_bytes, const MemoryProperties*,
                   unsigned long long) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const std::string most = variable("STUB_MEMORY");
  if (!most.empty() && all.used + num_bytes > std::stoull(most)) return kOutOfMemory;
  const int file = memfd_create("stub", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(num_bytes)) != 0) return kOutOfMemory;
  *handle = static_cast<MemoryHandle>(file);
  all.file_sizes[file] = num_bytes;
  all.used += num_bytes;
  return kSuccess;
}

Result cuMemRelease(MemoryHandle handle) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto file = static_cast<int>(handle);
  const auto own = all.file_sizes.find(file);
  if (own != all.file_sizes.end()) {
    all.used -= own->second;
    all.file_sizes.erase(own);
  }
  return close(file) == 0 ? kSuccess : kInvalidValue;
}

Result cuMemExportToShareableHandle(void* file, MemoryHandle handle, int, unsigned long long) {
  *static_cast<int*>(file) = dup(static_cast<int>(handle));
  return kSuccess;
}

Result cuMemImportFromShareableHandle(MemoryHandle* handle, void* file, int) {
  *handle = static_cast<MemoryHandle>(dup(static_cast<int>(reinterpret_cast<intptr_t>(file))));
  return kSuccess;
}

Result cuMemAddressReserve(DevicePtr* address, size_t num_bytes, size_t, DevicePtr,
                           unsigned long long) {
  void* at =
      mmap(nullptr, num_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<DevicePtr>(at);
  return kSuccess;
}

Result cuMemAddressFree(DevicePtr address, size_t num_bytes) {
  return munmap(host(address), num_bytes) == 0 ? kSuccess : kInvalidValue;
}

Result cuMemMap(DevicePtr address, size_t num_bytes, size_t, MemoryHandle handle,
                unsigned long long) {
  void* at = mmap(host(address), num_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                  static_cast<int>(handle), 0);
  return at == MAP_FAILED ? kInvalidValue : kSuccess;
}

Result cuMemUnmap(DevicePtr address, size_t num_bytes) {
  void* at = mmap(host(address), num_bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return at == MAP_FAILED ? kInvalidValue : kSuccess;
}

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
