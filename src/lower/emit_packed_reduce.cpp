// Waves with a reduction: NCCL reduces each group of packed tiles; when compute lanes have no more
// tiles, they restore the sums to their places in the output, unless who takes the rows does so.
#include <memory>

#include "lower/declarer.h"
#include "lower/emit_patterns.h"
#include "lower/restored_rows.h"

namespace stretto {
namespace {

class PackedReduce {
 public:
  PackedReduce(SegmentLowering& state, Emitter& emit)
      : state_(state),
        emit_(emit),
        packing_(state.packing),
        done_(groups_done(
            state, [&](int32_t tile) { return packing_.group_of[static_cast<size_t>(tile)]; },
            packing_.groups.size())),
        restorers_(state.op.ranks, state.lanes.compute, state.num_tasks() % state.lanes.compute) {}

  void emit() {
    size_t next = 0;
    emit_gemm(
        state_, emit_, own_rows_of_a(state_, emit_),
        [&](int rank, int32_t tile, const Rect&) { write_tile(rank, tile); },
        [&](int32_t wave) {
          for (; next < done_.size() && done_[next] <= wave; ++next) reduce(next);
        });
  }

  void restore_all() {
    for (size_t group = 0; group < done_.size(); ++group) restore(group);
  }

 private:
  void write_tile(int rank, int32_t tile) {
    const int32_t row = packing_.row_of[static_cast<size_t>(tile)];
    const Rect& rect = state_.grid.rect(tile);
    emit_.write(region_of({row, row + rect.rows(), 0, rect.cols()}, state_.buffers.packed, rank));
  }

  void reduce(size_t group) {
    const std::vector<PackedShare>& shares = packing_.groups[group];
    auto any = [&](auto empty) { return !std::all_of(shares.begin(), shares.end(), empty); };
    const bool wide = any([](const PackedShare& s) { return s.row0 == s.narrow_row; });
    const bool narrow = any([](const PackedShare& s) { return s.narrow_row == s.row1; });
    const bool scatter = state_.ranks_own_rows();
    for (int rank = 0; rank < state_.op.ranks; ++rank) {
      auto regions = [&](const PackedShare& share, int32_t down, uint16_t buffer, auto visit) {
        const Rect full{share.row0, share.narrow_row, 0, packing_.wide};
        const Rect rest{share.narrow_row, share.row1, 0, packing_.narrow};
        if (wide) visit(region_of(full.moved(down), buffer, rank));
        if (narrow) visit(region_of(rest.moved(down), buffer, rank));
      };
      for (const PackedShare& share : shares) {
        regions(share, 0, state_.buffers.packed, [&](const Region& r) { emit_.read(r); });
      }
      const PackedShare& own = shares[scatter ? static_cast<size_t>(rank) : 0];
      regions(own, scatter ? own.sums_row - own.row0 : 0,
              scatter ? state_.buffers.sums : state_.buffers.packed,
              [&](const Region& r) { emit_.write(r); });
      emit_.collective(rank, scatter ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                       static_cast<int32_t>(group));
    }
  }

  void restore(size_t group) {
    const bool scatter = state_.ranks_own_rows();
    for (int rank = 0; rank < state_.op.ranks; ++rank) {
      const PackedShare& share = packing_.groups[group][scatter ? static_cast<size_t>(rank) : 0];
      for (const int32_t tile : share.tiles) {
        emit_.read(packed_sums(state_, rank, tile, 0, state_.grid.rect(tile).rows()));
        const auto begin = scatter ? static_cast<int32_t>(state_.shards.begin(rank)) : 0;
        emit_.write(region_of(state_.grid.rect(tile).moved(-begin), state_.buffers.out, rank));
        emit_.task(state_.lanes.compute_lane(rank, restorers_.next(rank)), Opcode::copy, tile);
      }
    }
  }

  SegmentLowering& state_;
  Emitter& emit_;
  const Packing& packing_;
  const std::vector<int32_t> done_;  // by group: the last wave
  Dealer restorers_;                 // beginning with the first lane that has a tile less
};

AfterTiles emit_packed_reduce(SegmentLowering& state, Emitter& emit, bool) {
  const auto reduce = std::make_shared<PackedReduce>(state, emit);
  reduce->emit();
  if (state.restored) return {};
  return {[reduce] { reduce->restore_all(); }, {}};
}

void declare_packed(SegmentLowering& state, const PatternBuffers& buffers) {
  const Packing& packing = state.packing;
  BufferIds& ids = state.buffers;
  ids.packed = buffers.local("packed", state.op.dtype, packing.rows, packing.wide);
  if (!state.ranks_own_rows()) return;
  ids.sums = buffers.local("sums", state.op.dtype, packing.sums_rows, packing.wide);
}

}  // namespace

const Pattern patterns::packed_reduce{.lay_out_rows = lay_out_packed,
                                      .declare_buffers = declare_packed,
                                      .emit_tiles = emit_packed_reduce,
                                      .by_nccl = true,
                                      .packs = true};

}  // namespace stretto
