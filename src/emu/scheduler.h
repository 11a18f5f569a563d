// The adversary: decides from a seed who moves next.
//
// Actors are the plan's lanes and, after them, one caller for each rank, who starts the rank's
// runs. A mood says which actors starve (they move only when nobody else can) and how long writes
// stay in flight. Some executions keep their mood to the end, some change it many times.
#pragma once

#include <cstdint>
#include <vector>

#include "emu/index_set.h"
#include "emu/random.h"
#include "stretto/plan.h"

namespace stretto::emu {

struct Move {
  enum class Kind : uint8_t { none, step, deliver };
  Kind kind = Kind::none;
  uint32_t actor = 0;  // step: who; deliver: the lane whose writes move on
};

class Scheduler {
 public:
  Scheduler(const Plan& plan, uint64_t seed);

  uint32_t caller_of(int rank) const {
    return static_cast<uint32_t>(ranks_.size()) - callers_ + static_cast<uint32_t>(rank);
  }
  void set_runnable(uint32_t actor, bool runnable);
  void set_in_flight(uint32_t lane, bool in_flight);
  // Kind::none when nobody can move and nothing is in flight: finished or stuck.
  Move next();

  Random& random() { return random_; }
  bool split_task() { return random_.chance(split_percent_); }
  bool split_delivery() { return random_.chance(piece_percent_); }
  size_t max_in_flight() const { return max_in_flight_; }  // entries of one lane

 private:
  void change_mood(uint64_t kind);

  Random random_;
  std::vector<uint16_t> ranks_;  // by actor
  std::vector<LaneKind> kinds_;  // by actor; callers count as compute
  uint32_t callers_ = 0;
  std::vector<bool> starved_;
  IndexSet favoured_, hungry_, in_flight_;
  bool sticky_ = false;
  int64_t moves_left_ = 0;
  uint32_t last_ = 0;
  uint32_t deliver_percent_ = 0, burst_percent_ = 0, split_percent_ = 0, piece_percent_ = 0;
  bool deliver_before_hungry_ = true;
  size_t max_in_flight_ = 8;
};

}  // namespace stretto::emu
