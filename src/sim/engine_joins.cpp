// What several lanes do together: kernel boundaries and collectives.
#include <algorithm>
#include <utility>

#include "sim/engine.h"

namespace stretto::sim {

void Engine::join_boundary(uint32_t lane) {
  LaneState& state = lanes_[lane];
  if (state.storing) {  // a kernel ends after its last store
    state.stage = Stage::draining;
    return;
  }
  state.stage = Stage::joining;
  RankState& rank = ranks_[static_cast<size_t>(rank_of(lane))];
  Join& join = rank.boundaries[instr(lane).id];
  join.lanes.push_back(lane);
  join.tasks_follow |= last_compute_task_[lane] > state.pos;
  if (join.lanes.size() < rank.compute_lanes) return;
  ++rank.passed;
  // Where nothing follows, the boundary is only the end of the last kernel. Delivers do, though no
  // kernel makes them: what is awaited ahead of them takes as long as a start (reductions by copy
  // engines beside cuBLAS of tuning/h200x8.json: 0.99 of what was measured, 0.94 without).
  const bool launches = join.tasks_follow && options_.gemm_takes_time;
  const double end = now_ + (launches ? costs_.boundary_us(rank.passed) : 0);
  const Join joined = std::move(join);
  rank.boundaries.erase(instr(lane).id);
  for (const uint32_t other : joined.lanes) {
    ++lanes_[other].pos;
    lanes_[other].tiles = static_cast<uint32_t>(rank.wave_begins.size());  // a wave begins
  }
  release(lane, end, joined);
}

bool Engine::ends_gemm_kernel(uint32_t lane) const {
  const std::vector<uint32_t>& ends = costs_.kernels().ends(lane);
  const LaneState& state = lanes_[lane];
  return state.kernels < ends.size() && ends[state.kernels] == state.pos;
}

void Engine::join_movers(uint32_t lane) {
  LaneState& state = lanes_[lane];
  if (state.storing) {
    state.stage = Stage::draining;
    return;
  }
  state.stage = Stage::joining;
  state.since = now_;
  RankState& rank = ranks_[static_cast<size_t>(rank_of(lane))];
  const uint32_t kernel = state.kernels;
  Join& join = rank.mover_kernels[kernel];
  join.lanes.push_back(lane);
  if (join.lanes.size() < rank.compute_lanes) return;
  const Join joined = std::move(join);
  rank.mover_kernels.erase(kernel);
  for (const uint32_t other : joined.lanes) ++lanes_[other].kernels;
  release(lane, now_ + (options_.gemm_takes_time ? machine_.launch_us : 0), joined);
}

// Kernels would wait for each other where tiles await what movers of their rank do, but lanes do
// not: only a plan by hand has that, and no GPU runs it.
bool Engine::let_movers_go() {
  bool any = false;
  for (RankState& rank : ranks_) {
    for (const auto& [kernel, join] : std::exchange(rank.mover_kernels, {})) {
      for (const uint32_t lane : join.lanes) ++lanes_[lane].kernels;
      release(join.lanes.back(), now_, join);
      any = true;
    }
  }
  return any;
}

// The next kernel begins; the lane was the last to come.
void Engine::release(uint32_t lane, double end, const Join& join) {
  const InstrRef last{lane, std::max(lanes_[lane].pos, 1u) - 1};
  const uint32_t node = history_.add({end, lanes_[lane].node, last, NodeKind::boundary, kNoRank});
  for (const uint32_t other : join.lanes) {
    lanes_[other].node = node;
    events_.push(end, EventKind::lane, other);
  }
}

void Engine::join_collective(uint32_t lane) {
  LaneState& state = lanes_[lane];
  state.stage = Stage::joining;
  RankState& rank = ranks_[static_cast<size_t>(rank_of(lane))];
  rank.nccl_running = true;  // its blocks spin on their SMs until the others come
  update_speed(rank_of(lane));
  Join& join = collectives_[meeting_of(lane)];
  join.lanes.push_back(lane);
  if (join.lanes.size() < static_cast<size_t>(joined_by(lane).count)) return;
  for (uint32_t other : join.lanes) {
    LaneState& joined = lanes_[other];
    joined.waiting_us += now_ - joined.since;
    joined.since = now_;
    joined.stage = Stage::task;
    joined.node = state.node;  // the last to come let all start
  }
  events_.push(now_ + costs_.collective_launch_us(instr(lane), joined_by(lane)),
               EventKind::collective_move, lane);
}

void Engine::collective_moves(uint32_t last_lane) {
  double longest = 0;
  const Join& join = collectives_[meeting_of(last_lane)];
  for (uint32_t lane : join.lanes) {
    longest = std::max(longest, costs_.collective_us(instr(lane), joined_by(lane)));
  }
  for (uint32_t lane : join.lanes) {
    ranks_[static_cast<size_t>(rank_of(lane))].nccl_moving = true;
    update_speed(rank_of(lane));
    if (longest > 0) ports_.note_collective(rank_of(lane), now_, now_ + longest);
  }
  events_.push(now_ + longest, EventKind::collective_end, last_lane);
}

void Engine::collective_ends(uint32_t last_lane) {
  const Meeting meeting = meeting_of(last_lane);
  const std::vector<uint32_t> ended = std::move(collectives_[meeting].lanes);
  collectives_.erase(meeting);
  for (uint32_t lane : ended) {
    RankState& rank = ranks_[static_cast<size_t>(rank_of(lane))];
    rank.nccl_running = rank.nccl_moving = false;
    update_speed(rank_of(lane));
    finish_task(lane);
    ++lanes_[lane].pos;
  }
  for (uint32_t lane : ended) advance(lane);
}

}  // namespace stretto::sim
