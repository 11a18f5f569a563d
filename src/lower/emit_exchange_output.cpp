// A product, then all-to-all: tiles of own rows go to who owns their columns, or tiles of own
// columns to who owns their rows, by epilogue or mover. Where the caller's tensor is the
// destination, they land beside it, and a copy takes them there; what later segments read is
// written in its place at once.
#include <algorithm>
#include <memory>

#include "lower/declarer.h"
#include "lower/due_lists.h"
#include "lower/emit_patterns.h"
#include "lower/peer_order.h"

namespace stretto {
namespace {

class OutputExchange {
 public:
  OutputExchange(SegmentLowering& state, Emitter& emit)
      : state_(state),
        emit_(emit),
        ranks_(state.op.ranks),
        lands_(state.buffers.exchanged != state.buffers.out),
        due_(ranks_),
        comm_(ranks_, std::max(1, state.lanes.comm)),
        compute_(ranks_, state.lanes.compute),
        late_(static_cast<size_t>(ranks_)) {
    for (int rank = 0; rank < ranks_; ++rank) find_due(rank);
    due_.sort();
  }

  void emit() {
    emit_gemm(
        state_, emit_, own_rows_of_a(state_, emit_),
        [&](int rank, int32_t tile, const Rect&) { write_tile(rank, tile); },
        [&](int32_t wave) {
          // What was sent a wave ago has come.
          take_home();
          for (int rank = 0; rank < ranks_; ++rank) {
            due_.take(rank, wave, [&](size_t p) { send(rank, p); });
          }
        });
  }

  void take_rest_home() {
    take_home();
    take_home_after_tiles();
  }

 private:
  // Where some of a piece has landed.
  struct Landed {
    int at;
    Rect rect;
    int32_t tile;
  };

  const Piece& piece(size_t p) const { return state_.pieces.all[p]; }

  void find_due(int rank) {
    const TileOrder& order = state_.orders[static_cast<size_t>(rank)];
    for (size_t p = 0; p < state_.pieces.all.size(); ++p) {
      if (piece(p).owner == rank || state_.on(rank, piece(p).rect).empty()) continue;
      int64_t when = 0;
      for (const int32_t tile : state_.pieces.tiles_of(p)) {
        if (state_.rect_of(rank, tile).empty()) continue;
        const auto t = static_cast<size_t>(tile);
        when = std::max(when, Due::at(order.done_wave[t], order.position[t]));
      }
      due_.add(rank, {when, p});
    }
  }

  // Tiles are cut where owners meet.
  int owner_of(const Rect& tile) const {
    return state_.op.turns_columns() ? state_.shards.owner(tile.row0)
                                     : tile.col0 / state_.cols_each();
  }
  // The owner's place for what `rank` computes for it.
  Rect at_owner(int rank, int owner, const Rect& rect) const {
    if (state_.op.turns_columns()) {
      return rect.moved(-static_cast<int32_t>(state_.shards.begin(owner)),
                        rank * state_.cols_each());
    }
    return rect.moved(static_cast<int32_t>(state_.shards.begin(rank)), -owner * state_.cols_each());
  }

  void write_tile(int rank, int32_t tile) {
    const Rect rect = state_.rect_of(rank, tile);
    const int owner = owner_of(rect);
    if (owner == rank) {
      emit_.write(region_of(at_owner(rank, rank, rect), state_.buffers.out, rank));
    } else if (state_.stages_partials()) {
      emit_.write(region_of(rect, state_.buffers.part, rank));
    } else {
      emit_.write(region_of(at_owner(rank, owner, rect), state_.buffers.exchanged, owner));
    }
  }

  void send(int rank, size_t p) {
    const Rect rect = state_.on(rank, piece(p).rect);
    const int owner = piece(p).owner;
    const int32_t tile = state_.pieces.tiles_of(p)[0];
    if (state_.stages_partials()) {
      const bool by_blocks = state_.schedule.mover == Mover::comm_blocks;
      for (const Rect& part : parts(rect, by_blocks ? state_.lanes.comm : 1)) {
        emit_.read(region_of(part, state_.buffers.part, rank));
        emit_.write(region_of(at_owner(rank, owner, part), state_.buffers.exchanged, owner));
        emit_.task(by_blocks ? state_.lanes.comm_lane(rank, comm_.next(rank))
                             : copy_lane(state_, rank, owner),
                   Opcode::copy, tile);
      }
    }
    if (lands_) landed_.push_back({owner, at_owner(rank, owner, rect), tile});
  }

