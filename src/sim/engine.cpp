// The lanes: their order and ends.
#include "sim/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "stretto/error.h"
#include "stretto/simulate.h"

namespace stretto::sim {
namespace {

bool is_block(LaneKind kind) { return kind == LaneKind::compute || kind == LaneKind::comm; }

// A plan file can declare more counters than any memory holds; none that lowering makes comes near.
constexpr int64_t kMaxCounters = int64_t{1} << 25;

}  // namespace

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

Engine::Engine(const Plan& plan, const Costs& costs, EngineOptions options)
    : plan_(plan),
      costs_(costs),
      machine_(costs.machine()),
      options_(options),
      trailing_copies_(plan, costs),
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
  do {
    while (!events_.empty()) {
      const Event event = events_.pop();
      now_ = event.time;
      handle(event);
    }
  } while (let_movers_go());
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
  for (;;) {
    if (ends_gemm_kernel(lane)) return join_movers(lane);
    if (state.pos == plan_.lanes[lane].instrs.size()) break;
    if (!step(lane)) return;
    ++state.pos;
  }
  end_lane(lane);
}

bool Engine::step(uint32_t lane) {
  LaneState& state = lanes_[lane];
  state.since = now_;
  if (instr(lane).op != Opcode::notify) state.released = state.pos;
  switch (instr(lane).form()) {
    case OpForm::wait:
      return step_wait(lane);
    case OpForm::notify:
      return step_notify(lane);
    case OpForm::deliver:
      return true;
    case OpForm::boundary:
      join_boundary(lane);
      return false;
    case OpForm::task_kind:
      if (instr(lane).kind()->cost.rate == Rate::mmas) {
        start_gemm(lane);
      } else {
        start_mover(lane);
      }
      return false;
    case OpForm::collective:
      join_collective(lane);
      return false;
  }
  STRETTO_ASSERT(false, "form out of range");
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
  InstrRef where;
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    const LaneState& state = lanes_[lane];
    if (state.stage == Stage::done) continue;
    if (stuck++ > 0) continue;
    where = here(lane);
    first = describe(plan_.lanes[lane]);
    const Instr& at = instr(lane);
    if (at.op == Opcode::wait) {
      first += fmt::format(" waits for {} >= {}, which stays at {}", describe(plan_, at.signal),
                           at.amount, counters_[signal_id(rank_of(lane), at.signal)]);
    } else {
      first += fmt::format(" stands in {} {}, which others never reach", to_string(at.op), at.id);
    }
  }
  throw EndlessPlan(fmt::format("the plan never ends: {} of {} lanes are stuck, first {}; "
                                "'stretto check' says why",
                                stuck, lanes_.size(), first),
                    where);
}

}  // namespace stretto::sim
