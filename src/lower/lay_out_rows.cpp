// lay_out_rows: chooses how the rows of the communicated matrix lie in storage.
#include <numeric>

#include "lower/lowering.h"
#include "lower/wave_groups.h"

namespace stretto {
namespace {

std::vector<int> equal_chunks(const Schedule& schedule) {
  const bool cut = schedule.granularity == Granularity::chunk;
  return std::vector<int>(static_cast<size_t>(cut ? schedule.chunks : 1), 1);
}

// Chunks of a gather are as many waves of tiles as the schedule's groups have.
std::vector<int> chunks_in_waves(const SegmentLowering& state) {
  const TileGrid grid({{0, static_cast<int32_t>(state.op.m)}},
                      static_cast<int32_t>(state.op.local_n()), state.schedule.tile_m,
                      state.schedule.tile_n);
  const int lanes = std::max(1, state.machine.sms - state.schedule.comm_sms);
  return wave_groups(state.schedule, (grid.count() + lanes - 1) / lanes);
}

int32_t block_of(const SegmentLowering& state) {
  return static_cast<int32_t>(state.shards.block());
}

}  // namespace

void lay_out_plain(SegmentLowering& state) {
  state.layout = plain_rows(state.has_own_tiles() ? RowShards{block_of(state), 1} : state.shards);
}

void lay_out_shards(SegmentLowering& state) {
  const Schedule& schedule = state.schedule;
  state.shard_cuts = cut_rows(block_of(state), equal_chunks(schedule), schedule.tile_m);
  state.layout = state.kernel_per_chunk() && state.ranks_own_rows()
                     ? chunked_shards(state.shards, state.shard_cuts)
                     : plain_rows(state.shards);
}

void lay_out_own(SegmentLowering& state) {
  const Schedule& schedule = state.schedule;
  const RowShards own{block_of(state), 1};
  state.shard_cuts = cut_rows(block_of(state), equal_chunks(schedule), schedule.tile_m);
  state.layout = state.kernel_per_chunk() ? chunked_shards(own, state.shard_cuts) : plain_rows(own);
}

void lay_out_chunked_shards(SegmentLowering& state) {
  state.shard_cuts = cut_rows(block_of(state), equal_chunks(state.schedule), state.schedule.tile_m);
  state.layout = chunked_shards(state.shards, state.shard_cuts);
}

void lay_out_chunks(SegmentLowering& state) {
  const Schedule& schedule = state.schedule;
  // With this many rows of each shard, a chunk of all shards is a number of whole tiles.
  const int32_t shared_unit = schedule.tile_m / std::gcd(schedule.tile_m, state.shards.ranks);
  state.shard_cuts = cut_rows(
      block_of(state),
      schedule.granularity == Granularity::waves ? chunks_in_waves(state) : equal_chunks(schedule),
      shared_unit);
  state.layout = interleaved_chunks(state.shards, state.shard_cuts);
}

void lay_out_packed(SegmentLowering& state) {
  state.layout = chunked_shards(state.shards, {0, block_of(state)});
}

void lay_out_rows(SegmentLowering& state) { state.pattern.lay_out_rows(state); }

}  // namespace stretto
