// The movers of overlapped operators: a push all-gather and the reduction of an owner's slots, tile
// by tile, joined to compute kernels by a BlockChannel.
//
// All ranks call them together, run after run, each rank with the same grid in every run. Ranks
// that call with other arguments find out before a byte is moved. And since who moves has heard
// from all, a run may overwrite what kernels before it on their streams have read.
#pragma once

#include "stretto/device/lang/kernels/tile_greeting.h"
#include "stretto/device/lang/tile.h"

namespace stretto::device {

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
template <class Block>
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
    for (uint64 i = rows.low * row_vectors + static_cast<uint64>(block.thread_idx());
         i < rows.high * row_vectors; i += static_cast<uint64>(block.num_threads())) {
      const Vec16 value = source[i - shard_row * row_vectors];
      for (int k = 1; k <= ranks; ++k) {
        auto to = shmem.ptr(dest, (me + k) % ranks);
        to[i] = value;
      }
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
template <class Format, class Block>
STRETTO_KERNEL void slot_reduce(Block& block, const SlotReduceArgs<Block>& args) {
  Tiles tiles(block, args.channel);
  const int ranks = block.num_ranks();
  const uint64 slot_vectors = args.rows * args.row_vectors;
  const CallShare share = begin_call(block, args.state);
  if (!greet_all<Block>(
          block, share, args.greetings,
          TileGreeting::of(args.channel, args.row_vectors, "row_vectors",
                           16 / static_cast<uint64>(Format::kElements), "element_bytes",
                           args.channel.notifies_per_tile, "notifies_per_tile"))) {
    return;
  }
  for (auto t = static_cast<uint64>(block.block_idx()); t < args.channel.consumer.num_tiles;
       t += static_cast<uint64>(block.num_blocks())) {
    if (!tiles.consumer_tile_wait(t)) return;
    const Region rows = tiles.consumer_region(t);
    for (uint64 i = rows.low * args.row_vectors + static_cast<uint64>(block.thread_idx());
         i < rows.high * args.row_vectors; i += static_cast<uint64>(block.num_threads())) {
      float sums[Format::kElements] = {};
      for (int r = 0; r < ranks; ++r) {
        const Vec16 value = args.slots[static_cast<uint64>(r) * slot_vectors + i];
        Format::add(sums, value);
      }
      args.output[i] = Format::round(sums);
    }
  }
  end_call<Block>(block, args.state, share.call, true);
}

}  // namespace stretto::device
