// Which tasks stay in registers behind which: as many as a GPU can keep there.
#include <algorithm>

#include "plan/fused_faults.h"
#include "plan/normed_rows.h"

namespace stretto {
namespace {

// A gemm, and where what goes on with it may end: what is in registers is taken by then.
struct Candidate {
  uint32_t lane, begin;
  std::vector<uint32_t> ends;  // ascending
  uint32_t end() const { return ends.empty() ? begin : ends.back(); }
};

Candidate candidate_at(const Plan& plan, uint32_t l, uint32_t at) {
  const Lane& lane = plan.lanes[l];
  Candidate candidate{l, at, {}};
  TileTask task(plan, lane, at);
  while (true) {
    uint32_t next = task.tile().last + 1;
    while (next < lane.instrs.size() && lane.instrs[next].is_sync()) ++next;
    if (next == lane.instrs.size() || !task.take(next).empty()) return candidate;
    if (task.is_whole()) candidate.ends.push_back(next);
  }
}

// Behind the gemm, up to the end; and what of it a later end has left.
void put_words(Plan& plan, const Candidate& candidate, uint32_t last_end) {
  std::vector<Instr>& instrs = plan.lanes[candidate.lane].instrs;
  for (uint32_t at = candidate.begin + 1; at <= last_end; ++at) {
    instrs[at].fused = at <= candidate.end() && instrs[at].is_task();
  }
}

std::vector<Candidate> find_in_lanes(Plan& plan) {
  std::vector<Candidate> found;
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const std::vector<Instr>& instrs = plan.lanes[l].instrs;
    for (uint32_t at = 0; at < instrs.size(); ++at) {
      if (instrs[at].op != Opcode::gemm) continue;
      Candidate candidate = candidate_at(plan, l, at);
      if (candidate.ends.empty()) continue;
      put_words(plan, candidate, candidate.end());
      at = candidate.end();
      found.push_back(std::move(candidate));
    }
  }
  return found;
}

// Leaves the task out in which the fault is, and what goes on behind it.
void cut(Plan& plan, std::vector<Candidate>& candidates, const InstrRef& fault) {
  const auto behind = std::upper_bound(
      candidates.begin(), candidates.end(), fault, [](const InstrRef& at, const Candidate& one) {
        return std::pair(at.lane, at.pos) < std::pair(one.lane, one.begin);
      });
  Candidate& candidate = *(behind - 1);
  const uint32_t last_end = candidate.end();
  while (!candidate.ends.empty() && candidate.ends.back() >= fault.pos) candidate.ends.pop_back();
  put_words(plan, candidate, last_end);
}

}  // namespace

void fuse_tasks(Plan& plan) {
  for (Lane& lane : plan.lanes) {
    for (Instr& instr : lane.instrs) instr.fused = false;
  }
  if (!plan.library_gemms) {
    std::vector<Candidate> candidates = find_in_lanes(plan);
    while (true) {
      const auto faults = faults_of_memory(plan, LaneTiles(plan).tiles);
      if (faults.empty()) break;
      for (const FusedFault& fault : faults) cut(plan, candidates, fault.where);
    }
  }
  for (Lane& lane : plan.lanes) {
    for (uint32_t at = 1; at < lane.instrs.size(); ++at) {
      Instr& instr = lane.instrs[at];
      instr.fused |= instr.op == Opcode::norm && why_not_with_sum(plan, lane, at).empty();
    }
  }
}

}  // namespace stretto
