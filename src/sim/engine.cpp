// The lanes: their order, waits, notifies and ends.
#include "sim/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/calibration.h"
#include "stretto/error.h"
#include "stretto/simulate.h"

namespace stretto::sim {
namespace {

bool is_block(LaneKind kind) { return kind == LaneKind::compute || kind == LaneKind::comm; }

// A plan file can declare more counters than any memory holds; none that lowering makes comes near.
constexpr int64_t kMaxCounters = int64_t{1} << 25;

size_t count_counters(const Plan& plan) {
  int64_t of_rank = 0;
  for (const SignalArray& array : plan.signals) of_rank += array.count;
  if (of_rank > kMaxCounters / plan.ranks()) {
    throw UsageError(
        fmt::format("the plan declares {} signals on each of {} ranks; at most {} in "
                    "all can be simulated",
                    of_rank, plan.ranks(), kMaxCounters));
  }
  return static_cast<size_t>(of_rank * plan.ranks());
}

}  // namespace

Engine::Engine(const Plan& plan, const Costs& costs, EngineOptions options)
    : plan_(plan),
      costs_(costs),
      machine_(costs.machine()),
      options_(options),
      ports_(costs_, plan.ranks()),
      lanes_(plan.lanes.size()),
      transfers_(plan.lanes.size() * 2),
      ranks_(static_cast<size_t>(plan.ranks())),
      last_compute_task_(plan.lanes.size(), 0) {
  const size_t counters = count_counters(plan);
  for (const SignalArray& array : plan.signals) {
    signal_base_.push_back(signals_per_rank_);
    signals_per_rank_ += static_cast<uint32_t>(array.count);
  }
  counters_.assign(counters, 0);
  waiters_.assign(counters, kNoLane);
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const Lane& of_plan = plan.lanes[lane];
    if (of_plan.kind != LaneKind::compute) continue;
    ++ranks_[of_plan.rank].compute_lanes;
    for (uint32_t pos = 0; pos < of_plan.instrs.size(); ++pos) {
      if (of_plan.instrs[pos].is_task()) last_compute_task_[lane] = pos + 1;
    }
  }
  if (options_.record) spans_.reserve(plan.num_instrs());
}

void Engine::run() {
  start_lanes();
  while (!events_.empty()) {
    const Event event = events_.pop();
    now_ = event.time;
    handle(event);
  }
  for (const LaneState& lane : lanes_) {
    if (lane.stage != Stage::done) report_stuck();
  }
}

void Engine::start_lanes() {
  const double launch_us = costs_.launch_us();
  std::vector<uint32_t> launches(ranks_.size(), kNoNode);
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    const LaneKind kind = plan_.lanes[lane].kind;
    const bool launched = kind == LaneKind::compute ? options_.gemm_takes_time : is_block(kind);
    // Copy engines and NCCL pay for each operation instead.
    if (launched && launch_us > 0) {
      uint32_t& node = launches[static_cast<size_t>(rank_of(lane))];
      if (node == kNoNode) {
        node = history_.add({launch_us, kNoNode, {lane, 0}, NodeKind::launch, kNoRank});
      }
      lanes_[lane].node = node;
      events_.push(launch_us, EventKind::lane, lane);
    } else {
      events_.push(0, EventKind::lane, lane);
    }
  }
}

void Engine::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::piece:
      return piece_event(event.subject);
    case EventKind::arrival:
      return arrival_event(event.subject);
    case EventKind::moved:
      return moved_event(event.subject);
    case EventKind::gemm:
      return gemm_event(event);
    case EventKind::signal:
      return deliver_notify(event.subject);
    case EventKind::port_idle:
      return port_idle_event(event.subject);
    case EventKind::lane:
      return advance(event.subject);
    case EventKind::collective_move:
      return collective_moves(event.subject);
    case EventKind::collective_end:
      return collective_ends(event.subject);
  }
}

void Engine::advance(uint32_t lane) {
  LaneState& state = lanes_[lane];
  if (state.stage == Stage::joining) state.waiting_us += now_ - state.since;
  state.stage = Stage::ready;
  while (state.pos < plan_.lanes[lane].instrs.size()) {
    if (!step(lane)) return;
    ++state.pos;
  }
  end_lane(lane);
}

