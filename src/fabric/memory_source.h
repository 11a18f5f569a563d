// Where symmetric memory comes from. Each source gives every local rank addresses for all ranks.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "fabric/host_group.h"
#include "gpu/device.h"

namespace stretto::fabric {

class Communicators;

enum class Source {
  peer,      // cuMemAlloc and peer access: one process
  windows,   // NCCL windows: one process or many
  exported,  // driver memory handed over as file descriptors: one process or many, without NCCL
};
std::string_view name_of(Source source);
// Throws UsageError naming the known ones.
Source source_from(std::string_view name);

// The ranks of this process: consecutive, the same number in every process.
struct LocalRanks {
  int first = 0;
  int ranks = 0;  // of the whole job
  std::span<const std::unique_ptr<cuda::Device>> devices;

  int count() const { return static_cast<int>(devices.size()); }
  int process_of(int rank) const { return rank / count(); }
  bool holds(int rank) const { return rank >= first && rank < first + count(); }
  const cuda::Device& device(int rank) const { return *devices[static_cast<size_t>(rank - first)]; }
};

// One symmetric allocation. Its end unmaps the peers' memory and frees this process's own; the
// caller sees to it that no kernel of this process uses it any more.
class Allocation {
 public:
  virtual ~Allocation() = default;
  cuda::DevicePtr address(int local, int rank) const {
    return addresses[static_cast<size_t>(local)][static_cast<size_t>(rank)];
  }

  std::vector<std::vector<cuda::DevicePtr>> addresses;  // [local rank][rank]
};

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Collective over processes. `num_bytes` is not 0.
  virtual std::unique_ptr<Allocation> allocate(size_t num_bytes) = 0;
};

// Throws SystemError when a GPU cannot reach another.
std::unique_ptr<MemorySource> peer_memory(const LocalRanks& local);
std::unique_ptr<MemorySource> exported_memory(const LocalRanks& local, HostGroup& group);
// Collective. Throws SystemError when NCCL is missing or too old.
void require_windows(HostGroup& group);
// The communicators must outlive the source.
std::unique_ptr<MemorySource> nccl_windows(const LocalRanks& local, HostGroup& group,
                                           Communicators& communicators);

}  // namespace stretto::fabric
