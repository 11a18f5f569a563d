// Reductions through slots: partial sums travel to who reduces them, by epilogue or mover; a
// reduce adds one slot of every source in rank order.
#include <memory>

#include "lower/declarer.h"
#include "lower/due_reduces.h"
#include "lower/edge_row.h"
#include "lower/emit_patterns.h"
#include "lower/peer_order.h"
#include "lower/reduce_lanes.h"
#include "lower/slot_places.h"

namespace stretto {
namespace {

class SlotReduce {
 public:
  SlotReduce(SegmentLowering& state, Emitter& emit)
      : state_(state),
        emit_(emit),
        ranks_(state.op.ranks),
        events_(state.schedule.sync == Sync::event),
        two_shot_(state.schedule.reduction == Reduction::two_shot),
        places_(state),
        lanes_(state),
        due_(state),
        of_rank_(static_cast<size_t>(ranks_)) {
    for (int rank = 0; rank < ranks_; ++rank) {
      of(rank).peers = peer_order(state.schedule.order, false, rank, ranks_, state.machine);
    }
  }

  void emit(bool rows_sum) {
    emit_gemm(
        state_, emit_, own_rows_of_a(state_, emit_),
        [&](int rank, int32_t tile, const Rect&) { write_tile(rank, tile); },
        [&](int32_t wave) {
          for (int rank = 0; rank < ranks_; ++rank) {
            due_.copies.take(rank, wave, [&](size_t p) { copy_to_slots(rank, p, wave); });
          }
          for (int rank = 0; rank < ranks_ && !rows_sum; ++rank) {
            due_.reduces.take(rank, wave, [&](size_t one) {
              reduces_tile_by_tile(state_) ? reduce_tile(rank, tiles_of(rank)[one], wave)
                                           : reduce(rank, one, wave);
            });
          }
        });
  }

  // What compute lanes do after their tiles; with events, in a kernel of its own.
  void reduce_after_tiles() {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (of(rank).late.empty()) continue;
      if (events_) emit_.boundary(rank);
      for (const LateReduce& late : of(rank).late) {
        emit_reduce(rank, late.piece, late.part, late.lane, late.staged);
      }
      if (events_ && two_shot_) emit_.boundary(rank);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const size_t p : of(rank).late_sums) copy_sums(rank, p);
    }
  }

