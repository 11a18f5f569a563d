// All-to-alls with columns of all rows on one side and own rows on the other: own rows go to the
// owners of their columns before a product of columns, and the columns of all rows that a product
// makes go to the owners of these.
//
// NCCL moves whole rows. So what goes to a rank is stored below what goes to the one before, ahead
// of a product; and what has come from each is put side by side, behind one.
#include <memory>

#include "lower/chunk_table.h"
#include "lower/declarer.h"
#include "lower/emit_patterns.h"
#include "lower/peer_order.h"
#include "lower/rect_pusher.h"

namespace stretto {
namespace {

int32_t begin_of(const SegmentLowering& state, int rank) {
  return static_cast<int32_t>(state.shards.begin(rank));
}
int32_t rows_of(const SegmentLowering& state, int rank) {
  return static_cast<int32_t>(state.shards.size(rank));
}
// Where the rows of a peer begin, below those of the peers before.
int32_t first_row(const SegmentLowering& state, int peer) {
  return static_cast<int32_t>(peer * state.shards.block());
}

// Stripe by stripe, for the first tiles of each rank need the first stripes of some rank. What a
// rank keeps crosses no link and comes last.
void push_columns(SegmentLowering& state, Emitter& emit) {
  RectPusher pusher(state, emit);
  const int ranks = state.op.ranks;
  for (int32_t stripe = 0; stripe < state.pieces.indices; ++stripe) {
    for (int turn = 0; turn < ranks; ++turn) {
      for (int rank = 0; rank < ranks; ++rank) {
        const int32_t piece = state.pieces.first[static_cast<size_t>(rank)] + stripe;
        if (piece >= state.pieces.first[static_cast<size_t>(rank) + 1]) continue;
        std::vector<int> peers =
            peer_order(state.schedule.order, false, rank, ranks, state.machine);
        peers.push_back(rank);
        const int to = peers[static_cast<size_t>(turn)];
        Rect rect = state.pieces.all[static_cast<size_t>(piece)].rect;
        rect.col1 = state.cols_of(to);
        pusher.push(rank, rect, -begin_of(state, rank), to * state.cols_each(),
                    state.buffers.exchanged, {&to, 1},
                    state.pieces.tiles_of(static_cast<size_t>(piece))[0]);
      }
    }
  }
}

void declare_columns(SegmentLowering& state, const PatternBuffers& buffers) {
  const Segment& op = state.op;
  state.buffers.exchanged = buffers.symmetric("in", op.dtype, op.m, state.cols_each());
  buffers.set_shares(state.buffers.exchanged, state.col_shards());
}

// `visit(lane, peer, rows)`: a rank's rows once for each peer, in blocks for all compute lanes.
template <typename Visit>
void for_each_block(const SegmentLowering& state, int rank, const Visit& visit) {
  const int32_t rows = rows_of(state, rank), lanes = state.lanes.compute;
  const int32_t parts = std::min(rows, std::max(1, lanes / state.op.ranks));
  int32_t lane = 0;
  for (int peer = 0; peer < state.op.ranks; ++peer) {
    for (int32_t i = 0; i < parts; ++i) {
      const auto at = [&](int32_t part) {
        return static_cast<int32_t>(int64_t{rows} * part / parts);
      };
      visit(state.lanes.compute_lane(rank, lane), peer, at(i), at(i + 1));
      lane = (lane + 1) % lanes;
    }
  }
}

void deal_and_send(SegmentLowering& state, Emitter& emit) {
  const BufferIds& ids = state.buffers;
  const int ranks = state.op.ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    for_each_block(state, rank, [&](uint32_t lane, int to, int32_t row0, int32_t row1) {
      const int32_t first = first_row(state, to), cols = state.cols_of(to);
      const int32_t col0 = to * state.cols_each();
      emit.read(region_of({row0, row1, col0, col0 + cols}, ids.a, rank));
      emit.write(region_of({first + row0, first + row1, 0, cols}, ids.by_peer, rank));
      emit.task(lane, Opcode::copy);
    });
    emit.boundary(rank);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (int to = 0; to < ranks; ++to) {
      const int32_t first = first_row(state, to);
      emit.read(region_of({first, first + rows_of(state, rank), 0, state.cols_of(to)}, ids.by_peer,
                          rank));
    }
    for (int from = 0; from < ranks; ++from) {
      const int32_t begin = begin_of(state, from);
      emit.write(region_of({begin, begin + rows_of(state, from), 0, state.cols_of(rank)},
                           ids.exchanged, rank));
    }
    emit.collective(rank, CollectiveKind::all_to_all, 0);
  }
}

void declare_dealt_columns(SegmentLowering& state, const PatternBuffers& buffers) {
  const Segment& op = state.op;
  state.buffers.by_peer =
      buffers.local("dealt", op.dtype, state.shards.block() * op.ranks, state.cols_each());
  state.buffers.exchanged = buffers.local("in", op.dtype, op.m, state.cols_each());
  buffers.set_shares(state.buffers.exchanged, state.col_shards());
}

// Of a chunk: the rows of each owner, to it.
void send_rows(const SegmentLowering& state, Emitter& emit, const ChunkTable& table, size_t chunk) {
  const BufferIds& ids = state.buffers;
  const int ranks = state.op.ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto in_columns_of = [&](Rect rows, int source) {
      rows.col0 = 0;
      rows.col1 = state.cols_of(source);
      return rows;
    };
    for (int to = 0; to < ranks; ++to) {
      emit.read(region_of(in_columns_of(table.at(chunk, to), rank), ids.part, rank));
    }
    const Rect own = table.in_shard(state, chunk, rank);
    for (int from = 0; from < ranks; ++from) {
      emit.write(
          region_of(in_columns_of(own.moved(first_row(state, from)), from), ids.by_peer, rank));
    }
    emit.collective(rank, CollectiveKind::all_to_all, static_cast<int32_t>(chunk));
  }
}

