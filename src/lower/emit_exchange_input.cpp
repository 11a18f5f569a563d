// All-to-all, then a product of own rows: every rank holds columns of A and pushes, to the owner of
// each row, what it has of it. Tiles begin when all of their rows are whole; with k-phases at once,
// with the columns that the rank has itself, where they lie.
#include <algorithm>
#include <tuple>

#include "lower/declarer.h"
#include "lower/emit_patterns.h"
#include "lower/peer_order.h"
#include "lower/ranks_in_turn.h"
#include "lower/rect_pusher.h"

namespace stretto {
namespace {

class InputExchange {
 public:
  InputExchange(SegmentLowering& state, Emitter& emit) : state_(state), pusher_(state, emit) {}

  void emit() {
    if (state_.phases() > 1) {
      emit_by_source();
    } else {
      emit_stripes();
    }
  }

 private:
  struct Push {
    int32_t wave;  // the first wave of the receiver's tiles that needs it
    int turn;      // of the receiver, in which it comes to this source
    int32_t stripe;
    int to;
  };

  // Stripe by stripe, for every rank's first tiles need the first stripes of all ranks. What a rank
  // keeps crosses no link and comes last.
  void emit_stripes() {
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

  // All that a wave of tiles needs, source by source as they take them: whom a rank sends to takes
  // it in that turn.
  void emit_by_source() {
    std::vector<std::vector<Push>> pushes;
    for (int rank = 0; rank < state_.op.ranks; ++rank) pushes.push_back(pushes_of(rank));
    ranks_in_turn(pushes, [&](int rank, const Push& one) { push(rank, one.stripe, one.to); });
  }

  std::vector<Push> pushes_of(int rank) const {
    const int ranks = state_.op.ranks;
    std::vector<Push> pushes;
    for (int32_t stripe = 0; stripe < state_.pieces.indices; ++stripe) {
      for (int turn = 1; turn < ranks; ++turn) {
        const int to = (rank + ranks - turn) % ranks;
        if (!state_.on(to, state_.pieces.all[piece(rank, stripe)].rect).empty()) {
          pushes.push_back({first_wave(piece(rank, stripe), to), turn, stripe, to});
        }
      }
    }
    std::stable_sort(pushes.begin(), pushes.end(), [](const Push& a, const Push& b) {
      return std::tie(a.wave, a.turn) < std::tie(b.wave, b.turn);
    });
    return pushes;
  }

  int32_t first_wave(size_t piece, int rank) const {
    int32_t first = state_.grid.count();
    const std::vector<int32_t>& position = state_.orders[static_cast<size_t>(rank)].position;
    for (const int32_t tile : state_.pieces.tiles_of(piece)) {
      first = std::min(first, position[static_cast<size_t>(tile)]);
    }
    return first / state_.tiles_at_once();
  }

  size_t piece(int rank, int32_t stripe) const {
    return static_cast<size_t>(state_.pieces.first[static_cast<size_t>(rank)] + stripe);
  }

  void push(int rank, int32_t stripe, int to) {
    const size_t p = piece(rank, stripe);
    const Rect rows = state_.on(to, state_.pieces.all[p].rect);
    if (rows.empty()) return;
    const auto begin = static_cast<int32_t>(state_.shards.begin(to));
    pusher_.push(rank, rows, begin, -rows.col0, state_.buffers.exchanged, {&to, 1},
                 state_.pieces.tiles_of(p)[0]);
  }

  SegmentLowering& state_;
  RectPusher pusher_;
};

void push_columns(SegmentLowering& state, Emitter& emit) { InputExchange(state, emit).emit(); }

AfterTiles emit_pushed_columns(SegmentLowering& state, Emitter& emit, bool) {
  emit_exchanged(state, emit);
  return {};
}

void declare_input(SegmentLowering& state, const PatternBuffers& buffers) {
  const Segment& op = state.op;
  state.buffers.exchanged = buffers.symmetric("in", op.dtype, op.local_m(), op.k);
}

}  // namespace

const Pattern patterns::exchange_input{.lay_out_rows = lay_out_own,
                                       .cut_pieces = cut_own_rows,
                                       .declare_buffers = declare_input,
                                       .emit_input = push_columns,
                                       .emit_tiles = emit_pushed_columns,
                                       .moves_input = true,
                                       .exchanges = true};

void emit_exchanged(SegmentLowering& state, Emitter& emit,
                    const std::function<void(int32_t wave)>& after_wave) {
  const bool by_source = state.phases() > 1;
  emit_gemm(
      state, emit,
      [&](int rank, const Rect& tile, KRange k) {
        const bool in_place = by_source && k.begin == state.col_shards().begin(rank);
        const auto begin = static_cast<int32_t>(state.shards.begin(rank));
        emit.read(in_place ? region_of({begin + tile.row0, begin + tile.row1, 0, k.end - k.begin},
                                       state.buffers.a, rank)
                           : region_of({tile.row0, tile.row1, k.begin, k.end},
                                       state.buffers.exchanged, rank));
      },
      [&](int rank, int32_t, const Rect& rect) {
        emit.write(region_of(rect, state.buffers.out, rank));
      },
      after_wave);
}

}  // namespace stretto
