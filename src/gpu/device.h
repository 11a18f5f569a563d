// One GPU: its context, memory, streams, graphs and kernels as owners that clean up after
// themselves.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/driver_api.h"
#include "gpu/host_copies.h"

namespace stretto::cuda {

// Number of GPUs; 0 without a driver.
int num_devices();
// The first one's name; empty without a GPU. Those of a job are alike.
std::string gpu_name();
// Tells a GPU from all others, in any process: 32 hexadecimal digits.
std::string uuid_of(DeviceId id);

class Stream;

class Device {
 public:
  // As one of so many ranks sees it (shared_gpus.h), who together leave `free_sms` SMs to others'
  // kernels. Throws SystemError when there is no such GPU, UsageError where it has too few SMs.
  explicit Device(int index, int ranks = 1, int free_sms = 0);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Directs this thread's driver calls to this GPU.
  void make_current() const;

  int index() const { return index_; }
  DeviceId id() const { return id_; }
  std::string uuid() const { return uuid_of(id_); }
  const std::string& name() const { return name_; }
  // That the rank may keep busy: all, or its share, of those that are not left free.
  int num_sms() const { return num_sms_; }
  // That are left to kernels which wait for others, too: no kernel of a rank may hold them.
  int free_sms() const { return free_sms_; }
  // How many ranks share this GPU.
  int ranks() const { return ranks_; }
  // That a block of a kernel can have.
  int max_shared_bytes() const { return max_shared_bytes_; }
  // Of its memory, now, of all processes; the GPU is current.
  size_t free_bytes() const;
  // "sm_90a", "sm_89": what kernels for this GPU are compiled for.
  std::string arch() const;
  // Whether kernels of the rank may begin while those ahead of them end (Kernel::launch). All that
  // launches asks here. A kernel that begins early holds SMs, or stands ahead of all that has no SM
  // yet, while the one ahead may await peers. Peers on GPUs of their own come all the same. One
  // that shares this GPU might find no room, or stand behind: so each of its ranks has one kernel
  // on it at a time (gpu/shared_gpus.h). Nor may others wait here for SMs that are left free.
  bool can_overlap() const { return major_ >= 9 && free_sms_ == 0 && ranks_ == 1; }
  ContextHandle context() const { return context_; }

 private:
  int index_, ranks_, free_sms_;
  DeviceId id_ = 0;
  ContextHandle context_ = nullptr;
  std::shared_ptr<const Stream> copies_;  // kept for host_copies.h
  std::string name_;
  int num_sms_ = 0, max_shared_bytes_ = 0, major_ = 0, minor_ = 0;
};

// Memory of the current GPU.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(size_t num_bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(num_bytes_, other.num_bytes_);
    return *this;
  }

  DevicePtr address() const { return address_; }
  size_t num_bytes() const { return num_bytes_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(address_);
  }
  void upload(const void* from, size_t num_bytes, size_t offset = 0);
  void download(void* to, size_t num_bytes, size_t offset = 0) const;

 private:
  DevicePtr address_ = 0;
  size_t num_bytes_ = 0;
};

template <typename T>
DeviceMemory upload(const std::vector<T>& values) {
  DeviceMemory memory(values.size() * sizeof(T));
  if (!values.empty()) memory.upload(values.data(), values.size() * sizeof(T));
  return memory;
}

class Event;

class Stream {
 public:
  enum class Priority { usual, highest };
  explicit Stream(Priority priority = Priority::usual);
  // As another stream has it: a number of the driver's.
  explicit Stream(int priority);
  // Another's stream, which must outlive this.
  explicit Stream(StreamHandle borrowed) : handle_(borrowed), owned_(false) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  StreamHandle handle() const { return handle_; }
  void synchronize() const;
  // Whether all that was enqueued is done.
  bool idle() const;
  // Which capture what is enqueued goes to; nothing when it goes to the GPU.
  std::optional<uint64_t> capture() const;
  // That kernels on it have, those of graphs captured on it, too.
  int priority() const;
  // What is enqueued from now on starts after the event.
  void wait(const Event& event) const;

 private:
  StreamHandle handle_ = nullptr;
  bool owned_ = true;
};

class Event {
 public:
  // One that is not timed costs less.
  explicit Event(bool timed = true);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(const Stream& stream);
  // What it was recorded behind is done; so it is where it was not recorded.
  bool has_passed() const;
  // Both must have been reached.
  double elapsed_us_since(const Event& start) const;
  EventHandle handle() const { return handle_; }

 private:
  EventHandle handle_ = nullptr;
};

// A kernel loaded on the current GPU.
class Kernel {
 public:
  Kernel(const std::string& cubin, const char* name, int dynamic_shared_bytes);

  int registers() const { return attribute(kFunctionRegisters); }
  int local_bytes() const { return attribute(kFunctionLocalBytes); }
  // How many blocks of so many threads an SM holds at once.
  int blocks_of_an_sm(int threads) const;
  // How many clusters of so many blocks a whole GPU holds at once.
  int resident_clusters(int threads, int cluster) const;
  // With `overlap` its blocks may be started before the kernel ahead of it on the stream has ended;
  // the kernel itself waits for that (griddepcontrol.wait). Where Device::can_overlap().
  void launch(const Stream& stream, int blocks, int threads, int cluster, const void* parameters,
              bool overlap = false) const;

 private:
  struct Unload {
    void operator()(ModuleHandle module) const { driver().module_unload(module); }
  };
  int attribute(FunctionAttribute which) const;
  std::unique_ptr<ModuleObject, Unload> module_;
  FunctionHandle function_ = nullptr;
  int dynamic_shared_bytes_;
};

}  // namespace stretto::cuda