  // What peers write into this rank's output must have arrived when the run ends. What is no output
  // has readers, which wait.
  void deliver() {
    const bool is_output = state_.plan.buffers[state_.buffers.out].role == BufferRole::output;
    if (!two_shot_ || !is_output) return;
    const LaneTable& lanes = state_.lanes;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::vector<Rect> received = places_.of_others(rank);
      if (received.empty()) continue;
      uint32_t lane = lanes.compute_lane(rank, 0);
      if (lanes.comm > 0) {
        int last = lanes.comm - 1;  // that has work
        while (last > 0 && state_.plan.lanes[lanes.comm_lane(rank, last)].instrs.empty()) --last;
        lane = lanes.comm_lane(rank, last);
      } else if (events_) {
        emit_.boundary(rank);
      }
      constexpr size_t kMostRegions = 1024;
      for (size_t i = 0; i < received.size(); ++i) {
        emit_.read(region_of(received[i], state_.buffers.out, rank));
        if ((i + 1) % kMostRegions == 0 || i + 1 == received.size()) {
          emit_.task(lane, Opcode::deliver);
        }
      }
    }
  }

 private:
  // A part of a reduce that a compute lane does when its tiles are done.
  struct LateReduce {
    size_t piece;
    Rect part;
    uint32_t lane;
    bool staged;  // the own sums lie in `part`
  };
  struct OfRank {
    std::vector<int> peers;  // in the order in which they are sent to
    std::vector<LateReduce> late;
    std::vector<size_t> late_sums;  // pieces whose sums are copied after them
  };

  OfRank& of(int rank) { return of_rank_[static_cast<size_t>(rank)]; }
  const std::vector<Piece>& pieces() const { return state_.pieces.all; }
  const std::vector<TileOfPiece>& tiles_of(int rank) const {
    return due_.tiles[static_cast<size_t>(rank)];
  }
  // Two-shot by copy engines: the reduce leaves its sum at home and copies take it to the peers.
  bool copies_sums() const { return two_shot_ && state_.schedule.mover == Mover::copy_engine; }

  void write_tile(int rank, int32_t tile) {
    const Rect& rect = state_.grid.rect(tile);
    if (state_.adds_to_slot(rank, rect)) {
      const int32_t first = state_.pieces.first[static_cast<size_t>(rank)];
      emit_.write(slot(pieces()[static_cast<size_t>(first)], rect, rank, rank));
    } else if (state_.stages_partials()) {
      emit_.write(region_of(rect, state_.buffers.part, rank));
    } else if (const std::span<const Region> slots = places_.of_tile(tile); !slots.empty()) {
      const int32_t down = rank * state_.pieces.slot_rows;
      for (Region to : slots) {
        to.row0 += down;
        to.row1 += down;
        emit_.write(to);
      }
    } else {  // everyone's
      const Piece& piece = places_.piece_of(tile);
      write_to_slots(piece, rect, rank);
      emit_.write(slot(piece, rect, rank, rank));
    }
  }

  Region slot(const Piece& piece, const Rect& rect, int at, int source) const {
    return places_.slot(piece, rect, at, source);
  }

  // The task writes to the owner's slot, or to those of all peers.
  void write_to_slots(const Piece& piece, const Rect& rect, int source) {
    if (piece.owner != Piece::kEveryone) {
      return emit_.write(slot(piece, rect, piece.owner, source));
    }
    for (const int peer : of(source).peers) emit_.write(slot(piece, rect, peer, source));
  }

  int32_t first_tile(size_t p) const { return state_.pieces.tiles_of(p)[0]; }

  void copy_to_slots(int rank, size_t p, int32_t wave) {
    const Piece& piece = pieces()[p];
    if (state_.schedule.mover == Mover::comm_blocks) {
      for (const Rect& part : lanes_.parts_for_comm(piece.rect)) {
        const int64_t bytes = 2 * part.elements() * num_bytes(state_.schedule.partials);
        const uint32_t lane = lanes_.give_comm(rank, wave, bytes);
        emit_.read(region_of(part, state_.buffers.part, rank));
        write_to_slots(piece, part, rank);
        emit_.task(lane, Opcode::copy, first_tile(p));
      }
      return;
    }
    auto copy = [&](int to) {
      emit_.read(region_of(piece.rect, state_.buffers.part, rank));
      emit_.write(slot(piece, piece.rect, to, rank));
      emit_.task(copy_lane(state_, rank, to), Opcode::copy, first_tile(p));
    };
    if (piece.owner != Piece::kEveryone) return copy(piece.owner);
    for (const int peer : of(rank).peers) copy(peer);
  }

  // The compute lane whose last task is the only tile that piece `p` has rows of, where lanes
  // reduce what they compute.
  std::optional<uint32_t> lane_of_only_tile(int rank, size_t p, int32_t wave) const {
    if (!state_.reduces_with_tiles() || state_.pieces.tiles_of(p).size() != 1) return {};
    return lanes_.lane_of_tile(rank, first_tile(p), wave);
  }

  void reduce_tile(int rank, const TileOfPiece& one, int32_t wave) {
    const bool staged = !state_.adds_to_slot(rank, state_.grid.rect(one.tile));
    // One with rows of others, or of another piece, is stored as a whole first.
    const bool whole = state_.grid.rect(one.tile) == one.part;
    if (const auto lane = lanes_.lane_of_tile(rank, one.tile, wave); whole && lane) {
      return emit_reduce(rank, one.piece, one.part, *lane, staged);
    }
    const uint32_t lane = lanes_.give_late(rank, wave, bytes_of_reduce(one.part));
    of(rank).late.push_back({one.piece, one.part, lane, staged});
  }

  int64_t bytes_of_reduce(const Rect& part) const {
    return part.elements() * (ranks_ * num_bytes(state_.schedule.partials) +
                              (state_.residual ? 2 : 1) * num_bytes(state_.op.dtype));
  }

  // The same part of the residual, whose rows a rank has all of, or its own.
  Region residual_of(const Rect& part, int rank) const {
    const int tensor = state_.residual->residual;
    const uint16_t buffer = state_.whole.tensor(tensor).stage >= 0
                                ? state_.of_rows.results[static_cast<size_t>(tensor)]
                                : *state_.plan.find_buffer(state_.whole.tensor(tensor).name);
    const bool has_own = state_.plan.buffers[buffer].sharded_rows > 0;
    const auto begin = static_cast<int32_t>(has_own ? state_.shards.begin(rank) : 0);
    return region_of(part.moved(-begin), buffer, rank);
  }

  void reduce(int rank, size_t p, int32_t wave) {
    if (const auto lane = lane_of_only_tile(rank, p, wave)) {
      return emit_reduce(rank, p, pieces()[p].rect, *lane, false);
    }
    const bool staged = state_.stages_partials();
    bool late = false;
    for (const Rect& part : lanes_.parts_for_all(pieces()[p].rect, due_.reduces.count(rank))) {
      const ReduceLanes::Given given = lanes_.give(rank, wave, bytes_of_reduce(part));
      if (given.is_late) {
        of(rank).late.push_back({p, part, given.lane, staged});
        late = true;
      } else {
        emit_reduce(rank, p, part, given.lane, staged);
      }
    }
    if (!copies_sums()) return;
    if (late) {
      of(rank).late_sums.push_back(p);
    } else {
      copy_sums(rank, p);
    }
  }

  void emit_reduce(int rank, size_t p, const Rect& part, uint32_t lane, bool staged) {
    for (int source = 0; source < ranks_; ++source) {
      emit_.read(staged && source == rank ? region_of(part, state_.buffers.part, rank)
                                          : slot(pieces()[p], part, rank, source));
    }
    if (state_.residual) emit_.read(residual_of(part, rank));
    const auto begin = static_cast<int32_t>(state_.shards.begin(rank));
    const Rect out = state_.ranks_own_rows() ? part.moved(-begin) : part;
    if (two_shot_ && !copies_sums()) {
      for (const int peer : of(rank).peers) {
        emit_.write(region_of(out, state_.buffers.out, peer));
      }
    }
    emit_.write(region_of(out, state_.buffers.out, rank));
    emit_.task(lane, Opcode::reduce, first_tile(p));
  }

  void copy_sums(int rank, size_t p) {
    for (const int peer : of(rank).peers) {
      emit_.read(region_of(pieces()[p].rect, state_.buffers.out, rank));
      emit_.write(region_of(pieces()[p].rect, state_.buffers.out, peer));
      emit_.task(copy_lane(state_, rank, peer), Opcode::copy, first_tile(p));
    }
  }

  SegmentLowering& state_;
  Emitter& emit_;
  const int ranks_;
  const bool events_, two_shot_;
  const SlotPlaces places_;
  ReduceLanes lanes_;
  DueReduces due_;
  std::vector<OfRank> of_rank_;
};

