// What joins a producer's tiles to a consumer's: tile -> region, tile -> rank, tile -> signal
// (TileLink, arXiv 2503.20313: f_S, f_R, f_C), affine where static, by tables where routing
// decides.
#pragma once

#include "stretto/device/lang/words.h"

namespace stretto::device {

// Rows [low, high) of the tensor that both sides talk about.
struct Region {
  uint64 low;
  uint64 high;
};

template <class Block>
struct TileMap {
  uint64 num_tiles;
  uint64 num_rows;

  // Affine: tile t has rows [t * tile_rows, (t + 1) * tile_rows), clamped; belongs to rank
  // t / tiles_per_rank and to signal t / tiles_per_signal.
  uint64 tile_rows;
  uint64 tiles_per_rank;
  uint64 tiles_per_signal;

  // By table, when `low` is not null: entry t for tile t, filled before the kernel, or by it and
  // ordered by a barrier before the first use. The tables live as long as kernels that use them run
  // and change only between runs; those of a producer are the same on all ranks.
  Ptr<Block, const uint64> low;
  Ptr<Block, const uint64> high;
  Ptr<Block, const uint32> rank;
  Ptr<Block, const uint32> signal;
  Ptr<Block, const uint64> tiles_of_signal;  // entry s: how many tiles raise signal s
};

template <class Block>
struct BlockChannel {
  TileMap<Block> producer;
  TileMap<Block> consumer;          // its regions only
  uint64 notifies_per_tile;         // a run: 1, or num_ranks where all ranks produce each tile
  Ptr<Block, uint64> signals;       // symmetric, one a producer signal; they only grow
  Ptr<Block, uint64> peer_signals;  // symmetric, num_ranks x producer.num_tiles
  Ptr<Block, const uint64> epoch;   // local: the number of this run, from 1
};

}  // namespace stretto::device
