// Transfers: data that blocks, epilogues and copy engines move through memory and ports.
#include <algorithm>
#include <cmath>

#include "sim/calibration.h"
#include "sim/engine.h"

namespace stretto::sim {
namespace {

// Pieces are small enough that transfers share a port fairly, and few enough to be cheap.
constexpr double kPieceBytes = 256e3, kMemoryPieceBytes = 1e6, kMostPieces = 64;

}  // namespace

void Engine::cut_into_pieces(Transfer& transfer) const {
  const double wanted = std::max(transfer.traffic.flow_bytes() / kPieceBytes,
                                 transfer.traffic.local_bytes / kMemoryPieceBytes);
  transfer.pieces = transfer.left = std::clamp(std::ceil(wanted), 1.0, kMostPieces);
}

void Engine::start_mover(uint32_t lane) {
  const int rank = rank_of(lane);
  const uint32_t id = task_transfer(lane);
  Transfer& transfer = transfers_[id];
  lanes_[lane].stage = Stage::task;
  costs_.traffic_of(instr(lane), rank, transfer.traffic);
  double start = now_ + costs_.start_us(instr(lane));
  if (ends_tile(lane)) {
    transfer.traffic.flows.clear();
    if (options_.gemm_takes_time) {
      start += costs_.follow_us(instr(lane));
    } else {
      transfer.traffic.local_bytes = 0;
    }
  }
  if (!options_.gemm_takes_time && instr(lane).kind()->cost.counts_as_product) {
    transfer.traffic.local_bytes = 0;
  }
  cut_into_pieces(transfer);
  if (instr(lane).kind()->cost.rate == Rate::sums) {
    // Ranges of K are kept in the order in which lanes add them.
    transfer.row_fill = ends_tile(lane) ? 1 : costs_.row_fill(instr(lane));
  }
  const bool pushes = !transfer.traffic.flows.empty();
  if (plan_.lanes[lane].kind == LaneKind::copy) {
    const size_t operations = std::max<size_t>(1, transfer.traffic.flows.size());
    start += machine_.copy_launch_us * static_cast<double>(operations);
  } else {
    RankState& state = ranks_[static_cast<size_t>(rank)];
    state.pushing += pushes;
    state.using_memory += transfer.traffic.local_bytes > 0;
  }
  events_.push(start, EventKind::piece, id);
}

void Engine::start_store(uint32_t lane) {
  LaneState& state = lanes_[lane];
  Transfer& store = transfers_[store_transfer(lane)];
  std::swap(store.traffic, transfers_[task_transfer(lane)].traffic);
  cut_into_pieces(store);
  const size_t parts = plan_.writes(instr(lane)).size();
  store.parts_us = costs_.stores_parts(instr(lane))
                       ? kStoreOfPartsUs + kStoreOfPartUs * static_cast<double>(parts)
                       : 0;
  store.pos = state.pos;
  store.before = state.node;
  state.storing = true;
  piece_event(store_transfer(lane));
}

double Engine::own_pace_us(uint32_t id) {
  const Transfer& transfer = transfers_[id];
  const Lane& lane = plan_.lanes[id / 2];
  const double local = transfer.traffic.local_bytes / transfer.pieces;
  const double flow_bytes = transfer.traffic.flow_bytes();
  const double flow = flow_bytes / transfer.pieces;
  const size_t flows = transfer.traffic.flows.size();
  RankState& state = ranks_[lane.rank];
  if (id == store_transfer(id / 2)) {
    return move_us(flow, machine_.epilogue_push_gb_per_s) + transfer.parts_us / transfer.pieces;
  }
  if (lane.kind == LaneKind::copy) {
    // A push reads its own memory as fast as the link takes it; only local copies are bound by it.
    if (flows == 0) return move_us(local, machine_.hbm_gb_per_s);
    const double alone = move_us(flow, costs_.copy_rate(flow_bytes / static_cast<double>(flows)));
    state.copies_free_at =
        std::max(state.copies_free_at, now_) + move_us(flow, costs_.all_copies_rate());
    return std::max(alone, state.copies_free_at - now_);
  }
  double pace = 0;
  if (local > 0) {
    const bool computes = instr(id / 2).kind()->cost.rate == Rate::sums;
    const double share =
        computes && lane.kind == LaneKind::comm ? kReduceShare * transfer.row_fill : 1;
    pace = move_us(local, costs_.memory_rate(state.using_memory, share));
  }
  if (flow > 0) {
    const bool sends = lane.kind == LaneKind::comm;
    const double running = state.gemms.running() / std::max(1u, state.compute_lanes);
    const double beside = sends ? 1 + kPushBesideGemm * running : 1;
    // Beside our tiles a block is slower and many still fill the link; beside cuBLAS they do not.
    const double together = plan_.library_gemms ? beside : 1;
    pace = std::max({pace, beside * move_us(flow, costs_.push_rate(1, flows)),
                     together * move_us(flow, costs_.push_rate(state.pushing, flows))});
    if (sends && costs_.is_short_copy(instr(id / 2))) {
      pace = std::max(pace, move_us(flow, costs_.push_rate(1, flows)) + kLandsUs / transfer.pieces);
    }
  }
  return pace;
}

double Engine::disturbance(uint32_t id) const {
  if (id == store_transfer(id / 2)) return kEpilogueSlowdown;
  return plan_.lanes[id / 2].kind == LaneKind::copy ? machine_.gemm_slowdown_copy_engine
                                                    : machine_.gemm_slowdown_sm_push;
}

void Engine::serve(uint32_t port, double bytes, double slowdown, Ports::Service& service) {
  service = ports_.serve(port, now_, bytes, slowdown);
  if (!service.woke) return;
  events_.push(service.end, EventKind::port_idle, port);
  update_speed(Ports::rank_of(port));
}

void Engine::piece_event(uint32_t id) {
  Transfer& transfer = transfers_[id];
  transfer.piece_end = now_ + own_pace_us(id);
  transfer.port_rank = kNoRank;
  double first_start = -1;
  for (const Flow& flow : transfer.traffic.flows) {
    const bool network = !machine_.same_node(flow.from, flow.to);
    Ports::Service service;
    serve(Ports::index(flow.from, network, Way::out), flow.bytes / transfer.pieces, disturbance(id),
          service);
    if (first_start < 0 || service.start < first_start) first_start = service.start;
    if (service.end > transfer.piece_end) {
      transfer.piece_end = service.end;
      transfer.port_rank = flow.from;
    }
  }
  if (first_start > now_) {
    events_.push(first_start, EventKind::arrival, id);
  } else {
    arrival_event(id);
  }
}

void Engine::arrival_event(uint32_t id) {
  Transfer& transfer = transfers_[id];
  bool far = false;
  for (const Flow& flow : transfer.traffic.flows) {
    const bool network = !machine_.same_node(flow.from, flow.to);
    far |= network;
    Ports::Service service;
    serve(Ports::index(flow.to, network, Way::in), flow.bytes / transfer.pieces, disturbance(id),
          service);
    if (service.end > transfer.piece_end) {
      transfer.piece_end = service.end;
      transfer.port_rank = flow.to;
    }
  }
  transfer.left -= 1;
  if (transfer.left > 0) {
    events_.push(transfer.piece_end, EventKind::piece, id);
  } else {
    const double flight = far ? machine_.network_latency_us : 0;
    events_.push(transfer.piece_end + flight, EventKind::moved, id);
  }
}

void Engine::moved_event(uint32_t id) {
  const uint32_t lane = id / 2;
  if (id == store_transfer(lane)) return end_store(lane);
  const Transfer& transfer = transfers_[id];
  if (plan_.lanes[lane].kind != LaneKind::copy) {
    RankState& state = ranks_[static_cast<size_t>(rank_of(lane))];
    state.pushing -= !transfer.traffic.flows.empty();
    state.using_memory -= transfer.traffic.local_bytes > 0;
  }
  if (ends_tile(lane)) return store_tile(lane);
  const double took_us = now_ - lanes_[lane].since;
  const bool copies = only_moves(instr(lane)) && took_us > 0;
  lanes_[lane].sent_per_us = 0;
  if (copies) note_sent(lane, costs_.bytes_sent(instr(lane), rank_of(lane)), took_us);
  finish_task(lane, transfer.port_rank);
  ++lanes_[lane].pos;
  advance(lane);
}

void Engine::port_idle_event(uint32_t port) {
  const double free_at = ports_.free_at(port);
  if (free_at > now_) {
    events_.push(free_at, EventKind::port_idle, port);
    return;
  }
  ports_.set_idle(port);
  update_speed(Ports::rank_of(port));
}

void Engine::update_speed(int rank) {
  RankState& state = ranks_[static_cast<size_t>(rank)];
  double slowdown = 1 + ports_.slowdown(rank);
  if (state.nccl_moving) slowdown += machine_.gemm_slowdown_sm_push - 1;
  double share = 1;  // of the SMs that the compute lanes count on
  if (state.nccl_running && state.compute_lanes > 0) {
    share = std::min(1.0, static_cast<double>(machine_.sms - machine_.nccl_sms) /
                              static_cast<double>(state.compute_lanes));
  }
  const double speed = share / slowdown;
  if (speed == state.gemms.speed()) return;
  const bool faster = speed > state.gemms.speed();
  state.gemms.set_speed(now_, speed);
  if (faster) predict_gemm(rank);
}

}  // namespace stretto::sim