AfterTiles emit_slot_reduce(SegmentLowering& state, Emitter& emit, bool rows_sum) {
  const auto reduce = std::make_shared<SlotReduce>(state, emit);
  reduce->emit(rows_sum);
  if (rows_sum) return {};
  return {[reduce] { reduce->reduce_after_tiles(); }, [reduce] { reduce->deliver(); }};
}

void declare_slots(SegmentLowering& state, const PatternBuffers& buffers) {
  const Segment& op = state.op;
  const DType partials = state.schedule.partials;
  if (state.stages_partials()) state.buffers.part = buffers.local("part", partials, op.m, op.n);
  const Pieces& pieces = state.pieces;
  state.buffers.slots =
      buffers.symmetric("slots", partials, int64_t{op.ranks} * pieces.slot_rows, pieces.slot_cols);
}

constexpr Pattern kSlotReduce{.lay_out_rows = lay_out_shards,
                              .cut_pieces = cut_result_of_shards,
                              .declare_buffers = declare_slots,
                              .emit_tiles = emit_slot_reduce,
                              .adds_slots = true};

const Pattern& reduce_by(const Segment&, const Schedule& schedule) {
  if (schedule.mover != Mover::nccl) return kSlotReduce;
  return schedule.granularity == Granularity::waves ? patterns::packed_reduce
                                                    : patterns::nccl_reduce;
}

}  // namespace

const EdgeRow edges::reduce_scatter{check_moves, reduce_by};
const EdgeRow edges::all_reduce{check_moves, reduce_by};

}  // namespace stretto
