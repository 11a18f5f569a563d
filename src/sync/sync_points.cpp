#include "sync/sync_points.h"

#include <algorithm>
#include <numeric>

#include "stretto/error.h"

namespace stretto {

SyncPoints find_sync_points(const Draft& draft) {
  SyncPoints points;
  points.acquire.resize(draft.program.size());
  std::iota(points.acquire.begin(), points.acquire.end(), 0u);
  points.release = points.acquire;
  points.kernel.assign(draft.program.size(), SyncPoints::kNoKernel);
  const auto by_events = [](const Schedule& one) { return one.sync == Sync::event; };
  const std::vector<Schedule>& schedules = draft.schedule.products;
  if (std::none_of(schedules.begin(), schedules.end(), by_events)) return points;

  const std::vector<Lane>& lanes = draft.plan.lanes;
  // The boundaries of each rank's first compute lane, in order.
  std::vector<std::vector<uint32_t>> boundaries(static_cast<size_t>(draft.plan.ranks()));
  for (uint32_t at = 0; at < draft.program.size(); ++at) {
    const InstrRef ref = draft.program[at];
    const Lane& lane = lanes[ref.lane];
    if (lane.kind == LaneKind::compute && lane.index == 0 &&
        lane.instrs[ref.pos].op == Opcode::boundary) {
      boundaries[lane.rank].push_back(at);
    }
  }
  std::vector<uint32_t> first_kernel;  // by rank; between n boundaries lie n + 1
  uint32_t kernels = 0;
  for (const std::vector<uint32_t>& of_rank : boundaries) {
    first_kernel.push_back(kernels);
    kernels += static_cast<uint32_t>(of_rank.size()) + 1;
  }
  std::vector<uint32_t> passed(lanes.size(), 0);  // boundaries so far, by lane
  for (uint32_t at = 0; at < draft.program.size(); ++at) {
    const InstrRef ref = draft.program[at];
    const Lane& lane = lanes[ref.lane];
    if (lane.kind != LaneKind::compute) continue;
    const std::vector<uint32_t>& of_rank = boundaries[lane.rank];
    uint32_t& count = passed[ref.lane];
    if (lane.instrs[ref.pos].op == Opcode::boundary) {
      STRETTO_ASSERT(count < of_rank.size(), "a lane has more boundaries than its rank");
      ++count;
      continue;
    }
    if (!by_events(draft.schedule_at(at))) continue;
    points.kernel[at] = first_kernel[lane.rank] + count;
    if (count > 0) points.acquire[at] = of_rank[count - 1];
    if (count < of_rank.size()) points.release[at] = of_rank[count];
  }
  return points;
}

}  // namespace stretto
