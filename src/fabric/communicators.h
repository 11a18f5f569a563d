// NCCL communicators over all ranks of a job, one for each rank of this process, and over teams of
// them.
#pragma once

#include <functional>
#include <map>
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

  // Collective. Connects the ranks of each team of so many, one team behind the other; nothing
  // where they are connected. Their number divides that of all ranks. Throws as the constructor
  // does.
  void connect_teams(int ranks, HostGroup& group);

  // Who makes a call: a rank of this process, with all ranks or with those of its team of so many,
  // which were connected.
  struct Caller {
    Caller(int of_rank, int of_team = 0) : rank(of_rank), team(of_team) {}  // NOLINT: a rank is one
    int rank, team;
  };
  // Enqueued on a stream of the rank. All who make a call with each other must enqueue the same
  // ones in the same order; the rank's GPU is current. Counts are elements, other ranks counted
  // from the team's first.
  void all_gather(const Caller& caller, const cuda::Stream& stream, cuda::DevicePtr from,
                  cuda::DevicePtr to, int64_t count_each, DType dtype) const;
  void reduce_scatter(const Caller& caller, const cuda::Stream& stream, cuda::DevicePtr from,
                      cuda::DevicePtr to, int64_t count_each, DType dtype) const;
  void all_reduce(const Caller& caller, const cuda::Stream& stream, cuda::DevicePtr from,
                  cuda::DevicePtr to, int64_t count, DType dtype) const;
  void broadcast(const Caller& caller, const cuda::Stream& stream, cuda::DevicePtr from,
                 cuda::DevicePtr to, int64_t count, DType dtype, int root) const;
  void reduce(const Caller& caller, const cuda::Stream& stream, cuda::DevicePtr from,
              cuda::DevicePtr to, int64_t count, DType dtype, int root) const;
  // To be matched by the peer's other one. Those of one exchange belong into one operation.
  void send(const Caller& caller, const cuda::Stream& stream, cuda::DevicePtr from, int64_t count,
            DType dtype, int to) const;
  void receive(const Caller& caller, const cuda::Stream& stream, cuda::DevicePtr to, int64_t count,
               DType dtype, int from) const;
  // Part r of every rank to rank r, where it is the part of the rank that it is from. Parts lie one
  // behind another, of so many elements by peer.
  void all_to_all(const Caller& caller, const cuda::Stream& stream, cuda::DevicePtr from,
                  std::span<const int64_t> sent, cuda::DevicePtr to,
                  std::span<const int64_t> received, DType dtype) const;

  NcclComm of(const Caller& caller) const {
    return comms_.at(caller.team)[static_cast<size_t>(caller.rank - local_.first)];
  }

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
  void connect(int team, HostGroup& group);
  std::shared_ptr<BackgroundSteps> start_for_each(void (*step)(NcclComm)) const;

  LocalRanks local_;
  int max_blocks_;
  bool is_aborted_ = false;
  std::shared_ptr<BackgroundSteps> giving_up_;  // the last, once there was one
  int generation_ = 0;
  std::map<int, std::vector<NcclComm>> comms_;  // by ranks of a team, 0: of all; by local rank
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
