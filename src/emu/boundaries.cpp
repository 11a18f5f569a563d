#include "emu/boundaries.h"

#include <fmt/format.h>

namespace stretto::emu {

Boundaries::Boundaries(const Plan& plan, InFlight& in_flight, Faults& faults)
    : plan_(plan),
      in_flight_(in_flight),
      faults_(faults),
      ranks_(static_cast<size_t>(plan.ranks())) {
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    if (plan.lanes[lane].kind != LaneKind::compute) continue;
    ranks_[plan.lanes[lane].rank].lanes.push_back(lane);
  }
}

std::vector<uint32_t> Boundaries::join(const Where& where) {
  Rank& rank = ranks_[plan_.lanes[where.lane].rank];
  if (!rank.waiting.empty() && id_at(where) != id_at(rank.waiting[0])) {
    const Where& first = rank.waiting[0];
    faults_.disagreement(
        where, fmt::format("{} stands at boundary {}, this lane at {}",
                           describe(plan_.lanes[first.lane]), id_at(first), id_at(where)));
  }
  rank.waiting.push_back(where);
  if (rank.waiting.size() < rank.lanes.size()) return {};
  // The kernel has ended: what it wrote is in memory. Its notifies may still be under way.
  for (const uint32_t lane : rank.lanes) in_flight_.deliver_writes(lane);
  std::vector<uint32_t> lanes;
  for (const Where& one : rank.waiting) lanes.push_back(one.lane);
  rank.waiting.clear();
  return lanes;
}

}  // namespace stretto::emu
