// The memory of the stub's GPUs, which is the host's: copies and fills are made at once.
//   STUB_MEMORY=1000000      bytes that all of them have
//   STUB_NO_PEERS=1          none reaches another's
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "gpu/driver_api.h"
#include "stub_variable.h"

namespace stretto::cuda {
namespace {

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

}  // namespace

extern "C" {

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

Result cuMemHostAlloc(void** at, size_t num_bytes, unsigned) {
  *at = std::calloc(1, num_bytes);
  return *at == nullptr ? kOutOfMemory : kSuccess;
}

Result cuMemFreeHost(void* at) {
  std::free(at);
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
