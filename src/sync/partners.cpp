#include "sync/partners.h"

#include "stretto/error.h"

namespace stretto {

Partners::Partners(const Draft& draft) {
  const std::vector<Lane>& lanes = draft.plan.lanes;
  if (draft.plan.cluster == 1) return;
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<std::vector<uint32_t>> positions(lanes.size());  // by lane, in the program
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    positions[lane].assign(lanes[lane].instrs.size(), kNone);
  }
  const auto count = static_cast<uint32_t>(draft.program.size());
  for (uint32_t at = 0; at < count; ++at) {
    positions[draft.program[at].lane][draft.program[at].pos] = at;
  }
  partners_.resize(count);
  for (uint32_t at = 0; at < count; ++at) {
    const InstrRef& ref = draft.program[at];
    partners_[at] = at;
    if (lanes[ref.lane].kind != LaneKind::compute) continue;
    // Lanes of a kind stand together.
    const uint32_t other = lanes[ref.lane].index % 2 == 0 ? ref.lane + 1 : ref.lane - 1;
    STRETTO_ASSERT(other < lanes.size() && ref.pos < positions[other].size() &&
                       lanes[other].kind == LaneKind::compute &&
                       lanes[other].rank == lanes[ref.lane].rank,
                   "the lanes of a cluster have equally many instructions");
    partners_[at] = positions[other][ref.pos];
  }
}

}  // namespace stretto