  // About as large as a tile, at most as many as there are lanes to share them.
  std::vector<Rect> parts(const Rect& rect, int lanes) const {
    const int64_t tile = int64_t{state_.schedule.tile_m} * state_.schedule.tile_n;
    const auto count = static_cast<int>(std::clamp<int64_t>(rect.elements() / tile, 1, lanes));
    return split(rect, count, 1, rect.cols());
  }

  // By communication blocks, or by compute lanes when their tiles are done.
  void take_home() {
    for (const Landed& one : landed_) {
      if (state_.lanes.comm == 0) {
        late_[static_cast<size_t>(one.at)].push_back(one);
        continue;
      }
      for (const Rect& part : parts(one.rect, state_.lanes.comm)) {
        copy_home(one, part, state_.lanes.comm_lane(one.at, comm_.next(one.at)));
      }
    }
    landed_.clear();
  }

  // With events, in a kernel of its own.
  void take_home_after_tiles() {
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::vector<Landed>& late = late_[static_cast<size_t>(rank)];
      if (late.empty()) continue;
      if (state_.schedule.sync == Sync::event) emit_.boundary(rank);
      const int lanes = state_.lanes.compute, count = static_cast<int>(late.size());
      for (const Landed& one : late) {
        for (const Rect& part : split(one.rect, (lanes + count - 1) / count, 1, one.rect.cols())) {
          copy_home(one, part, state_.lanes.compute_lane(rank, compute_.next(rank)));
        }
      }
    }
  }

  void copy_home(const Landed& one, const Rect& part, uint32_t lane) {
    emit_.read(region_of(part, state_.buffers.exchanged, one.at));
    emit_.write(region_of(part, state_.buffers.out, one.at));
    emit_.task(lane, Opcode::copy, one.tile);
  }

  SegmentLowering& state_;
  Emitter& emit_;
  const int ranks_;
  const bool lands_;  // what peers send is no one's yet
  DueLists due_;
  Dealer comm_, compute_;
  std::vector<Landed> landed_;
  std::vector<std::vector<Landed>> late_;  // by rank
};

AfterTiles emit_exchange_output(SegmentLowering& state, Emitter& emit, bool) {
  const auto exchange = std::make_shared<OutputExchange>(state, emit);
  exchange->emit();
  return {[exchange] { exchange->take_rest_home(); }, {}};
}

// What peers write to a tensor of the caller's lands in a buffer that alternates, and is copied
// from there.
void declare_landed(SegmentLowering& state, const PatternBuffers& buffers) {
  const Segment& op = state.op;
  BufferIds& ids = state.buffers;
  if (state.stages_partials()) ids.part = buffers.local("part", op.dtype, op.local_m(), op.n);
  ids.exchanged = buffers.is_callers(ids.out)
                      ? buffers.symmetric("landed", op.dtype, op.m, state.cols_each())
                      : ids.out;
  buffers.set_shares(ids.exchanged, state.col_shards());
}

void declare_landed_rows(SegmentLowering& state, const PatternBuffers& buffers) {
  const Segment& op = state.op;
  BufferIds& ids = state.buffers;
  if (state.stages_partials()) {
    ids.part = buffers.local("part", op.dtype, op.m, state.cols_each());
    buffers.set_shares(ids.part, state.col_shards());
  }
  ids.exchanged = buffers.is_callers(ids.out)
                      ? buffers.symmetric("landed", op.dtype, state.shards.block(), op.n)
                      : ids.out;
}

}  // namespace

const Pattern patterns::columns_to_rows{.lay_out_rows = lay_out_chunked_shards,
                                        .cut_pieces = cut_columns_of_shards,
                                        .declare_buffers = declare_landed_rows,
                                        .emit_tiles = emit_exchange_output,
                                        .peers_write_result = true};

const Pattern patterns::exchange_output{.lay_out_rows = lay_out_own,
                                        .cut_pieces = cut_own_rows,
                                        .declare_buffers = declare_landed,
                                        .emit_tiles = emit_exchange_output,
                                        .exchanges = true,
                                        .peers_write_result = true};

}  // namespace stretto
