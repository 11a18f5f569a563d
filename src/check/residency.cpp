#include "check/residency.h"

#include <fmt/format.h>

#include "check/wording.h"

namespace stretto::checker {
namespace {

bool is_block(const Lane& lane) {
  return lane.kind == LaneKind::compute || lane.kind == LaneKind::comm;
}

// Which lanes wait for which, within a run.
class LaneGraph {
 public:
  LaneGraph(const Plan& plan, const InstrIndex& index, const Counters& counters)
      : plan_(plan), counters_(counters), waits_(plan.lanes.size()) {
    for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
      const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
      for (uint32_t pos = 0; pos < instrs.size(); ++pos) {
        const Instr& instr = instrs[pos];
        if (instr.op == Opcode::wait && instr.lag == 0) {
          waits_[lane].push_back(counters.of(index.of(lane, pos)));
        }
        if (instr.op == Opcode::collective) collective_lanes_.push_back(lane);
      }
    }
    collective_lanes_.erase(std::unique(collective_lanes_.begin(), collective_lanes_.end()),
                            collective_lanes_.end());
  }

  // True when `from` needs, directly or through others, another block lane of its rank.
  bool needs_block(uint32_t from) const {
    std::vector<bool> lane_seen(plan_.lanes.size(), false), counter_seen(counters_.size(), false);
    bool collectives_seen = false, found = false;
    std::vector<uint32_t> open{from};
    lane_seen[from] = true;
    auto need = [&](uint32_t lane) {
      if (lane_seen[lane]) return;
      lane_seen[lane] = true;
      found = found ||
              (is_block(plan_.lanes[lane]) && plan_.lanes[lane].rank == plan_.lanes[from].rank);
      open.push_back(lane);
    };
    while (!open.empty() && !found) {
      const uint32_t lane = open.back();
      open.pop_back();
      for (uint32_t counter : waits_[lane]) {
        if (counter_seen[counter]) continue;
        counter_seen[counter] = true;
        for (const Share& share : counters_.shares(counters_[counter])) need(share.lane);
      }
      if (plan_.lanes[lane].kind == LaneKind::nccl && !collectives_seen) {
        collectives_seen = true;
        for (uint32_t peer : collective_lanes_) need(peer);
      }
    }
    return found;
  }

  bool has_waits(uint32_t lane) const { return !waits_[lane].empty(); }

 private:
  const Plan& plan_;
  const Counters& counters_;
  std::vector<std::vector<uint32_t>> waits_;  // by lane: counters it waits for without lag
  std::vector<uint32_t> collective_lanes_;
};

InstrRef first_wait(const Plan& plan, uint32_t lane) {
  const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
  uint32_t pos = 0;
  while (instrs[pos].op != Opcode::wait || instrs[pos].lag > 0) ++pos;
  return {lane, pos};
}

}  // namespace

void check_residency(const Plan& plan, const InstrIndex& index, const Counters& counters,
                     Findings& findings) {
  std::vector<std::vector<uint32_t>> blocks(static_cast<size_t>(plan.ranks()));
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    if (is_block(plan.lanes[lane])) blocks[plan.lanes[lane].rank].push_back(lane);
  }
  const auto sms = static_cast<size_t>(std::max(plan.sms, 0));
  if (std::all_of(blocks.begin(), blocks.end(), [&](const auto& b) { return b.size() <= sms; })) {
    return;
  }
  const LaneGraph graph(plan, index, counters);
  for (size_t rank = 0; rank < blocks.size(); ++rank) {
    if (blocks[rank].size() <= sms) continue;
    std::vector<uint32_t> dependent;
    for (uint32_t lane : blocks[rank]) {
      if (dependent.size() >= std::max<size_t>(sms, 1)) break;
      if (graph.has_waits(lane) && graph.needs_block(lane)) dependent.push_back(lane);
    }
    if (dependent.empty() || dependent.size() < sms) continue;
    findings.add(DiagnosticKind::not_resident, rank, [&] {
      Diagnostic d;
      d.where = first_wait(plan, dependent.front());
      const Instr& wait = plan.lanes[d.where.lane].instrs[d.where.pos];
      d.signal = fmt::format("{}@{}", describe(plan, wait.signal), rank);
      d.message = fmt::format(
          "rank {} has {} block lanes for {} SMs, and enough of them to hold every SM wait for "
          "others, the first at {}",
          rank, blocks[rank].size(), plan.sms, at(plan, d.where));
      d.hint = fmt::format("use at most {} compute and comm lanes on a rank", plan.sms);
      return d;
    });
  }
}

}  // namespace stretto::checker