bool Engine::step(uint32_t lane) {
  LaneState& state = lanes_[lane];
  state.since = now_;
  switch (instr(lane).op) {
    case Opcode::wait:
      return step_wait(lane);
    case Opcode::notify:
      return step_notify(lane);
    case Opcode::deliver:
      return true;
    case Opcode::boundary:
      join_boundary(lane);
      return false;
    case Opcode::gemm:
      start_gemm(lane);
      return false;
    case Opcode::reduce:
    case Opcode::copy:
      start_mover(lane);
      return false;
    case Opcode::collective:
      join_collective(lane);
      return false;
  }
  STRETTO_ASSERT(false, "opcode out of range");
}

void Engine::finish_task(uint32_t lane, int32_t port_rank) {
  LaneState& state = lanes_[lane];
  state.busy_us += now_ - state.since;
  state.node = history_.add({now_, state.node, here(lane), NodeKind::task, port_rank});
  if (options_.record) spans_.push_back({here(lane), state.since, now_, {kNoLane, 0}});
}

void Engine::end_lane(uint32_t lane) {
  LaneState& state = lanes_[lane];
  if (state.storing) {
    state.stage = Stage::draining;
    return;
  }
  state.stage = Stage::done;
  // A lane that ends with a notify or a wait that passed ended with the node before it.
  if (state.node != kNoNode && (last_node_ == kNoNode || history_[state.node].end > total_us_)) {
    last_node_ = state.node;
    total_us_ = history_[state.node].end;
  }
}

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

// How long the release of a copy drains behind the copies that follow it. Those inside the GPU take
// no time to speak of beside those that cross links.
double Engine::trailing_us(uint32_t lane) const {
  const LaneState& state = lanes_[lane];
  if (plan_.lanes[lane].kind != LaneKind::comm || state.sent_per_us <= 0) return 0;
  const std::vector<Instr>& instrs = plan_.lanes[lane].instrs;
  uint32_t copy = state.pos;
  while (copy > 0 && instrs[copy].op == Opcode::notify) --copy;
  const bool is_short = costs_.bytes_read(instrs[copy]) <= kShortCopyBytes;
  double left = is_short ? kShortTrailingBytes : kTrailingBytes, sent = 0;
  for (size_t at = state.pos; at < instrs.size() && left > 0; ++at) {
    if (instrs[at].op == Opcode::notify) continue;
    if (instrs[at].op != Opcode::copy) break;
    const double read = costs_.bytes_read(instrs[at]);
    if (read <= 0) continue;
    sent += costs_.bytes_sent(instrs[at], rank_of(lane)) * std::min(1.0, left / read);
    left -= read;
  }
  return sent / state.sent_per_us;
}

// How much longer the release takes behind sums of a range of K that others add.
double Engine::leaving_us(uint32_t lane) const {
  const std::vector<Instr>& instrs = plan_.lanes[lane].instrs;
  uint32_t task = lanes_[lane].pos;
  while (task > 0 && instrs[task].op == Opcode::notify) --task;
  const bool leaves = instrs[task].op == Opcode::gemm && costs_.leaves_sums(instrs[task]);
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

std::vector<LaneUse> Engine::lane_uses() const {
  std::vector<LaneUse> uses;
  uses.reserve(lanes_.size());
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    uses.push_back({lane, lanes_[lane].busy_us, lanes_[lane].waiting_us});
  }
  return uses;
}

void Engine::report_stuck() const {
  size_t stuck = 0;
  std::string first;
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    const LaneState& state = lanes_[lane];
    if (state.stage == Stage::done) continue;
    if (stuck++ > 0) continue;
    first = describe(plan_.lanes[lane]);
    const Instr& at = instr(lane);
    if (at.op == Opcode::wait) {
      first += fmt::format(" waits for {} >= {}, which stays at {}", describe(plan_, at.signal),
                           at.amount, counters_[signal_id(rank_of(lane), at.signal)]);
    } else {
      first += fmt::format(" stands in {} {}, which others never reach", to_string(at.op), at.id);
    }
  }
  throw EndlessPlan(
      fmt::format("the plan never ends: {} of {} lanes are stuck, first {}; "
                  "'stretto check' says why",
                  stuck, lanes_.size(), first));
}

}  // namespace stretto::sim
