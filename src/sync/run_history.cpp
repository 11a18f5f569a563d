#include "sync/run_history.h"

#include <deque>
#include <map>
#include <utility>

#include "stretto/error.h"

namespace stretto {
namespace {

constexpr uint32_t kNone = ~0u;

std::vector<uint16_t> ranks_of_lanes(const Draft& draft,
                                     const std::vector<std::vector<uint32_t>>& joints) {
  const std::vector<Lane>& lanes = draft.plan.lanes;
  std::vector<uint16_t> ranks;
  for (const Lane& lane : lanes) ranks.push_back(lane.rank);
  for (const std::vector<uint32_t>& joint : joints) {
    ranks.push_back(lanes[draft.program[joint.front()].lane].rank);
  }
  return ranks;
}

// Lanes that meet: the compute lanes of a rank at a boundary, the nccl lanes of the ranks that a
// collective joins there.
struct Meeting {
  std::vector<uint32_t> lanes;
  size_t arrived = 0;
};

}  // namespace

RunHistory::RunHistory(const Draft& draft, const AlikeRanks* alike,
                       std::vector<std::vector<uint32_t>> joints)
    : draft_(draft),
      alike_(alike),
      joints_(std::move(joints)),
      clocks_(ranks_of_lanes(draft, joints_), draft.plan.ranks(), alike != nullptr) {
  STRETTO_ASSERT(joints_.empty() || alike == nullptr, "joints of alike ranks");
  for (const Lane& lane : draft.plan.lanes) positions_.emplace_back(lane.instrs.size());
  for (uint32_t at = 0; at < draft.program.size(); ++at) {
    positions_[draft.program[at].lane][draft.program[at].pos] = at;
  }
}

void RunHistory::run(const std::function<std::span<const uint32_t>(uint32_t)>& needs,
                     const std::function<std::span<const Event>(uint32_t)>& causes,
                     const std::function<void(uint32_t, std::span<const uint32_t>)>& told) {
  const std::vector<Lane>& lanes = draft_.plan.lanes;
  std::vector<uint32_t>& events = events_.emplace_back(draft_.program.size(), 0);
  std::vector<uint32_t> next(lanes.size(), 0);  // position of each lane
  // Blocked lanes, as a list for each instruction that they need.
  std::vector<uint32_t> first_waiter(draft_.program.size(), kNone);
  std::vector<uint32_t> next_waiter(lanes.size(), kNone);
  std::map<std::pair<int, int>, Meeting> collective;  // by the first rank and how many
  std::vector<Meeting> boundary(static_cast<size_t>(draft_.plan.ranks()));
  std::deque<uint32_t> ready;
  size_t ended = 0;
  const int ranks = alike_ ? 1 : draft_.plan.ranks();  // that execute
  for (uint32_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane].rank >= ranks) continue;
    if (lanes[lane].kind == LaneKind::compute) boundary[lanes[lane].rank].lanes.push_back(lane);
    ready.push_back(lane);
  }
  auto end = [&](uint32_t at) {
    ++ended;
    for (uint32_t lane = first_waiter[at]; lane != kNone; lane = next_waiter[lane]) {
      ready.push_back(lane);
    }
  };
  auto meet = [&](Meeting& meeting) {
    if (++meeting.arrived < meeting.lanes.size()) return;
    meeting.arrived = 0;
    const std::vector<Event> joined = clocks_.join(meeting.lanes);
    for (size_t i = 0; i < joined.size(); ++i) {
      const uint32_t lane = meeting.lanes[i];
      const uint32_t at = positions_[lane][next[lane]++];
      events[at] = joined[i].seq;
      end(at);
      ready.push_back(lane);
    }
  };
  std::vector<uint32_t> nccl_lanes;
  for (uint32_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane].kind == LaneKind::nccl && lanes[lane].rank < ranks) nccl_lanes.push_back(lane);
  }
  const auto meeting_of = [&](uint32_t lane, const Instr& instr) -> Meeting& {
    if (instr.op == Opcode::boundary) return boundary[lanes[lane].rank];
    const Plan::Joined joined = draft_.plan.joined_by(instr, lanes[lane].rank);
    const auto [found, is_new] = collective.try_emplace({joined.first, joined.count});
    for (const uint32_t other : nccl_lanes) {
      if (is_new && joined.has(lanes[other].rank)) found->second.lanes.push_back(other);
    }
    return found->second;
  };
  std::vector<uint32_t> news;
  auto append = [&](uint32_t lane, uint32_t at, std::span<const Event> known) {
    if (!known.empty()) budget_.spend(clocks_);
    const Event event = clocks_.append(lane, known, &news);
    if (told && !news.empty()) told(at, news);
    return event;
  };
  while (!ready.empty()) {
    const uint32_t lane = ready.front();
    ready.pop_front();
    while (next[lane] < lanes[lane].instrs.size()) {
      const uint32_t at = positions_[lane][next[lane]];
      bool blocked = false;
      for (uint32_t need : needs(at)) {
        if (events[home(need)] != 0) continue;
        next_waiter[lane] = std::exchange(first_waiter[home(need)], lane);
        blocked = true;
        break;
      }
      if (blocked) break;
      const std::span<const Event> known = causes(at);
      const Instr& instr = lanes[lane].instrs[next[lane]];
      if (instr.op == Opcode::boundary || instr.op == Opcode::collective) {
        // Whoever meets there hears that the others' runs have begun, if by this alone.
        const bool begins = instr.op == Opcode::collective && next[lane] == 0;
        if (!known.empty() || begins) append(lane, at, known);
        meet(meeting_of(lane, instr));
        break;  // meet() makes the lane ready again, with all that met
      }
      events[at] = append(lane, at, known).seq;
      ++next[lane];
      end(at);
    }
  }
  const size_t all =
      draft_.program.size() * static_cast<size_t>(ranks) / static_cast<size_t>(draft_.plan.ranks());
  STRETTO_ASSERT(ended == all, "lowered tasks wait for each other");
  std::vector<Event> ends;
  for (uint32_t number = 0; number < joints_.size(); ++number) {
    ends.clear();
    for (const uint32_t at : joints_[number]) ends.push_back(event(runs() - 1, at));
    const Event joined = clocks_.append(joint(0, number).lane, ends);
    STRETTO_ASSERT(joined.seq == joint(runs() - 1, number).seq, "a joint ends once a run");
  }
  for (int rank = 0; rank < ranks; ++rank) clocks_.end_run(rank);
}

}  // namespace stretto
