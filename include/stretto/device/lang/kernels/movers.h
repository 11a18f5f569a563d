// The movers of overlapped operators: a push all-gather and the reduction of an owner's slots, tile
// by tile, joined to compute kernels by a BlockChannel.
//
// All ranks call them together, run after run, each rank with the same grid in every run. Ranks
// that call with other arguments find out before a byte is moved. And since who moves has heard
// from all, a run may overwrite what kernels before it on their streams have read.
#pragma once

#include "stretto/device/lang/kernels/tile_greeting.h"
#include "stretto/device/lang/tile.h"
#include "stretto/device/sums.h"

namespace stretto::device {

// Vectors whose loads one thread has in flight by default; with 1024 threads a block, 4.
inline constexpr int kMoverVectors = 8;

// What one thread of a block moves of a tile: kVectors vectors a turn, a block's width apart.
template <int kVectors>
struct TileTurn {
  template <class Block>
  STRETTO_PRIMITIVE static TileTurn of(Block& block, const Region& rows, uint64 row_vectors) {
    return {rows.low * row_vectors + static_cast<uint64>(block.thread_idx()),
            rows.high * row_vectors, static_cast<uint64>(block.num_threads())};
  }
  STRETTO_PRIMITIVE bool any() const { return first < end; }
  STRETTO_PRIMITIVE void advance() { first += kVectors * step; }
  STRETTO_PRIMITIVE uint64 at(int v) const { return first + static_cast<uint64>(v) * step; }
  STRETTO_PRIMITIVE bool has(int v) const { return at(v) < end; }
  // The tile's last vector where the turn has no vector v: so all can be loaded.
  STRETTO_PRIMITIVE uint64 inside(int v) const { return has(v) ? at(v) : end - 1; }
  uint64 first, end, step;
};

template <class Block>
struct GatherArgs {
  BlockChannel<Block> channel;    // producer tiles: rows of the gathered tensor
  Ptr<Block, const uint8> shard;  // local: this rank's rows
  Ptr<Block, uint8> gathered;     // symmetric: all rows
  uint64 row_bytes;               // a multiple of 16
  Ptr<Block, Vec16> greetings;    // symmetric, kNoGreeting at first: 3 x num_ranks
  Ptr<Block, uint64> state;       // local: num_blocks, zero at first
};

// Each tile is loaded once and stored to all ranks, then notified to all. Blocks take turns.
template <class Block, int kInFlight = kMoverVectors>
STRETTO_KERNEL void push_gather(Block& block, const GatherArgs<Block>& args) {
  Tiles tiles(block, args.channel);
  Shmem shmem(block);
  const int ranks = shmem.n_pes();
  const int me = shmem.my_pe();
  const TileMap<Block>& map = args.channel.producer;
  const bool table = static_cast<bool>(map.low);
  const CallShare share = begin_call(block, args.state);
  if (!greet_all<Block>(block, share, args.greetings,
                        TileGreeting::of(args.channel, args.row_bytes, "row_bytes", map.num_rows,
                                         "num_rows", table ? map.num_tiles : map.tiles_per_signal,
                                         table ? "num_tiles" : "tiles_per_signal"))) {
    return;
  }
  const uint64 per_rank = args.channel.producer.tiles_per_rank;
  const uint64 first_tile = static_cast<uint64>(me) * per_rank;
  const uint64 shard_row = tiles.region(first_tile).low;
  const uint64 row_vectors = args.row_bytes / sizeof(Vec16);
  auto source = pointer_cast<const Vec16>(args.shard);
  auto dest = pointer_cast<Vec16>(args.gathered);
  for (auto t = static_cast<uint64>(block.block_idx()); t < per_rank;
       t += static_cast<uint64>(block.num_blocks())) {
    const Region rows = tiles.region(first_tile + t);
    for (auto turn = TileTurn<kInFlight>::of(block, rows, row_vectors); turn.any();
         turn.advance()) {
      Vec16 values[kInFlight];
      STRETTO_UNROLL for (int v = 0; v < kInFlight; ++v) {
        values[v] = source[turn.inside(v) - shard_row * row_vectors];
      }
      store_to_each<kInFlight>(
          ranks, [&](int k) { return shmem.ptr(dest, rank_after(me, k + 1, ranks)); },
          [&](Ptr<Block, Vec16> to, int v) {
            if (turn.has(v)) to[turn.at(v)] = values[v];
          });
    }
    tiles.producer_tile_notify(first_tile + t, To::kAll);
  }
  end_call<Block>(block, args.state, share.call, true);
}

template <class Block>
struct SlotReduceArgs {
  BlockChannel<Block> channel;    // producer tiles: rows of this rank's shard, from every rank
  Ptr<Block, const Vec16> slots;  // symmetric: num_ranks x rows x row_vectors
  Ptr<Block, Vec16> output;       // local: rows x row_vectors
  uint64 rows;                    // of this rank's shard; others may have another number
  uint64 row_vectors;
  Ptr<Block, Vec16> greetings;  // as in GatherArgs
  Ptr<Block, uint64> state;
};

// Follows the producers: each consumer tile is summed in fp32 in rank order once all have sent it.
template <class Format, class Block, int kInFlight = kMoverVectors>
STRETTO_KERNEL void slot_reduce(Block& block, const SlotReduceArgs<Block>& args) {
  constexpr int kVectors = kInFlight / 2;  // each of two slots
  Tiles tiles(block, args.channel);
  const int ranks = block.num_ranks();
  const uint64 slot_vectors = args.rows * args.row_vectors;
  const CallShare share = begin_call(block, args.state);
  if (!greet_all<Block>(
          block, share, args.greetings,
          TileGreeting::of(args.channel, args.row_vectors, "row_vectors", Format::kMantissaBits,
                           "mantissa_bits", args.channel.notifies_per_tile, "notifies_per_tile"))) {
    return;
  }
  for (auto t = static_cast<uint64>(block.block_idx()); t < args.channel.consumer.num_tiles;
       t += static_cast<uint64>(block.num_blocks())) {
    if (!tiles.consumer_tile_wait(t)) return;
    const Region rows = tiles.consumer_region(t);
    for (auto turn = TileTurn<kVectors>::of(block, rows, args.row_vectors); turn.any();
         turn.advance()) {
      float sums[kVectors * Format::kElements] = {};
      add_sources<Format, kInFlight / kVectors, kVectors>(
          ranks,
          [&](int r, int v) -> Vec16 {
            return args.slots[static_cast<uint64>(r) * slot_vectors + turn.inside(v)];
          },
          sums);
      STRETTO_UNROLL for (int v = 0; v < kVectors; ++v) {
        if (turn.has(v)) args.output[turn.at(v)] = Format::round(sums + v * Format::kElements);
      }
    }
  }
  end_call<Block>(block, args.state, share.call, true);
}

}  // namespace stretto::device
