// How long the host waits for runs that do not end, judged by what it sees of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace stretto::runtime {

// How a plan's runs can be held up.
struct WaitKinds {
  bool in_streams = false;  // by waits of streams, which end when the host lets them go
  bool in_kernels = false;  // by waits of kernels, which have a deadline of their own
  bool in_nccl = false;     // by collectives, which end only with their communicator
};

class RunWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::nanoseconds;
  // Between two looks.
  static constexpr Duration kLook = std::chrono::milliseconds(20);

  struct Seen {
    std::vector<uint64_t> begun;  // changes when a run begins
    bool is_counted = true;       // whether it does in every run
    bool is_aborted = false;      // some wait has failed, on whatever rank
    bool some_ended = false;      // some rank has come to the end of its runs
  };
  enum class Verdict { wait, release, give_up };

  // `timeout`: of a wait. `others_wait`: other processes, for what this one has to say.
  RunWatch(const WaitKinds& kinds, Duration timeout, bool others_wait, Time now)
      : kinds_(kinds),
        timeout_(timeout),
        others_wait_(others_wait),
        since_(now),
        none_ended_at_(now) {}

  // Not all of this process's ranks have ended. Release: let go what waits. Give up: that did not
  // help. `streams_wait` is asked whether a stream waits for what has not come.
  Verdict look(Time now, const Seen& seen, const std::function<bool()>& streams_wait);

  // Whether the collectives are to be let go too: once nothing else can hold them up.
  bool releases_nccl() const {
    const bool others_first = kinds_.in_streams || kinds_.in_kernels;
    return kinds_.in_nccl && releases_ > (others_first ? 1 : 0);
  }

 private:
  bool is_late(Time now, const Seen& seen, const std::function<bool()>& streams_wait) const;

  WaitKinds kinds_;
  Duration timeout_;
  bool others_wait_;
  std::vector<uint64_t> begun_;
  Time since_, none_ended_at_;
  int releases_ = 0;
};

}  // namespace stretto::runtime
