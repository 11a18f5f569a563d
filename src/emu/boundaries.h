// The ends of kernels: the compute lanes of a rank meet, then all of them go on.
#pragma once

#include <cstdint>
#include <vector>

#include "emu/faults.h"
#include "emu/in_flight.h"
#include "stretto/plan.h"

namespace stretto::emu {

class Boundaries {
 public:
  Boundaries(const Plan& plan, InFlight& in_flight, Faults& faults);

  // The lane joins. Returns the lanes that may go on: none until the rank's last one has come, then
  // all.
  std::vector<uint32_t> join(const Where& where);
  // How many of a rank's lanes have joined the one that they wait at, and how many there are.
  size_t joined(int rank) const { return ranks_[static_cast<size_t>(rank)].waiting.size(); }
  size_t members(int rank) const { return ranks_[static_cast<size_t>(rank)].lanes.size(); }

 private:
  struct Rank {
    std::vector<uint32_t> lanes;
    std::vector<Where> waiting;  // in order of arrival
  };
  int32_t id_at(const Where& where) const { return plan_.lanes[where.lane].instrs[where.pos].id; }

  const Plan& plan_;
  InFlight& in_flight_;
  Faults& faults_;
  std::vector<Rank> ranks_;
};

}  // namespace stretto::emu
