// The ranks of a job, their GPUs, and memory that all of them reach: symmetric regions.
//
// A process holds all ranks (one thread or one a GPU drives them) or one of them (a process a GPU);
// the code that uses a fabric is the same. Collective calls are made once by each process, in the
// same order; they end with an error that names the rank when one is late, gone or elsewhere.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/communicators.h"
#include "fabric/host_group.h"
#include "fabric/memory_source.h"
#include "gpu/device.h"

namespace stretto::fabric {

// Named symmetric memory: the same number of bytes on every rank. It must not outlive its fabric;
// before it ends, this process's kernels that use it have ended.
class Region {
 public:
  Region() = default;
  Region(Region&&) noexcept = default;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  const std::string& name() const { return name_; }
  size_t num_bytes() const { return num_bytes_; }
  // Where `rank`'s copy lies for kernels and copies of `viewer`, a rank of this process.
  cuda::DevicePtr address(int rank, int viewer) const {
    return allocation_->address(viewer - local_.first, rank);
  }
  cuda::DevicePtr local(int rank) const { return address(rank, rank); }
  // In the viewer's GPU memory: the addresses of all ranks' copies, by rank.
  cuda::DevicePtr table(int viewer) const {
    return tables_[static_cast<size_t>(viewer - local_.first)].address();
  }

 private:
  friend class Fabric;
  void release();

  std::string name_;
  size_t num_bytes_ = 0;
  LocalRanks local_;
  std::unique_ptr<Allocation> allocation_;
  std::vector<cuda::DeviceMemory> tables_;  // by local rank
};

class Fabric {
 public:
  // Collective. This process's ranks run on the GPUs `gpus`; every process has as many. Throws
  // SystemError: no GPU, too few, mixed, shared, out of reach of each other. Where the environment
  // has ranks share GPUs (STRETTO_RANKS_A_GPU) those of one process have peer memory, those of
  // several processes exported memory, else UsageError. `free_sms`: of every GPU, for others'
  // kernels.
  Fabric(std::unique_ptr<HostGroup> group, const std::vector<int>& gpus, Source source,
         int free_sms = 0);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  int ranks() const { return local_.ranks; }
  // The ranks of this process are first_rank() ... first_rank() + num_local() - 1.
  int first_rank() const { return local_.first; }
  int num_local() const { return local_.count(); }
  bool is_local(int rank) const { return local_.holds(rank); }
  const LocalRanks& local() const { return local_; }
  // How many ranks share a GPU, at most.
  int ranks_a_gpu() const { return devices_.front()->ranks(); }
  // The GPU of a rank of this process.
  const cuda::Device& device(int rank) const { return local_.device(rank); }
  Source source() const { return source_; }
  HostGroup& group() { return *group_; }

  // Collective. Contents are undefined. Throws SystemError when it does not fit on some rank.
  Region allocate(size_t num_bytes, std::string name);
  // Collective: every process has come here. Says nothing about GPUs.
  void barrier() { group_->barrier("a barrier"); }
  // Collective at the first call with this bound. One NCCL communicator a rank, for nccl lanes,
  // whose collectives take at most `max_blocks` SMs (0: NCCL's choice). None of them has memory: a
  // collective that does not end is given up with its communicator.
  Communicators& communicators(int max_blocks = 0);

 private:
  void open_devices(const std::vector<int>& gpus, int free_sms);
  void require_memory_of_sharers() const;
  void require_equal_gpus();

  std::unique_ptr<HostGroup> group_;
  Source source_;
  std::vector<std::unique_ptr<cuda::Device>> devices_;
  LocalRanks local_;
  std::map<int, std::unique_ptr<Communicators>> communicators_;  // by bound
  std::unique_ptr<Communicators> of_windows_;
  std::unique_ptr<MemorySource> memory_;
};

// All ranks in this process: rank r is on GPU r, or so many share one (gpu/shared_gpus.h).
std::unique_ptr<Fabric> in_process(int ranks, Source source = Source::peer, int free_sms = 0);

}  // namespace stretto::fabric
