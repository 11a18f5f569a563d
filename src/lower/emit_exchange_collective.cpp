// All-to-all by NCCL, which moves whole rows. So what each rank gets lies below what the one before
// gets: a product's tiles are stored so, or a library's product is dealt out by a kernel of one
// pass; and what a rank has got is put side by side by such a kernel, before its product.
#include <algorithm>

#include "lower/emit_patterns.h"

namespace stretto {
namespace {

int32_t first_row(const SegmentLowering& state, int peer) {
  return static_cast<int32_t>(peer * state.op.local_m());
}
int32_t rows_of(const SegmentLowering& state, int rank) {
  return static_cast<int32_t>(state.shards.size(rank));
}

// All rows of a rank, of the columns of every peer in turn, in blocks for all compute lanes:
// visit(lane, peer, rows).
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

}  // namespace

void gather_columns(SegmentLowering& state, Emitter& emit) {
  const BufferIds& ids = state.buffers;
  const int ranks = state.op.ranks;
  const auto cols = static_cast<int32_t>(state.op.k / ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int to = 0; to < ranks; ++to) {
      emit.read(region_of({static_cast<int32_t>(state.shards.begin(to)),
                           static_cast<int32_t>(state.shards.end(to)), 0, cols},
                          ids.a, rank));
    }
    for (int from = 0; from < ranks; ++from) {
      const int32_t first = first_row(state, from);
      emit.write(region_of({first, first + rows_of(state, rank), 0, cols}, ids.by_peer, rank));
    }
    emit.collective(rank, CollectiveKind::all_to_all, 0);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    emit.boundary(rank);
    for_each_block(state, rank, [&](uint32_t lane, int from, int32_t row0, int32_t row1) {
      const int32_t first = first_row(state, from);
      emit.read(region_of({first + row0, first + row1, 0, cols}, ids.by_peer, rank));
      emit.write(region_of({row0, row1, from * cols, (from + 1) * cols}, ids.exchanged, rank));
      emit.task(lane, Opcode::copy);
    });
  }
}

void emit_columns_dealt(SegmentLowering& state, Emitter& emit) {
  const BufferIds& ids = state.buffers;
  const int ranks = state.op.ranks;
  const int32_t cols = state.cols_each();
  const bool behind = state.deals_columns_behind();
  emit_gemm(state, emit, own_rows_of_a(state, emit), [&](int rank, int32_t, const Rect& rect) {
    if (behind) return emit.write(region_of(rect, ids.part, rank));
    const int to = rect.col0 / cols;
    emit.write(region_of(rect.moved(first_row(state, to), -to * cols), ids.by_peer, rank));
  });
  for (int rank = 0; rank < ranks && behind; ++rank) {
    for_each_block(state, rank, [&](uint32_t lane, int to, int32_t row0, int32_t row1) {
      const int32_t first = first_row(state, to);
      emit.read(region_of({row0, row1, to * cols, (to + 1) * cols}, ids.part, rank));
      emit.write(region_of({first + row0, first + row1, 0, cols}, ids.by_peer, rank));
      emit.task(lane, Opcode::copy);
    });
    emit.boundary(rank);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (int to = 0; to < ranks; ++to) {
      const int32_t first = first_row(state, to);
      emit.read(region_of({first, first + rows_of(state, rank), 0, cols}, ids.by_peer, rank));
    }
    for (int from = 0; from < ranks; ++from) {
      emit.write(region_of({static_cast<int32_t>(state.shards.begin(from)),
                            static_cast<int32_t>(state.shards.end(from)), 0, cols},
                           ids.out, rank));
    }
    emit.collective(rank, CollectiveKind::all_to_all, 0);
  }
}

}  // namespace stretto
