// Symmetric memory on NCCL windows.
//
// NCCL maps every rank's window into each GPU's address space. From 2.29 it has a host call for a
// peer's address; in 2.28 the address comes from the first fields of the window's record in GPU
// memory, which NCCL's device headers of all versions inline into user code in this layout. Either
// way, fresh windows are proved by reading a different mark through every address.
#include <fmt/format.h>

#include <cstring>

#include "fabric/communicators.h"
#include "fabric/memory_source.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

using cuda::check;
using cuda::DevicePtr;
using cuda::driver;

constexpr double kRegisterTimeoutS = 60;

struct WindowRecord {
  uint64_t host_window;
  uint64_t flat_base;  // the window of the first rank of those in reach
  int32_t reach_rank;
  int32_t world_rank;
  uint32_t stride_4g;  // between ranks, in units of 4 GiB
  uint32_t reserved;
};

struct Windows {
  std::vector<void*> memory;  // by local rank
  std::vector<NcclWindow> windows;
};

DevicePtr peer_address(NcclWindow window, const WindowRecord& record, int peer) {
  if (nccl().peer_pointer != nullptr) {
    void* address = nullptr;
    check_nccl(nccl().peer_pointer(window, 0, peer, &address), "find a peer's window");
    return reinterpret_cast<DevicePtr>(address);
  }
  const int place = record.reach_rank + (peer - record.world_rank);
  return record.flat_base +
         (static_cast<uint64_t>(record.stride_4g) << 32) * static_cast<uint64_t>(place);
}

class WindowAllocation : public Allocation {
 public:
  WindowAllocation(const LocalRanks& local, const Communicators& communicators,
                   std::shared_ptr<Windows> windows)
      : local_(local), communicators_(communicators), windows_(std::move(windows)) {}

  ~WindowAllocation() override {
    for (int i = 0; i < local_.count(); ++i) {
      driver().context_set(local_.devices[static_cast<size_t>(i)]->context());
      const auto at = static_cast<size_t>(i);
      if (windows_->windows[at] != nullptr) {
        nccl().window_deregister(communicators_.of(local_.first + i), windows_->windows[at]);
      }
      if (windows_->memory[at] != nullptr) nccl().mem_free(windows_->memory[at]);
    }
  }

  void find_addresses() {
    for (int i = 0; i < local_.count(); ++i) {
      const int rank = local_.first + i;
      local_.device(rank).make_current();
      NcclWindow const window = windows_->windows[static_cast<size_t>(i)];
      if (window == nullptr) {
        throw SystemError("NCCL made no window: the ranks' GPUs do not all reach each other");
      }
      WindowRecord record{};
      cuda::copy_from_gpu(&record, reinterpret_cast<DevicePtr>(window), sizeof(record));
      if (record.world_rank != rank) {
        throw SystemError(fmt::format("{} lays out windows in an unknown way", nccl_version()));
      }
      addresses.emplace_back();
      for (int peer = 0; peer < local_.ranks; ++peer) {
        addresses.back().push_back(peer == rank ? own(i) : peer_address(window, record, peer));
      }
    }
  }

  void write_marks() const {
    for (int i = 0; i < local_.count(); ++i) {
      local_.devices[static_cast<size_t>(i)]->make_current();
      const uint64_t mark = mark_of(local_.first + i);
      cuda::copy_to_gpu(own(i), &mark, sizeof(mark));
    }
  }

  void read_marks() const {
    for (int i = 0; i < local_.count(); ++i) {
      local_.devices[static_cast<size_t>(i)]->make_current();
      for (int peer = 0; peer < local_.ranks; ++peer) {
        uint64_t mark = 0;
        cuda::copy_from_gpu(&mark, address(i, peer), sizeof(mark));
        if (mark != mark_of(peer)) {
          throw SystemError(fmt::format("{}: rank {} does not find rank {}'s window",
                                        nccl_version(), local_.first + i, peer));
        }
      }
    }
  }

 private:
  static uint64_t mark_of(int rank) { return 0x5374'7265'7474'6f00 + static_cast<uint64_t>(rank); }
  DevicePtr own(int i) const {
    return reinterpret_cast<DevicePtr>(windows_->memory[static_cast<size_t>(i)]);
  }

  LocalRanks local_;
  const Communicators& communicators_;
  std::shared_ptr<Windows> windows_;
};

class WindowMemory : public MemorySource {
 public:
  WindowMemory(const LocalRanks& local, HostGroup& group, Communicators& communicators)
      : local_(local), group_(group), communicators_(communicators) {}

  std::unique_ptr<Allocation> allocate(size_t num_bytes) override {
    const auto windows = std::make_shared<Windows>();
    windows->memory.resize(static_cast<size_t>(local_.count()));
    windows->windows.resize(windows->memory.size());
    auto allocation = std::make_unique<WindowAllocation>(local_, communicators_, windows);
    group_.together("allocating windows", [&] {
      for (size_t i = 0; i < windows->memory.size(); ++i) {
        local_.devices[i]->make_current();
        check_nccl_alloc(nccl().mem_alloc(&windows->memory[i], num_bytes), num_bytes);
      }
    });
    std::vector<NcclComm> comms;
    for (int i = 0; i < local_.count(); ++i) comms.push_back(communicators_.of(local_.first + i));
    group_.together("registering windows", [&] {
      on_every_rank(
          local_, "registering a window", kRegisterTimeoutS, [windows, comms, num_bytes](int i) {
            const auto at = static_cast<size_t>(i);
            check_nccl(nccl().window_register(comms[at], windows->memory[at], num_bytes,
                                              &windows->windows[at], kNcclWindowSymmetric),
                       "register a window");
          });
      allocation->find_addresses();
      allocation->write_marks();
    });
    group_.together("proving windows", [&] { allocation->read_marks(); });
    return allocation;
  }

 private:
  LocalRanks local_;
  HostGroup& group_;
  Communicators& communicators_;
};

}  // namespace

void require_windows(HostGroup& group) {
  group.together("looking for NCCL windows", [] {
    if (const std::string reason = why_no_windows(); !reason.empty()) throw SystemError(reason);
  });
}

std::unique_ptr<MemorySource> nccl_windows(const LocalRanks& local, HostGroup& group,
                                           Communicators& communicators) {
  return std::make_unique<WindowMemory>(local, group, communicators);
}

}  // namespace stretto::fabric
