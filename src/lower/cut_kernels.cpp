#include "lower/cut_kernels.h"

#include <vector>

namespace stretto {
namespace {

// Tiles that may share a kernel: all, or those of one chunk or one group of chunks.
int64_t batch_of(const SegmentLowering& state, const TileTurns& turns, int32_t tile) {
  if (!state.kernel_per_chunk()) return 0;
  const int64_t turn = turns.of(tile);
  const int64_t chunk = state.by_nccl() ? turn / state.op.ranks : turn;
  const std::vector<int>& groups = state.schedule.groups;
  if (groups.empty()) return chunk;
  // By arrival the own chunks share a turn and others have none: chunks are counted.
  const int64_t before = state.by_nccl() ? chunk : turns.pieces_before(turn);
  int64_t group = 0, end = 0;
  for (const int size : groups) {
    end += size;
    if (before < end) break;
    ++group;
  }
  return group;
}

}  // namespace

void cut_kernels(const SegmentLowering& state, const TileTurns& turns, TileOrder& order) {
  const bool events = state.schedule.sync == Sync::event && state.pattern.communicates;
  const auto count = static_cast<int32_t>(order.tiles.size());
  const auto tile_at = [&](int32_t i) { return order.tiles[static_cast<size_t>(i)]; };
  TileKernel kernel;
  for (int32_t i = 0; i < count;) {
    const int64_t batch = batch_of(state, turns, tile_at(i));
    int32_t end = i;
    bool others = state.by_nccl() || (!state.gathers() && state.comm_lanes() > 0);
    for (; end < count && batch_of(state, turns, tile_at(end)) == batch; ++end) {
      others |= turns.is_foreign(tile_at(end));
    }
    if (events && others && state.gathers()) {
      if (i > kernel.first) order.kernels.push_back(kernel);
      kernel = {i, i, 0, 0, true, false};
    }
    kernel.last = end;
    if (events && others && !state.gathers()) {
      kernel.closes = true;
      order.kernels.push_back(kernel);
      kernel = {end, end, 0, 0, false, false};
    }
    i = end;
  }
  if (kernel.first < kernel.last) order.kernels.push_back(kernel);
  // Stores into peers' slots may have to wait until the slots are free.
  const bool writes_to_peers = state.pattern.stores_to_peers() && !state.stages_partials();
  if (events && writes_to_peers && !order.kernels.empty()) {
    order.kernels.front().opens = true;
  }
}

void number_waves(const SegmentLowering& state, TileOrder& order) {
  const int32_t lanes = state.compute_lanes(), splits = state.splits();
  const bool events = state.schedule.sync == Sync::event;
  order.done_wave.resize(static_cast<size_t>(state.grid.count()));
  for (TileKernel& kernel : order.kernels) {
    kernel.first_wave = order.waves;
    const int32_t tasks = (kernel.last - kernel.first) * splits;
    kernel.end_wave = order.waves + (tasks + lanes - 1) / lanes;
    int32_t wave = kernel.first_wave;
    int32_t left = lanes;  // tasks of this wave
    for (int32_t i = kernel.first; i < kernel.last; ++i) {
      for (left -= splits; left < 0; left += lanes) ++wave;
      order.done_wave[static_cast<size_t>(order.tiles[static_cast<size_t>(i)])] =
          events ? kernel.end_wave - 1 : wave;
    }
    order.waves = kernel.end_wave;
  }
}

}  // namespace stretto
