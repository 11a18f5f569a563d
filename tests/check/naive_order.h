// What happens before what, the slow and simple way: a graph of all instructions of a few runs.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/lower.h"
#include "stretto/plan.h"

namespace stretto {

// For plans whose waits all wait for everything that a run notifies, as place_signals' do.
class NaiveOrder {
 public:
  NaiveOrder(const Plan& plan, int runs);

  // By node: whether the end of `from` in run 0 comes before it.
  std::vector<bool> after(InstrRef from) const;
  // The node at which an instruction begins.
  uint32_t begin(InstrRef ref, int run) const {
    return 2 * (static_cast<uint32_t>(run) * first_.back() + first_[ref.lane] + ref.pos);
  }

 private:
  void connect_lanes(const Plan& plan, int run);
  void connect_meetings(const Plan& plan, int run);
  void connect_signals(const Plan& plan, int run);
  void add(uint32_t from, uint32_t to) { next_[from].push_back(to); }

  std::vector<uint32_t> first_;              // by lane: number of its first instruction
  std::vector<std::vector<uint32_t>> next_;  // by node: begin and end of every instruction
  uint32_t run_ends_ = 0;                    // the node of the end of run 0 on rank 0
};

}  // namespace stretto
