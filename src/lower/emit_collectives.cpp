// Patterns in which NCCL moves chunks of rows: all-gather before the tiles, reduce-scatter or
// all-reduce after them.
#include "lower/chunk_table.h"
#include "lower/declarer.h"
#include "lower/emit_patterns.h"

namespace stretto {
namespace {

void gather_chunks(SegmentLowering& state, Emitter& emit) {
  const ChunkTable table(state);
  const BufferIds& ids = state.buffers;
  for (size_t chunk = 0; chunk < state.layout.chunks.size(); ++chunk) {
    for (int rank = 0; rank < state.op.ranks; ++rank) {
      emit.read(region_of(table.in_shard(state, chunk, rank), ids.a, rank));
      for (int source = 0; source < state.op.ranks; ++source) {
        emit.write(region_of(table.at(chunk, source), ids.gathered, rank));
      }
      emit.collective(rank, CollectiveKind::all_gather, static_cast<int32_t>(chunk));
    }
  }
}

AfterTiles emit_nccl_gathered(SegmentLowering& state, Emitter& emit, bool) {
  const BufferIds& ids = state.buffers;
  emit_gemm(
      state, emit,
      [&](int rank, const Rect& tile, KRange k) {
        emit.read(region_of({tile.row0, tile.row1, k.begin, k.end}, ids.gathered, rank));
      },
      [&](int rank, int32_t, const Rect& rect) {
        state.layout.for_each_run(rect.row0, rect.row1, [&](int32_t row0, int32_t row1) {
          emit.write(region_of({row0, row1, rect.col0, rect.col1}, ids.out, rank));
        });
      });
  return {};
}

void emit_normed_sums(SegmentLowering& state, Emitter& emit) {
  const NormedSums& normed = *state.normed;
  const auto all_of = [&](int tensor, int rank) {
    const Tensor& of = state.whole.tensor(tensor);
    const uint16_t buffer = of.stage >= 0 ? state.of_rows.results[static_cast<size_t>(tensor)]
                                          : *state.plan.find_buffer(of.name);
    return region_of({0, static_cast<int32_t>(of.rows), 0, static_cast<int32_t>(of.cols)}, buffer,
                     rank);
  };
  for (int rank = 0; rank < state.op.ranks; ++rank) {
    emit.read(region_of({0, static_cast<int32_t>(state.op.m), 0, static_cast<int32_t>(state.op.n)},
                        state.buffers.part, rank));
    emit.read(all_of(normed.residual, rank));
    emit.read(all_of(normed.weights, rank));
    emit.write(all_of(normed.sum, rank));
    emit.write(all_of(normed.normed, rank));
    emit.collective(rank, CollectiveKind::all_reduce_norm, 0, normed.eps);
  }
}

AfterTiles emit_nccl_reduce(SegmentLowering& state, Emitter& emit, bool) {
  const ChunkTable table(state);
  const BufferIds& ids = state.buffers;
  const size_t chunks = state.layout.chunks.size();
  const std::vector<int32_t> done = groups_done(
      state,
      [&](int32_t tile) {  // one chunk's tiles may be cut at owners besides
        return chunks == 1 ? 0 : state.grid.row(state.grid.row_of(tile)).chunk;
      },
      chunks);

  auto reduce = [&](size_t chunk) {
    if (state.normed) return emit_normed_sums(state, emit);
    for (int rank = 0; rank < state.op.ranks; ++rank) {
      for (int owner = 0; owner < state.shards.ranks; ++owner) {
        emit.read(region_of(table.at(chunk, owner), ids.part, rank));
      }
      const bool scatter = state.ranks_own_rows();
      emit.write(region_of(table.in_shard(state, chunk, scatter ? rank : 0), ids.out, rank));
      emit.collective(rank, scatter ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                      static_cast<int32_t>(chunk));
    }
  };
  size_t next = 0;
  emit_gemm(
      state, emit, own_rows_of_a(state, emit),
      [&](int rank, int32_t, const Rect& rect) { emit.write(region_of(rect, ids.part, rank)); },
      [&](int32_t wave) {
        for (; next < chunks && done[next] <= wave; ++next) reduce(next);
      });
  return {};
}

// It is written by the rank's own collectives only.
void declare_gathered(SegmentLowering& state, const PatternBuffers& buffers) {
  const Segment& op = state.op;
  state.buffers.gathered = buffers.local("ag", op.dtype, op.m, op.k);
}

void declare_part(SegmentLowering& state, const PatternBuffers& buffers) {
  const Segment& op = state.op;
  state.buffers.part = buffers.local("part", op.dtype, op.m, op.n);
}

}  // namespace

const Pattern patterns::nccl_gather{.lay_out_rows = lay_out_chunks,
                                    .cut_pieces = cut_input_of_chunks,
                                    .declare_buffers = declare_gathered,
                                    .emit_input = gather_chunks,
                                    .emit_tiles = emit_nccl_gathered,
                                    .by_nccl = true,
                                    .moves_input = true};
const Pattern patterns::nccl_reduce{.lay_out_rows = lay_out_chunks,
                                    .cut_pieces = cut_result_of_chunks,
                                    .declare_buffers = declare_part,
                                    .emit_tiles = emit_nccl_reduce,
                                    .by_nccl = true};

}  // namespace stretto
