// Symmetric memory without NCCL: the driver's physical memory, handed to the other processes as
// file descriptors and mapped there. A mapping keeps the memory alive, so no process can pull it
// from under another.
#include <fmt/format.h>

#include "fabric/descriptor_exchange.h"
#include "fabric/memory_source.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

using cuda::check;
using cuda::DevicePtr;
using cuda::driver;

cuda::MemoryProperties properties_on(const cuda::Device& device) {
  return {cuda::kMemoryPinned,
          cuda::kHandleFileDescriptor,
          {cuda::kLocationDevice, device.id()},
          nullptr,
          {}};
}

// A piece of physical memory, mapped for all GPUs of this process.
class Mapping {
 public:
  Mapping(cuda::MemoryHandle handle, size_t num_bytes, const LocalRanks& local, int owner)
      : handle_(handle), num_bytes_(num_bytes) {
    try {
      check(driver().reserve(&address_, num_bytes, 0, 0, 0), "reserve addresses");
      check(driver().map(address_, num_bytes, 0, handle, 0), "map memory");
      is_mapped_ = true;
      for (int i = 0; i < local.count(); ++i) let_reach(local, local.first + i, owner);
    } catch (...) {
      release();
      throw;
    }
  }
  ~Mapping() { release(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  DevicePtr address() const { return address_; }
  Socket exported() const {
    int descriptor = -1;
    check(driver().memory_export(&descriptor, handle_, cuda::kHandleFileDescriptor, 0),
          "export memory");
    return Socket(descriptor);
  }

 private:
  void let_reach(const LocalRanks& local, int rank, int owner) const {
    const cuda::MemoryAccess access{{cuda::kLocationDevice, local.device(rank).id()},
                                    cuda::kAccessReadWrite};
    const cuda::Result result = driver().set_access(address_, num_bytes_, &access, 1);
    if (result == cuda::kSuccess) return;
    if (rank == owner) check(result, "use GPU memory");
    throw SystemError(fmt::format("no peer access: rank {}'s GPU cannot reach rank {}'s memory: {}",
                                  rank, owner, cuda::reason_of(result)));
  }

  void release() {
    if (is_mapped_) driver().unmap(address_, num_bytes_);
    if (address_ != 0) driver().unreserve(address_, num_bytes_);
    driver().memory_release(handle_);
  }

  cuda::MemoryHandle handle_;
  size_t num_bytes_;
  DevicePtr address_ = 0;
  bool is_mapped_ = false;
};

struct ExportedAllocation : Allocation {
  std::vector<std::unique_ptr<Mapping>> mappings;  // by rank
};

class ExportedMemory : public MemorySource {
 public:
  ExportedMemory(const LocalRanks& local, HostGroup& group) : local_(local), group_(group) {}

  std::unique_ptr<Allocation> allocate(size_t num_bytes) override {
    auto allocation = std::make_unique<ExportedAllocation>();
    allocation->mappings.resize(static_cast<size_t>(local_.ranks));
    const auto place = [&](int rank) -> auto& {
      return allocation->mappings[static_cast<size_t>(rank)];
    };
    size_t rounded = 0;
    std::vector<Socket> files;
    std::vector<int> descriptors;
    group_.together("allocating memory", [&] {
      for (int i = 0; i < local_.count(); ++i) {
        const int rank = local_.first + i;
        place(rank) = make(rank, num_bytes, rounded);
        if (group_.size() == 1) continue;
        files.push_back(place(rank)->exported());
        descriptors.push_back(files.back().fd());
      }
    });
    const auto received = exchange_descriptors(group_, descriptors);
    group_.together("mapping memory", [&] {
      for (int rank = 0; rank < local_.ranks; ++rank) {
        if (local_.holds(rank)) continue;
        const auto& of_process = received[static_cast<size_t>(local_.process_of(rank))];
        place(rank) =
            import(of_process[static_cast<size_t>(rank % local_.count())].fd(), rank, rounded);
      }
    });
    std::vector<DevicePtr> all;
    for (const auto& mapping : allocation->mappings) all.push_back(mapping->address());
    allocation->addresses.assign(static_cast<size_t>(local_.count()), all);
    return allocation;
  }

 private:
  std::unique_ptr<Mapping> make(int rank, size_t num_bytes, size_t& rounded) const {
    local_.device(rank).make_current();
    const cuda::MemoryProperties properties = properties_on(local_.device(rank));
    size_t granularity = 0;
    check(driver().memory_granularity(&granularity, &properties, cuda::kGranularityRecommended),
          "ask for the size of pages");
    rounded = (num_bytes + granularity - 1) / granularity * granularity;
    cuda::MemoryHandle handle = 0;
    const cuda::Result result = driver().memory_create(&handle, rounded, &properties, 0);
    if (result == cuda::kOutOfMemory) {
      throw SystemError(fmt::format("out of GPU memory: {} bytes do not fit", num_bytes));
    }
    check(result, "allocate GPU memory");
    return std::make_unique<Mapping>(handle, rounded, local_, rank);
  }

  std::unique_ptr<Mapping> import(int descriptor, int owner, size_t num_bytes) const {
    local_.devices[0]->make_current();
    cuda::MemoryHandle handle = 0;
    void* const file = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
    check(driver().memory_import(&handle, file, cuda::kHandleFileDescriptor), "import memory");
    return std::make_unique<Mapping>(handle, num_bytes, local_, owner);
  }

  LocalRanks local_;
  HostGroup& group_;
};

}  // namespace

std::unique_ptr<MemorySource> exported_memory(const LocalRanks& local, HostGroup& group) {
  return std::make_unique<ExportedMemory>(local, group);
}

}  // namespace stretto::fabric
