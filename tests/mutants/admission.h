// Blocks of a plan that take SMs in any order: whether they can all come to their end.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "stretto/plan.h"

namespace stretto::mutants {

// One run of all ranks on GPUs of so many SMs, without the tasks' work. The rules are those of
// docs/plan-format.md ("Lanes"): a block takes an SM when its kernel may begin and one is free, in
// any order, and keeps it to the end of its kernel, also while it waits; but a compute lane's waits
// with nothing but a boundary or its end behind them are made when it has left. A collective starts
// on a rank that has an SM without a block; a signal of a copy or nccl lane on one that has an SM
// without a block of the GEMM.
class Admission {
 public:
  Admission(const Plan& plan, int sms, uint64_t seed);

  // False: nothing moves any more, and lanes are left.
  bool all_end();

 private:
  struct State {
    size_t pos = 0;
    bool is_resident = false;
  };

  bool is_block(const Lane& lane) const {
    return lane.kind == LaneKind::compute || lane.kind == LaneKind::comm;
  }
  bool is_over(size_t lane) const { return states_[lane].pos == plan_.lanes[lane].instrs.size(); }
  const Instr& next(size_t lane) const { return plan_.lanes[lane].instrs[states_[lane].pos]; }
  // Nothing but waits and delivers, which run nothing, up to a boundary or the lane's end.
  bool has_only_waits(size_t lane) const;
  int resident(uint16_t rank, bool only_gemms) const;
  bool admit(size_t lane);
  // As far as the lane comes; false where it does not move.
  bool advance(size_t lane);
  bool can_pass(size_t lane);
  bool pass_boundary(size_t lane);
  bool pass_collective(size_t lane);
  int64_t& counter(const SignalRef& signal, uint16_t rank);

  const Plan& plan_;
  const int sms_;
  std::mt19937_64 random_;
  std::vector<State> states_;
  std::vector<std::vector<int64_t>> counters_;  // [rank * arrays + array][index]
};

}  // namespace stretto::mutants
