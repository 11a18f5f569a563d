// Which tasks stay in registers behind which: as many as a GPU can keep there.
#include <algorithm>

#include "plan/fused_faults.h"
#include "plan/normed_rows.h"

namespace stretto {
namespace {

// A gemm, and where what goes on with it may end: what is in registers is taken by then.
struct Candidate {
  uint32_t lane, begin;
  uint32_t next;               // where the one behind it may begin
  std::vector<uint32_t> ends;  // ascending
  Tile tile;                   // as the last of them leaves it
  uint32_t end() const { return ends.empty() ? begin : ends.back(); }
};

// Gemms of ranges of K follow one another, and what stands behind them did not take them from the
// first on. A reduce says by its place for the last one how many it takes; else that one may be
// taken by itself. So a long row of them is not tried from every gemm on.
uint32_t next_begin(const Plan& plan, const Lane& lane, const Tile& tile, uint32_t behind) {
  const auto writes = plan.writes(lane.instrs[tile.gemm]);
  if (behind == lane.instrs.size() || lane.instrs[behind].op != Opcode::reduce || writes.empty()) {
    return tile.gemm;
  }
  const auto reads = plan.reads(lane.instrs[behind]);
  auto before = std::find(reads.begin(), reads.end(), writes[0]) - reads.begin();
  uint32_t at = tile.gemm;
  for (uint32_t i = tile.gemm; before > 0 && i-- > tile.begin + 1;) {
    if (lane.instrs[i].op != Opcode::gemm) continue;
    at = i;
    --before;
  }
  return before == 0 ? at : tile.gemm;
}

// The first task from `at` on.
uint32_t task_from(const Lane& lane, uint32_t at) {
  while (at < lane.instrs.size() && lane.instrs[at].is_sync()) ++at;
  return at;
}

bool may_begin(const Plan& plan, const Lane& lane, uint32_t at) {
  if (!is_product(lane.instrs[at].op) || plan.library_gemms) return false;
  const uint32_t next = task_from(lane, at + 1);
  return next < lane.instrs.size() && TileTask::may_go_on(plan, lane.instrs[at], lane.instrs[next]);
}

Candidate candidate_at(const Plan& plan, uint32_t l, uint32_t at) {
  const Lane& lane = plan.lanes[l];
  Candidate candidate{l, at, at + 1, {}, {}};
  TileTask task(plan, lane, at);
  while (true) {
    const uint32_t next = task_from(lane, task.tile().last + 1);
    if (next == lane.instrs.size() || !task.take(next).empty()) {
      if (task.tile().gemm != at) candidate.next = next_begin(plan, lane, task.tile(), next);
      return candidate;
    }
    if (!task.is_whole()) continue;
    candidate.ends.push_back(next);
    candidate.tile = task.tile();
  }
}

// Behind the gemm, up to the end; and what of it a later end has left.
void put_words(Plan& plan, const Candidate& candidate, uint32_t last_end) {
  std::vector<Instr>& instrs = plan.lanes[candidate.lane].instrs;
  for (uint32_t at = candidate.begin + 1; at <= last_end; ++at) {
    instrs[at].fused = at <= candidate.end() && instrs[at].is_task();
  }
}

struct Found {
  std::vector<Candidate> candidates;
  bool any_norm = false;
};

// One pass over a lane, which may be long: what was fused before is forgotten on the way.
Found find_in_lanes(Plan& plan) {
  Found found;
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    std::vector<Instr>& instrs = plan.lanes[l].instrs;
    uint32_t begin = 0;
    for (uint32_t at = 0; at < instrs.size(); ++at) {
      instrs[at].fused = false;
      found.any_norm |= instrs[at].op == Opcode::norm;
      if (at < begin || !may_begin(plan, plan.lanes[l], at)) continue;
      Candidate candidate = candidate_at(plan, l, at);
      begin = candidate.next;
      if (candidate.ends.empty()) continue;
      put_words(plan, candidate, candidate.end());
      at = candidate.end();
      found.candidates.push_back(std::move(candidate));
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
  auto [candidates, any_norm] = find_in_lanes(plan);
  std::vector<LaneTile> tiles;
  for (const Candidate& one : candidates) tiles.push_back({one.lane, one.tile});
  while (true) {
    const auto faults = faults_of_memory(plan, tiles);
    if (faults.empty()) break;
    for (const FusedFault& fault : faults) cut(plan, candidates, fault.where);
    tiles = LaneTiles(plan).tiles;
  }
  if (!any_norm) return;
  for (Lane& lane : plan.lanes) {
    for (uint32_t at = 1; at < lane.instrs.size(); ++at) {
      Instr& instr = lane.instrs[at];
      instr.fused |= instr.op == Opcode::norm && why_not_with_sum(plan, lane, at).empty();
    }
  }
}

}  // namespace stretto
