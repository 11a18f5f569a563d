// GEMM tiles, and the stores of their remote writes.
#include "sim/engine.h"

namespace stretto::sim {

void Engine::start_gemm(uint32_t lane) {
  const int rank = rank_of(lane);
  RankState& state = ranks_[static_cast<size_t>(rank)];
  lanes_[lane].stage = Stage::task;
  const double work =
      options_.gemm_takes_time ? costs_.gemm_us(instr(lane)) * slowdown_when_late(lane) : 0;
  state.gemms.start(now_, lane, work);
  predict_gemm(rank);
}

// The w-th tiles of a rank's lanes make up its wave w; every kernel begins with one of its own.
double Engine::slowdown_when_late(uint32_t lane) {
  LaneState& state = lanes_[lane];
  const Instr& gemm = instr(lane);
  if (gemm.tile == state.tile) return state.late;  // goes on with its K
  state.tile = gemm.tile;
  std::vector<double>& begins = ranks_[static_cast<size_t>(rank_of(lane))].wave_begins;
  const size_t wave = state.tiles++;
  if (wave == begins.size()) begins.push_back(now_);
  state.late = costs_.slowdown_when_late(gemm, now_ - begins[wave]);
  return state.late;
}

// Keeps one event at or before the first end. A slowdown leaves it: it then comes too early and
// predicts again, which costs less than a new event at every slowdown.
void Engine::predict_gemm(int rank) {
  RankState& state = ranks_[static_cast<size_t>(rank)];
  if (state.gemms.idle()) return;
  const double end = state.gemms.next_end(now_);
  if (state.predicted >= 0 && state.predicted <= end) return;
  state.predicted = end;
  events_.push(end, EventKind::gemm, static_cast<uint32_t>(rank), ++state.prediction);
}

void Engine::gemm_event(const Event& event) {
  RankState& state = ranks_[event.subject];
  if (event.generation != state.prediction) return;
  state.predicted = -1;
  constexpr double kRounding = 1e-9;  // us; a tile this near its end is done
  while (!state.gemms.idle() && state.gemms.next_end(now_) <= now_ + kRounding) {
    end_gemm(state.gemms.pop(now_));
  }
  predict_gemm(static_cast<int>(event.subject));
}

void Engine::end_gemm(uint32_t lane) {
  gemm_busy_us_ += now_ - lanes_[lane].since;
  store_tile(lane);
}

// Ends the task that completes a tile; its remote writes go on behind what the block does next.
void Engine::store_tile(uint32_t lane) {
  LaneState& state = lanes_[lane];
  Traffic& traffic = transfers_[task_transfer(lane)].traffic;
  costs_.traffic_of(instr(lane), rank_of(lane), traffic);
  traffic.local_bytes = 0;
  const bool stores = !traffic.flows.empty();
  finish_task(lane);
  if (stores && state.storing) {
    state.stage = Stage::holding;
    state.since = now_;
    return;
  }
  if (stores) start_store(lane);
  ++state.pos;
  advance(lane);
}

void Engine::end_store(uint32_t lane) {
  LaneState& state = lanes_[lane];
  const Transfer& store = transfers_[store_transfer(lane)];
  const uint32_t node =
      history_.add({now_, store.before, {lane, store.pos}, NodeKind::store, store.port_rank});
  state.storing = false;
  for (uint32_t pos : state.held_notifies) send_notify(lane, pos, node);
  state.held_notifies.clear();
  if (state.stage == Stage::holding) {
    state.waiting_us += now_ - state.since;
    state.node = node;
    start_store(lane);
    ++state.pos;
    advance(lane);
  } else if (state.stage == Stage::draining) {
    state.node = node;
    advance(lane);
  }
}

}  // namespace stretto::sim
