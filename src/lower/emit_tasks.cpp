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
  emit_gemm(state, emit, [&](int rank, int32_t tile) {
    const Rect rect = state.grid.rect(tile);
    read_a(state, emit, rank, rect);
    emit.read(weights_of(state, rank, rect));
    emit.write(region_of(rect, state.buffers.out, rank));
  });
}

void emit_gemm(Lowering& state, Emitter& emit, const std::function<void(int, int32_t)>& operands,
               const std::function<void(int32_t)>& after_wave) {
  const int32_t lanes = state.lanes.compute;
  int32_t waves = 0;
  for (const TileOrder& order : state.orders) waves = std::max(waves, order.waves);
  std::vector<size_t> at(state.orders.size(), 0);  // kernel of each rank
  for (int32_t wave = 0; wave < waves; ++wave) {
    for (int rank = 0; rank < state.op.ranks; ++rank) {
      const TileOrder& order = state.orders[static_cast<size_t>(rank)];
      size_t& k = at[static_cast<size_t>(rank)];
      if (k == order.kernels.size()) continue;
      const Kernel& kernel = order.kernels[k];
      if (wave == kernel.first_wave && kernel.opens) emit.boundary(rank);
      const int32_t first = kernel.first + (wave - kernel.first_wave) * lanes;
      for (int32_t i = first; i < std::min(first + lanes, kernel.last); ++i) {
        const int32_t tile = order.tiles[static_cast<size_t>(i)];
        operands(rank, tile);
        emit.task(state.lanes.compute_lane(rank, i - first), Opcode::gemm, tile);
      }
      if (wave + 1 < kernel.end_wave) continue;
      if (kernel.closes) emit.boundary(rank);
      ++k;
    }
    if (after_wave) after_wave(wave);
  }
}

Region weights_of(const Lowering& state, int rank, const Rect& tile) {
  return {tile.col0,
          tile.col1,
          0,
          static_cast<int32_t>(state.op.local_k()),
          state.buffers.b,
          static_cast<uint16_t>(rank)};
}

void read_a(const Lowering& state, Emitter& emit, int rank, const Rect& tile) {
  const auto k = static_cast<int32_t>(state.op.local_k());
  state.layout.for_each_run(tile.row0, tile.row1, [&](int32_t row0, int32_t row1) {
    emit.read(region_of({row0, row1, 0, k}, state.buffers.a, rank));
  });
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