void put_side_by_side(const SegmentLowering& state, Emitter& emit) {
  const BufferIds& ids = state.buffers;
  for (int rank = 0; rank < state.op.ranks; ++rank) {
    emit.boundary(rank);
    for_each_block(state, rank, [&](uint32_t lane, int from, int32_t row0, int32_t row1) {
      const int32_t first = first_row(state, from), cols = state.cols_of(from);
      const int32_t col0 = from * state.cols_each();
      emit.read(region_of({first + row0, first + row1, 0, cols}, ids.by_peer, rank));
      emit.write(region_of({row0, row1, col0, col0 + cols}, ids.out, rank));
      emit.task(lane, Opcode::copy);
    });
  }
}

AfterTiles emit_rows_sent(SegmentLowering& state, Emitter& emit, bool) {
  const ChunkTable table(state);
  const size_t chunks = state.layout.chunks.size();
  const std::vector<int32_t> done = groups_done(
      state,
      [&](int32_t tile) { return chunks == 1 ? 0 : state.grid.row(state.grid.row_of(tile)).chunk; },
      chunks);
  size_t next = 0;
  emit_gemm(
      state, emit, own_rows_of_a(state, emit),
      [&](int rank, int32_t, const Rect& rect) {
        emit.write(region_of(rect, state.buffers.part, rank));
      },
      [&](int32_t wave) {
        for (; next < chunks && done[next] <= wave; ++next) send_rows(state, emit, table, next);
      });
  return {[&state, &emit] { put_side_by_side(state, emit); }, {}};
}

void declare_landed(SegmentLowering& state, const PatternBuffers& buffers) {
  const Segment& op = state.op;
  state.buffers.part = buffers.local("part", op.dtype, op.m, state.cols_each());
  buffers.set_shares(state.buffers.part, state.col_shards());
  state.buffers.by_peer =
      buffers.local("landed", op.dtype, state.shards.block() * op.ranks, state.cols_each());
}

}  // namespace

const Pattern patterns::rows_to_columns{.lay_out_rows = lay_out_shards,
                                        .cut_pieces = cut_input_of_shards,
                                        .declare_buffers = declare_columns,
                                        .emit_input = push_columns,
                                        .moves_input = true};
const Pattern patterns::nccl_rows_to_columns{.lay_out_rows = lay_out_plain,
                                             .declare_buffers = declare_dealt_columns,
                                             .settle_input = deal_and_send,
                                             .by_nccl = true,
                                             .moves_input = true};
const Pattern patterns::nccl_columns_to_rows{.lay_out_rows = lay_out_chunks,
                                             .cut_pieces = cut_result_of_chunks,
                                             .declare_buffers = declare_landed,
                                             .emit_tiles = emit_rows_sent,
                                             .by_nccl = true};

}  // namespace stretto
