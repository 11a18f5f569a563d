// emit_tasks: every task, in an order in which one thread could execute them all.
#include "lower/emit_patterns.h"
#include "stretto/error.h"

namespace stretto {

void emit_tasks(Draft& draft) {
  Lowering& state = lowering(draft);
  Emitter emit(state);
  switch (state.pattern) {
    case Pattern::local:
      return emit_local(state, emit);
    case Pattern::push_gather:
      return emit_push_gather(state, emit);
    case Pattern::nccl_gather:
      return emit_nccl_gather(state, emit);
    case Pattern::slot_reduce:
      return emit_slot_reduce(state, emit);
    case Pattern::nccl_reduce:
      return emit_nccl_reduce(state, emit);
    case Pattern::packed_reduce:
      return emit_packed_reduce(state, emit);
  }
  STRETTO_ASSERT(false, "pattern out of range");
}

void emit_local(Lowering& state, Emitter& emit) {
  emit_gemm(state, emit, own_rows_of_a(state, emit), [&](int rank, int32_t tile) {
    emit.write(region_of(state.grid.rect(tile), state.buffers.out, rank));
  });
}

KRange k_range(const Lowering& state, int index, int ranges) {
  const int64_t k = state.op.local_k(), steps = (k + kSplitStep - 1) / kSplitStep;
  const auto begin = [&](int i) {
    return static_cast<int32_t>(std::min(k, steps * i / ranges * kSplitStep));
  };
  return {begin(index), begin(index + 1)};
}

namespace {

std::vector<KRange> k_ranges(const Lowering& state, int ranges) {
  std::vector<KRange> all;
  for (int i = 0; i < ranges; ++i) all.push_back(k_range(state, i, ranges));
  return all;
}

// Where the sums of a range of a tile's K are kept.
Region sums_of_range(const Lowering& state, int rank, const Rect& tile, int index) {
  const auto down = static_cast<int32_t>(index * state.op.m);
  return region_of(tile.moved(down), state.buffers.ranges, rank);
}

}  // namespace

void emit_gemm(Lowering& state, Emitter& emit, const ReadA& read_a,
               const std::function<void(int, int32_t)>& write_tile,
               const std::function<void(int32_t)>& after_wave) {
  const int32_t lanes = state.lanes.compute, splits = state.splits();
  const std::vector<KRange> of_split = k_ranges(state, splits);
  const std::vector<KRange> of_phase = k_ranges(state, state.phases());
  const auto emit_range = [&](int rank, int32_t tile, int range, const std::vector<KRange>& all,
                              uint32_t lane) {
    const KRange k = all[static_cast<size_t>(range)];
    const Rect& rect = state.grid.rect(tile);
    read_a(rank, rect, k);
    emit.read(region_of({rect.col0, rect.col1, k.begin, k.end}, state.buffers.b, rank));
    if (all.size() == 1) {
      write_tile(rank, tile);
    } else {
      emit.write(sums_of_range(state, rank, rect, range));
    }
    emit.task(lane, Opcode::gemm, tile);
  };
  const auto emit_sum = [&](int rank, int32_t tile, int ranges, uint32_t lane) {
    for (int i = 0; i < ranges; ++i) {
      emit.read(sums_of_range(state, rank, state.grid.rect(tile), i));
    }
    write_tile(rank, tile);
    emit.task(lane, Opcode::reduce, tile);
  };
  // Task `turn` of a tile's.
  const auto emit_task = [&](int rank, int32_t tile, int32_t turn, uint32_t lane) {
    if (state.in_phases(rank, tile)) {
      for (int i = 0; i < state.phases(); ++i) emit_range(rank, tile, i, of_phase, lane);
      return emit_sum(rank, tile, state.phases(), lane);
    }
    emit_range(rank, tile, turn + 1 < splits ? turn + 1 : 0, of_split, lane);
    if (splits > 1 && turn + 1 == splits) emit_sum(rank, tile, splits, lane);
  };

  int32_t waves = 0;
  for (const TileOrder& order : state.orders) waves = std::max(waves, order.waves);
  std::vector<size_t> at(state.orders.size(), 0);  // kernel of each rank
  for (int32_t wave = 0; wave < waves; ++wave) {
    for (int rank = 0; rank < state.op.ranks; ++rank) {
      const TileOrder& order = state.orders[static_cast<size_t>(rank)];
      size_t& k = at[static_cast<size_t>(rank)];
      if (k == order.kernels.size()) continue;
      const TileKernel& kernel = order.kernels[k];
      if (wave == kernel.first_wave && kernel.opens) emit.boundary(rank);
      const int32_t first = kernel.first * splits + (wave - kernel.first_wave) * lanes;
      const int32_t end = std::min(first + lanes, kernel.last * splits);
      for (int32_t i = first; i < end; ++i) {
        const int32_t tile = splits == 1 ? i : i / splits;
        emit_task(rank, order.tiles[static_cast<size_t>(tile)], i - tile * splits,
                  state.lanes.compute_lane(rank, i - first));
      }
      if (wave + 1 < kernel.end_wave) continue;
      if (kernel.closes) emit.boundary(rank);
      ++k;
    }
    if (after_wave) after_wave(wave);
  }
}

ReadA own_rows_of_a(const Lowering& state, Emitter& emit) {
  return [&](int rank, const Rect& tile, KRange k) {
    state.layout.for_each_run(tile.row0, tile.row1, [&](int32_t row0, int32_t row1) {
      emit.read(region_of({row0, row1, k.begin, k.end}, state.buffers.a, rank));
    });
  };
}

std::vector<int32_t> groups_done(const Lowering& state,
                                 const std::function<int32_t(int32_t)>& group_of, size_t groups) {
  std::vector<int32_t> done(groups, 0);
  for (const TileOrder& order : state.orders) {
    for (int32_t tile = 0; tile < state.grid.count(); ++tile) {
      int32_t& wave = done[static_cast<size_t>(group_of(tile))];
      wave = std::max(wave, order.done_wave[static_cast<size_t>(tile)]);
    }
  }
  return done;
}

uint32_t copy_lane(const Lowering& state, int rank, int peer) {
  const bool network = state.lanes.copy > 1 && !state.machine.same_node(rank, peer);
  return state.lanes.copy_lane(rank, network ? 1 : 0);
}

}  // namespace stretto
