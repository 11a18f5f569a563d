// Which lane can begin a piece of work first. Durations are rough; only their ratios matter here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <vector>

#include "stretto/lower.h"

namespace stretto {

// Nanoseconds that a block takes, by the machine's figures; 0 where it has none.
struct Pace {
  int64_t task_ns = 0;          // one full GEMM tile, or one range of its K
  double move_ns_per_byte = 0;  // loading or storing

  Pace(const Segment& op, const Schedule& schedule, const Machine& machine);
  int64_t move_ns(int64_t num_bytes) const {
    return static_cast<int64_t>(move_ns_per_byte * static_cast<double>(num_bytes));
  }
};

// Lanes by the time at which they are free, then by number.
class FreeLanes {
 public:
  void add(int lane, int64_t free_at) { lanes_.push({free_at, lane}); }
  bool empty() const { return lanes_.empty(); }
  // When work that is possible from `ready` on could begin. There must be a lane.
  int64_t start(int64_t ready) const { return std::max(ready, lanes_.top().free_at); }
  // Gives the work to the lane that is free first.
  int take(int64_t ready, int64_t duration) {
    const Free first = lanes_.top();
    const int64_t begin = start(ready);
    lanes_.pop();
    lanes_.push({begin + duration, first.lane});
    return first.lane;
  }

 private:
  struct Free {
    int64_t free_at;
    int lane;
    bool operator<(const Free& other) const {  // the top of the queue is its largest
      return free_at != other.free_at ? free_at > other.free_at : lane > other.lane;
    }
  };
  std::priority_queue<Free> lanes_;
};

}  // namespace stretto
