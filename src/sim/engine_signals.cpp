// Waits and notifies of lanes.
#include <algorithm>
#include <limits>

#include "sim/calibration.h"
#include "sim/engine.h"

namespace stretto::sim {

bool Engine::step_wait(uint32_t lane) {
  LaneState& state = lanes_[lane];
  const Instr& wait = instr(lane);
  // The first run: no earlier one has anything left to read or write.
  if (wait.lag > 0) return true;
  const uint32_t signal = signal_id(rank_of(lane), wait.signal);
  if (counters_[signal] >= wait.amount) return true;
  state.stage = Stage::waiting;
  state.next_waiter = waiters_[signal];
  waiters_[signal] = lane;
  return false;
}

bool Engine::step_notify(uint32_t lane) {
  LaneState& state = lanes_[lane];
  if (plan_.lanes[lane].kind == LaneKind::copy) {
    // A copy of a few bytes behind the data, which the copy after it waits for.
    const double end = now_ + machine_.copy_launch_us;
    send_notify(lane, state.pos, state.node, machine_.copy_launch_us);
    state.stage = Stage::task;
    ++state.pos;
    events_.push(end, EventKind::lane, lane);
    return false;
  }
  if (state.storing) {
    state.held_notifies.push_back(state.pos);
  } else {
    send_notify(lane, state.pos, state.node, trailing_us(lane) + leaving_us(lane));
  }
  return true;
}

// A copy of few bytes takes the time of a start: the copies behind it are as fast as all were.
void Engine::note_sent(uint32_t lane, double bytes, double took_us) {
  LaneState& state = lanes_[lane];
  state.sent += bytes;
  state.sending_us += took_us;
  state.sent_per_us = std::max(bytes / took_us, state.sent / state.sending_us);
}

// How long the release of a copy drains behind the copies that follow it. Those inside the GPU take
// no time to speak of beside those that cross links.
double Engine::trailing_us(uint32_t lane) const {
  const LaneState& state = lanes_[lane];
  if (plan_.lanes[lane].kind != LaneKind::comm || state.sent_per_us <= 0) return 0;
  const Instr& copy = plan_.lanes[lane].instrs[state.released];
  const double most = costs_.is_short_copy(copy) ? kShortTrailingBytes : kTrailingBytes;
  return trailing_copies_.sent_behind(lane, state.pos, most) / state.sent_per_us;
}

// How much longer the release takes behind sums of a range of K that others add.
double Engine::leaving_us(uint32_t lane) const {
  const Instr& task = plan_.lanes[lane].instrs[lanes_[lane].released];
  const bool leaves = task.op == Opcode::gemm && costs_.leaves_sums(task);
  return leaves ? kLeavingReleases * machine_.release_us : 0;
}

void Engine::send_notify(uint32_t lane, uint32_t pos, uint32_t before, double delay_us) {
  const Instr& notify = plan_.lanes[lane].instrs[pos];
  const double seen = now_ + delay_us + costs_.signal_us(rank_of(lane), notify.rank);
  const uint32_t node = history_.add({seen, before, {lane, pos}, NodeKind::notify, kNoRank});
  events_.push(seen, EventKind::signal, node);
}

void Engine::deliver_notify(uint32_t node) {
  const InstrRef from = history_[node].where;
  const Instr& notify = plan_.lanes[from.lane].instrs[from.pos];
  const uint32_t signal = signal_id(notify.rank, notify.signal);
  int64_t& counter = counters_[signal];
  const int64_t room = std::numeric_limits<int64_t>::max() - counter;
  counter += std::min(notify.amount, room);
  // Lanes are taken out before any goes on, since one may wait for the same signal again.
  std::vector<uint32_t> released;
  uint32_t* link = &waiters_[signal];
  while (*link != kNoLane) {
    const uint32_t lane = *link;
    LaneState& state = lanes_[lane];
    if (counter >= instr(lane).amount) {
      *link = state.next_waiter;
      released.push_back(lane);
    } else {
      link = &state.next_waiter;
    }
  }
  std::sort(released.begin(), released.end());
  for (uint32_t lane : released) {
    LaneState& state = lanes_[lane];
    state.waiting_us += now_ - state.since;
    if (options_.record) spans_.push_back({here(lane), state.since, now_, from});
    state.node = node;
    ++state.pos;
    advance(lane);
  }
}

}  // namespace stretto::sim
