#include <fmt/format.h>

#include "fabric/memory_source.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

using cuda::check;
using cuda::driver;

class PeerAllocation : public Allocation {
 public:
  PeerAllocation(const LocalRanks& local, size_t num_bytes) : local_(local) {
    for (const auto& device : local.devices) {
      device->make_current();
      memory_.emplace_back(num_bytes);
    }
    std::vector<cuda::DevicePtr> all;
    for (const cuda::DeviceMemory& memory : memory_) all.push_back(memory.address());
    addresses.assign(memory_.size(), all);  // one address space for all GPUs of a process
  }
  ~PeerAllocation() override {
    for (size_t i = 0; i < memory_.size(); ++i) {
      driver().context_set(local_.devices[i]->context());
      memory_[i] = {};
    }
  }

 private:
  LocalRanks local_;
  std::vector<cuda::DeviceMemory> memory_;
};

void enable_access(const cuda::Device& from, const cuda::Device& to) {
  int can = 0;
  check(driver().can_access_peer(&can, from.id(), to.id()), "ask for peer access");
  if (can == 0) {
    throw SystemError(fmt::format("no peer access: GPU {} cannot reach GPU {}'s memory",
                                  from.index(), to.index()));
  }
  from.make_current();
  constexpr cuda::Result kAlreadyEnabled = 704;
  const cuda::Result result = driver().enable_peer(to.context(), 0);
  if (result != kAlreadyEnabled) check(result, "enable peer access");
}

class PeerMemory : public MemorySource {
 public:
  explicit PeerMemory(const LocalRanks& local) : local_(local) {
    for (const auto& from : local.devices) {
      for (const auto& to : local.devices) {
        if (from->id() != to->id()) enable_access(*from, *to);
      }
    }
  }
  std::unique_ptr<Allocation> allocate(size_t num_bytes) override {
    return std::make_unique<PeerAllocation>(local_, num_bytes);
  }

 private:
  LocalRanks local_;
};

}  // namespace

std::unique_ptr<MemorySource> peer_memory(const LocalRanks& local) {
  if (local.count() != local.ranks) {
    throw UsageError("peer memory serves one process; several need windows or exported memory");
  }
  return std::make_unique<PeerMemory>(local);
}

}  // namespace stretto::fabric
