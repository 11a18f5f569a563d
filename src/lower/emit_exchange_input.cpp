// All-to-all, then a product of own rows: every rank holds columns of A and pushes, to the owner of
// each row, what it has of it. Tiles begin when all of their rows are whole.
#include <algorithm>

#include "lower/emit_patterns.h"
#include "lower/peer_order.h"
#include "lower/rect_pusher.h"

namespace stretto {
namespace {

class InputExchange {
 public:
  InputExchange(SegmentLowering& state, Emitter& emit) : state_(state), pusher_(state, emit) {}

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
    const auto begin = static_cast<int32_t>(state_.shards.begin(to));
    pusher_.push(rank, rows, begin, -rows.col0, state_.buffers.exchanged, {&to, 1},
                 state_.pieces.tiles_of(p)[0]);
  }

  SegmentLowering& state_;
  RectPusher pusher_;
};

}  // namespace

void push_columns(SegmentLowering& state, Emitter& emit) { InputExchange(state, emit).emit(); }

void emit_exchanged(SegmentLowering& state, Emitter& emit,
                    const std::function<void(int32_t wave)>& after_wave) {
  emit_gemm(
      state, emit,
      [&](int rank, const Rect& tile, KRange k) {
        emit.read(region_of({tile.row0, tile.row1, k.begin, k.end}, state.buffers.exchanged, rank));
      },
      [&](int rank, int32_t, const Rect& rect) {
        emit.write(region_of(rect, state.buffers.out, rank));
      },
      after_wave);
}

}  // namespace stretto
