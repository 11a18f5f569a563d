// NCCL's part: the lanes of the ranks that join meet, then each rank's results are in flight.
//
// Sums are made as a ring makes them: an element's sum starts at the rank after its owner, goes
// round, and is rounded to the buffer's type at every hop; the owner's addition is the last. (In
// all_reduce, rank o owns the o-th of R equal parts of each region's elements.) So these bits
// differ from those of sums in fixed rank order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "emu/edge_calls.h"
#include "emu/faults.h"
#include "emu/in_flight.h"
#include "emu/memory.h"
#include "emu/random.h"
#include "emu/tasks.h"
#include "stretto/plan.h"

namespace stretto::emu {

class Collectives {
 public:
  Collectives(const Plan& plan, Memory& memory, InFlight& in_flight, Faults& faults, Tasks& tasks,
              Random& random, uint64_t seed);

  // The lane joins; it reads its operands now or when the last rank has come, as the dice say.
  // Returns the lanes that may go on: none until the last has come, then all.
  std::vector<uint32_t> join(const Where& where);
  // How many ranks have joined the one that the lane waits in.
  int joined(const Where& where) const;

 private:
  struct Part {  // one rank's operands, read
    Where where;
    bool sound = true;
    std::optional<std::vector<Payload>> reads;
  };
  const Instr& instr(const Where& where) const { return plan_.lanes[where.lane].instrs[where.pos]; }
  using Meeting = std::pair<int32_t, int>;  // its id, and the first rank that joins
  Plan::Joined joined_by(const Where& where) const {
    return plan_.joined_by(instr(where), plan_.lanes[where.lane].rank);
  }
  Meeting meeting_of(const Where& where) const { return {instr(where).id, joined_by(where).first}; }
  std::vector<Payload> read(const Where& where);
  bool agree(const std::vector<Part>& parts);
  void finish(std::vector<Part>& parts);
  // Sum of the ranks' payloads of one shape, as a ring makes it. `owner` < 0: all_reduce.
  Payload sum_of(const std::vector<Payload>& terms, const Region& shape, int owner);
  // By a kernel of the graph's.
  void call_kernel(const std::vector<Part>& parts);
  // One rank's results of an all_reduce_norm.
  void write_normed(const std::vector<Part>& parts, const Part& part);
  // What each rank gets of a dispatch, and of a combine (chosen_collectives.cpp).
  void send_chosen(const std::vector<Part>& parts);
  void sum_chosen(const std::vector<Part>& parts);

  const Plan& plan_;
  Memory& memory_;
  InFlight& in_flight_;
  Faults& faults_;
  Tasks& tasks_;
  Random& random_;
  std::map<Meeting, std::vector<Part>> waiting_;  // parts in order of arrival
  EdgeCalls edge_calls_;
  std::vector<std::byte> space_;
  tasks::Scratch scratch_;
};

}  // namespace stretto::emu
