// NCCL communicators over all ranks of a job, one for each rank of this process.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fabric/memory_source.h"
#include "fabric/nccl_api.h"
#include "gpu/device.h"
#include "stretto/dtype.h"

namespace stretto::fabric {

class BackgroundSteps;

class Communicators {
 public:
  // Collective. A collective takes at most `max_blocks` SMs; 0: as many as NCCL likes. Throws
  // SystemError: no NCCL, different versions, or it cannot connect; UsageError where ranks share
  // GPUs, which NCCL refuses.
  Communicators(const LocalRanks& local, HostGroup& group, int max_blocks = 0);
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  // Enqueued on a stream of `rank`, a rank of this process. All ranks must enqueue the same calls
  // in the same order; the rank's GPU is current. Counts are elements.
  void all_gather(int rank, const cuda::Stream& stream, cuda::DevicePtr from, cuda::DevicePtr to,
                  int64_t count_each, DType dtype) const;
  void reduce_scatter(int rank, const cuda::Stream& stream, cuda::DevicePtr from,
                      cuda::DevicePtr to, int64_t count_each, DType dtype) const;
  void all_reduce(int rank, const cuda::Stream& stream, cuda::DevicePtr from, cuda::DevicePtr to,
                  int64_t count, DType dtype) const;
  void broadcast(int rank, const cuda::Stream& stream, cuda::DevicePtr from, cuda::DevicePtr to,
                 int64_t count, DType dtype, int root) const;
  void reduce(int rank, const cuda::Stream& stream, cuda::DevicePtr from, cuda::DevicePtr to,
              int64_t count, DType dtype, int root) const;
  // To be matched by the peer's other one. Those of one exchange belong into one operation.
  void send(int rank, const cuda::Stream& stream, cuda::DevicePtr from, int64_t count, DType dtype,
            int to) const;
  void receive(int rank, const cuda::Stream& stream, cuda::DevicePtr to, int64_t count, DType dtype,
               int from) const;
  // Part r of every rank to rank r, where it is the part of the rank that it is from. Parts lie one
  // behind another, of so many elements by peer.
  void all_to_all(int rank, const cuda::Stream& stream, cuda::DevicePtr from,
                  std::span<const int64_t> sent, cuda::DevicePtr to,
                  std::span<const int64_t> received, DType dtype) const;

  NcclComm of(int rank) const { return comms_[static_cast<size_t>(rank - local_.first)]; }

  // Ends what this process's ranks have enqueued, without results: for collectives that a rank does
  // not come to, which have no deadline of their own. Nothing can be enqueued any more.
  void abort();
  bool is_aborted() const { return is_aborted_; }
  // Collective, once what was enqueued has ended on all ranks: where some process gave theirs up,
  // new communicators in place of the old. Graphs that were captured with those do nothing useful
  // any more. False, on all processes, as long as such graphs, or other work, still hold the old
  // ones (kStillHeld): then nothing can be enqueued yet.
  bool renew(HostGroup& group);
  // Waits until NCCL has freed what was given up here, or for some seconds; whether it has.
  bool has_let_go() const;
  // How often there were new ones.
  int generation() const { return generation_; }

 private:
  void connect(HostGroup& group);

  LocalRanks local_;
  int max_blocks_;
  bool is_aborted_ = false;
  std::shared_ptr<BackgroundSteps> giving_up_;  // the last, once there was one
  int generation_ = 0;
  std::vector<NcclComm> comms_;
};

// Makes the NCCL calls in `calls` as one operation: one thread serves several ranks so, and a
// rank's parts start together.
void as_one_operation(const std::function<void()>& calls);

// Runs step(i) for every local rank i, each on a thread of its own with its GPU current: NCCL's
// set-up calls wait for each other. Throws the first error, or SystemError after `timeout_s`; then
// a step may still be stuck, so steps own what they touch.
void on_every_rank(const LocalRanks& local, const char* what, double timeout_s,
                   const std::function<void(int)>& step);

// What the caller can do when renew() returns false.
inline constexpr const char* kStillHeld =
    "graphs that were captured with collectives of NCCL, or other work on their GPUs, still hold "
    "what was given up: end them, on all ranks, and call finish() again";

}  // namespace stretto::fabric
