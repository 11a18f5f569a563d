// All-to-all, then a product of own rows: every rank holds columns of A and pushes, to the owner of
// each row, what it has of it. Tiles begin when all of their rows are whole.
#include <algorithm>

#include "lower/emit_patterns.h"
#include "lower/peer_order.h"

namespace stretto {
namespace {

class InputExchange {
 public:
  InputExchange(SegmentLowering& state, Emitter& emit)
      : state_(state), emit_(emit), comm_(state.op.ranks, std::max(1, state.lanes.comm)) {}

  // Stripe by stripe, for every rank's first tiles need the first stripes of all ranks. What a rank
  // keeps crosses no link and comes last.
  void emit() {
    const int ranks = state_.op.ranks;
    for (int32_t stripe = 0; stripe < state_.pieces.indices; ++stripe) {
      for (int turn = 0; turn < ranks; ++turn) {
        for (int rank = 0; rank < ranks; ++rank) {
          std::vector<int> to =
              peer_order(state_.schedule.order, false, rank, ranks, state_.machine);
          to.push_back(rank);
          push(rank, stripe, to[static_cast<size_t>(turn)]);
        }
      }
    }
  }

 private:
  void push(int rank, int32_t stripe, int to) {
    const size_t p = static_cast<size_t>(state_.pieces.first[static_cast<size_t>(rank)] + stripe);
    const Rect rows = state_.on(to, state_.pieces.all[p].rect);
    if (rows.empty()) return;
    const bool by_blocks = state_.schedule.mover == Mover::comm_blocks;
    const int blocks = by_blocks ? state_.lanes.comm : 1;
    const int down = std::min(blocks, rows.rows());
    const auto unit = static_cast<int32_t>(2048 / num_bytes(state_.op.dtype));
    const auto begin = static_cast<int32_t>(state_.shards.begin(to));
    for (const Rect& part : split(rows, down, blocks / down, unit)) {
      emit_.read(region_of(part.moved(begin, -rows.col0), state_.buffers.a, rank));
      emit_.write(region_of(part, state_.buffers.exchanged, to));
      emit_.task(
          by_blocks ? state_.lanes.comm_lane(rank, comm_.next(rank)) : copy_lane(state_, rank, to),
          Opcode::copy, state_.pieces.tiles_of(p)[0]);
    }
  }

  SegmentLowering& state_;
  Emitter& emit_;
  Dealer comm_;
};

}  // namespace

void push_columns(SegmentLowering& state, Emitter& emit) { InputExchange(state, emit).emit(); }

void emit_exchanged(SegmentLowering& state, Emitter& emit) {
  emit_gemm(
      state, emit,
      [&](int rank, const Rect& tile, KRange k) {
        emit.read(region_of({tile.row0, tile.row1, k.begin, k.end}, state.buffers.exchanged, rank));
      },
      [&](int rank, int32_t tile) {
        emit.write(region_of(state.rect_of(rank, tile), state.buffers.out, rank));
      });
}

}  // namespace stretto
