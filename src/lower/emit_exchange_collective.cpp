// All-to-all by NCCL, which moves whole rows. So what each rank gets lies below what the one before
// gets: a product's tiles are stored so, or a library's product is dealt out by a kernel of one
// pass; and what a rank has got is put side by side by such a kernel, before its product. In chunks
// of rows the tiles of one are computed while another is under way.
#include <algorithm>

#include "lower/declarer.h"
#include "lower/emit_patterns.h"

namespace stretto {
namespace {

int32_t first_row(const SegmentLowering& state, int peer) {
  return static_cast<int32_t>(peer * state.op.local_m());
}
int32_t rows_of(const SegmentLowering& state, int rank) {
  return static_cast<int32_t>(state.shards.size(rank));
}
int32_t chunk_of(const SegmentLowering& state, int32_t tile) {
  return state.grid.row(state.grid.row_of(tile)).chunk;
}

// Of a rank's rows those of a chunk, none where it has fewer.
struct Rows {
  int32_t begin, end;
};
Rows rows_of(const SegmentLowering& state, int rank, size_t chunk) {
  const RowChunk& all = state.layout.chunks[chunk];
  const int32_t rows = rows_of(state, rank);
  return {std::min(rows, all.row0), std::min(rows, all.row1)};
}

// Rows of a chunk of a rank, of the columns of every peer in turn, in blocks for all compute lanes:
// visit(lane, peer, rows).
template <typename Visit>
void for_each_block(const SegmentLowering& state, int rank, size_t chunk, const Visit& visit) {
  const Rows all = rows_of(state, rank, chunk);
  const int32_t rows = all.end - all.begin, lanes = state.lanes.compute;
  const int32_t parts = std::min(rows, std::max(1, lanes / state.op.ranks));
  int32_t lane = 0;
  for (int peer = 0; peer < state.op.ranks; ++peer) {
    for (int32_t i = 0; i < parts; ++i) {
      const auto at = [&](int32_t part) {
        return all.begin + static_cast<int32_t>(int64_t{rows} * part / parts);
      };
      visit(state.lanes.compute_lane(rank, lane), peer, at(i), at(i + 1));
      lane = (lane + 1) % lanes;
    }
  }
}

// What has come of a chunk, before its tiles.
void put_side_by_side(const SegmentLowering& state, Emitter& emit, int rank, size_t chunk) {
  const BufferIds& ids = state.buffers;
  emit.boundary(rank);
  for_each_block(state, rank, chunk, [&](uint32_t lane, int from, int32_t row0, int32_t row1) {
    const int32_t first = first_row(state, from), cols = state.cols_of(from);
    const int32_t col0 = from * state.cols_each();
    emit.read(region_of({first + row0, first + row1, 0, cols}, ids.by_peer, rank));
    emit.write(region_of({row0, row1, col0, col0 + cols}, ids.exchanged, rank));
    emit.task(lane, Opcode::copy);
  });
}

// By rank and chunk: the wave with which the kernel begins that has its tiles; -1: it has none.
std::vector<std::vector<int32_t>> first_waves(const SegmentLowering& state) {
  const size_t chunks = state.layout.chunks.size();
  std::vector<std::vector<int32_t>> waves;
  for (const TileOrder& order : state.orders) {
    std::vector<int32_t>& of_rank = waves.emplace_back(chunks, -1);
    for (const TileKernel& kernel : order.kernels) {
      for (int32_t i = kernel.first; i < kernel.last; ++i) {
        const int32_t tile = order.tiles[static_cast<size_t>(i)];
        of_rank[static_cast<size_t>(chunk_of(state, tile))] = kernel.first_wave;
      }
    }
  }
  return waves;
}

// A product's columns, where its library leaves them side by side.
void deal_columns(const SegmentLowering& state, Emitter& emit, int rank, size_t chunk) {
  const BufferIds& ids = state.buffers;
  for_each_block(state, rank, chunk, [&](uint32_t lane, int to, int32_t row0, int32_t row1) {
    const int32_t first = first_row(state, to), cols = state.cols_of(to);
    const int32_t col0 = to * state.cols_each();
    emit.read(region_of({row0, row1, col0, col0 + cols}, ids.part, rank));
    emit.write(region_of({first + row0, first + row1, 0, cols}, ids.by_peer, rank));
    emit.task(lane, Opcode::copy);
  });
  emit.boundary(rank);
}

void send_columns(const SegmentLowering& state, Emitter& emit, size_t chunk) {
  const BufferIds& ids = state.buffers;
  const int ranks = state.op.ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    const Rows own = rows_of(state, rank, chunk);
    for (int to = 0; to < ranks; ++to) {
      const int32_t first = first_row(state, to), cols = state.cols_of(to);
      emit.read(region_of({first + own.begin, first + own.end, 0, cols}, ids.by_peer, rank));
    }
    const int32_t cols = state.cols_of(rank);
    for (int from = 0; from < ranks; ++from) {
      const auto first = static_cast<int32_t>(state.shards.begin(from));
      const Rows theirs = rows_of(state, from, chunk);
      emit.write(region_of({first + theirs.begin, first + theirs.end, 0, cols}, ids.out, rank));
    }
    emit.collective(rank, CollectiveKind::all_to_all, static_cast<int32_t>(chunk));
  }
}

void gather_columns(SegmentLowering& state, Emitter& emit) {
  const BufferIds& ids = state.buffers;
  const int ranks = state.op.ranks;
  for (size_t chunk = 0; chunk < state.layout.chunks.size(); ++chunk) {
    for (int rank = 0; rank < ranks; ++rank) {
      const int32_t cols = state.cols_of(rank);
      for (int to = 0; to < ranks; ++to) {
        const auto first = static_cast<int32_t>(state.shards.begin(to));
        const Rows theirs = rows_of(state, to, chunk);
        emit.read(region_of({first + theirs.begin, first + theirs.end, 0, cols}, ids.a, rank));
      }
      const Rows own = rows_of(state, rank, chunk);
      for (int from = 0; from < ranks; ++from) {
        const int32_t first = first_row(state, from), from_cols = state.cols_of(from);
        emit.write(
            region_of({first + own.begin, first + own.end, 0, from_cols}, ids.by_peer, rank));
      }
      emit.collective(rank, CollectiveKind::all_to_all, static_cast<int32_t>(chunk));
    }
  }
}

AfterTiles emit_gathered_columns(SegmentLowering& state, Emitter& emit, bool) {
  const std::vector<std::vector<int32_t>> begins = first_waves(state);
  const auto put_chunks_of = [&](int32_t wave) {
    for (int rank = 0; rank < state.op.ranks; ++rank) {
      const std::vector<int32_t>& of_rank = begins[static_cast<size_t>(rank)];
      for (size_t chunk = 0; chunk < of_rank.size(); ++chunk) {
        if (of_rank[chunk] == wave) put_side_by_side(state, emit, rank, chunk);
      }
    }
  };
  put_chunks_of(0);
  emit_exchanged(state, emit, [&](int32_t wave) { put_chunks_of(wave + 1); });
  return {};
}

void put_all_side_by_side(SegmentLowering& state, Emitter& emit) {
  for (size_t chunk = 0; chunk < state.layout.chunks.size(); ++chunk) {
    for (int rank = 0; rank < state.op.ranks; ++rank) put_side_by_side(state, emit, rank, chunk);
  }
}

AfterTiles emit_columns_dealt(SegmentLowering& state, Emitter& emit, bool) {
  const BufferIds& ids = state.buffers;
  const int ranks = state.op.ranks;
  const int32_t cols = state.cols_each();
  const bool behind = state.deals_columns_behind();
  const size_t chunks = state.layout.chunks.size();
  const std::vector<int32_t> done = groups_done(
      state, [&](int32_t tile) { return chunk_of(state, tile); }, chunks);
  size_t next = 0;
  emit_gemm(
      state, emit, own_rows_of_a(state, emit),
      [&](int rank, int32_t, const Rect& rect) {
        if (behind) return emit.write(region_of(rect, ids.part, rank));
        const int to = rect.col0 / cols;
        emit.write(region_of(rect.moved(first_row(state, to), -to * cols), ids.by_peer, rank));
      },
      [&](int32_t wave) {
        for (; next < chunks && done[next] <= wave; ++next) {
          for (int rank = 0; rank < ranks && behind; ++rank) deal_columns(state, emit, rank, next);
          send_columns(state, emit, next);
        }
      });
  return {};
}

void declare_by_peer(SegmentLowering& state, const PatternBuffers& buffers, std::string_view name) {
  const Segment& op = state.op;
  state.buffers.by_peer = buffers.local(name, op.dtype, op.local_m() * op.ranks, state.cols_each());
}

void declare_input(SegmentLowering& state, const PatternBuffers& buffers) {
  const Segment& op = state.op;
  declare_by_peer(state, buffers, "landed");
  state.buffers.exchanged = buffers.local("in", op.dtype, op.local_m(), op.k);
}

void declare_dealt(SegmentLowering& state, const PatternBuffers& buffers) {
  const Segment& op = state.op;
  declare_by_peer(state, buffers, "dealt");
  if (!state.deals_columns_behind()) return;
  state.buffers.part = buffers.local("part", op.dtype, op.local_m(), op.n);
}

}  // namespace

const Pattern patterns::nccl_exchange_input{.lay_out_rows = lay_out_own,
                                            .cut_pieces = cut_own_rows,
                                            .declare_buffers = declare_input,
                                            .emit_input = gather_columns,
                                            .settle_input = put_all_side_by_side,
                                            .emit_tiles = emit_gathered_columns,
                                            .by_nccl = true,
                                            .moves_input = true,
                                            .exchanges = true};
const Pattern patterns::nccl_exchange_output{.lay_out_rows = lay_out_own,
                                             .cut_pieces = cut_own_rows,
                                             .declare_buffers = declare_dealt,
                                             .emit_tiles = emit_columns_dealt,
                                             .by_nccl = true,
                                             .exchanges = true};

}  // namespace stretto
