// The tile layer: TileLink's primitives (arXiv 2503.20313) over any block context. All threads of
// the block call each of them with the same arguments. Waits return false when their deadline has
// passed: the tile is then not there, and the kernel leaves.
//
// Signals count tiles, run after run: run e of a signal that covers n tiles waits for e * n (times
// notifies_per_tile), so nothing is ever reset.
#pragma once

#include "stretto/device/lang/channel.h"
#include "stretto/device/lang/shmem.h"

namespace stretto::device {

enum class To : uint8 { kOwner, kAll };

template <class Block>
class Tiles {
 public:
  STRETTO_PRIMITIVE Tiles(Block& block, const BlockChannel<Block>& channel)
      : block_(block), shmem_(block), channel_(channel) {}

  STRETTO_PRIMITIVE Region region(uint64 tile) const { return region_of(channel_.producer, tile); }
  STRETTO_PRIMITIVE Region consumer_region(uint64 tile) const {
    return region_of(channel_.consumer, tile);
  }
  STRETTO_PRIMITIVE int owner(uint64 tile) const {
    const auto& map = channel_.producer;
    if (map.low) return static_cast<int>(static_cast<uint32>(map.rank[tile]));
    return static_cast<int>(tile / map.tiles_per_rank);
  }

  // The producer's tile is complete: raises its signal at its owner or at every rank. Releases what
  // all threads of the block did before.
  STRETTO_PRIMITIVE void producer_tile_notify(uint64 tile, To to, Where where = Where::here()) {
    block_.sync(where);
    auto signal = channel_.signals + signal_of(tile);
    const int ranks = block_.num_ranks();
    if (to == To::kOwner) {
      if (block_.thread_idx() == 0) shmem_.signal_op(signal, 1, SignalOp::kAdd, owner(tile), where);
      return;
    }
    for (int i = block_.thread_idx(); i < ranks; i += block_.num_threads()) {
      shmem_.signal_op(signal, 1, SignalOp::kAdd, (block_.rank() + 1 + i) % ranks, where);
    }
  }

  // Waits until every producer tile that meets this consumer tile's rows is complete. Acquires for
  // all threads of the block.
  STRETTO_PRIMITIVE bool consumer_tile_wait(uint64 tile, Where where = Where::here()) {
    const Region rows = consumer_region(tile);
    bool failed = false;
    if (channel_.producer.low) {
      failed = !wait_listed(rows, where);
    } else if (block_.thread_idx() == 0) {
      failed = !wait_rows(rows, where);
    }
    return !block_.sync_or(failed, where);
  }

  // A ring's step, between blocks of the same role: this rank has done `tile` of this run. Once a
  // tile, rank and run. Releases what all threads of the block did before.
  STRETTO_PRIMITIVE void peer_tile_notify(uint64 tile, int rank, Where where = Where::here()) {
    const uint64 own = static_cast<uint64>(block_.rank()) * channel_.producer.num_tiles;
    shmem_.signal_op_block(channel_.peer_signals + (own + tile), 1, SignalOp::kAdd, rank, where);
  }
  // Waits until `rank` has. Acquires for all threads of the block.
  STRETTO_PRIMITIVE bool peer_tile_wait(uint64 tile, int rank, Where where = Where::here()) {
    const uint64 theirs = static_cast<uint64>(rank) * channel_.producer.num_tiles;
    const uint64 epoch = channel_.epoch[0];
    return shmem_.signal_wait_until_block(channel_.peer_signals + (theirs + tile), Compare::kGe,
                                          epoch, where);
  }

  // Stores the tile's rows of `source` into the same rows of `dest` at the tile's owner, or at
  // every other rank. No order of its own: notify after it. `source` may be reused after the
  // notify.
  template <class P, class Q>
  STRETTO_PRIMITIVE void tile_push_data(P dest, Q source, uint64 row_bytes, uint64 tile, To to,
                                        Where where = Where::here()) {
    const Region rows = region(tile);
    const uint64 begin = rows.low * row_bytes;
    const uint64 num_bytes = (rows.high - rows.low) * row_bytes;
    auto to_rows = pointer_cast<uint8>(dest) + begin;
    auto from_rows = pointer_cast<const uint8>(source) + begin;
    if (to == To::kOwner) {
      block_.put(to_rows, from_rows, num_bytes, owner(tile), Group::kBlock, true, where);
      return;
    }
    const int ranks = block_.num_ranks();
    for (int i = 1; i < ranks; ++i) {
      block_.put(to_rows, from_rows, num_bytes, (block_.rank() + i) % ranks, Group::kBlock, true,
                 where);
    }
  }
  // Loads the tile's rows of `source` from its owner into the same rows of `dest`. They are there
  // when it returns, for the loading threads; a barrier away for the others. The owner keeps them
  // as they are until it knows that nobody loads any more: by a notify after that barrier.
  template <class P, class Q>
  STRETTO_PRIMITIVE void tile_pull_data(P dest, Q source, uint64 row_bytes, uint64 tile,
                                        Where where = Where::here()) {
    const Region rows = region(tile);
    const uint64 begin = rows.low * row_bytes;
    block_.get(pointer_cast<uint8>(dest) + begin, pointer_cast<const uint8>(source) + begin,
               (rows.high - rows.low) * row_bytes, owner(tile), Group::kBlock, true, where);
  }

 private:
  STRETTO_PRIMITIVE static Region region_of(const TileMap<Block>& map, uint64 tile) {
    if (map.low) return {map.low[tile], map.high[tile]};
    const uint64 low = tile * map.tile_rows;
    const uint64 high = low + map.tile_rows;
    return {low < map.num_rows ? low : map.num_rows, high < map.num_rows ? high : map.num_rows};
  }
  STRETTO_PRIMITIVE uint64 signal_of(uint64 tile) const {
    const auto& map = channel_.producer;
    if (map.low) return static_cast<uint32>(map.signal[tile]);
    return tile / map.tiles_per_signal;
  }
  STRETTO_PRIMITIVE uint64 tiles_of_signal(uint64 signal) const {
    const auto& map = channel_.producer;
    if (map.low) return map.tiles_of_signal[signal];
    const uint64 first = signal * map.tiles_per_signal;
    const uint64 left = map.num_tiles - first;
    return left < map.tiles_per_signal ? left : map.tiles_per_signal;
  }
  STRETTO_PRIMITIVE bool wait_signal(uint64 signal, Where where) {
    const uint64 epoch = channel_.epoch[0];
    return shmem_.signal_wait_until(channel_.signals + signal, Compare::kGe,
                                    epoch * tiles_of_signal(signal) * channel_.notifies_per_tile,
                                    where);
  }
  STRETTO_PRIMITIVE bool wait_rows(Region rows, Where where) {
    const auto& map = channel_.producer;
    if (rows.low >= rows.high) return true;
    const uint64 last = signal_of((rows.high - 1) / map.tile_rows);
    for (uint64 s = signal_of(rows.low / map.tile_rows); s <= last; ++s) {
      if (!wait_signal(s, where)) return false;
    }
    return true;
  }
  // Of tiles by table any may meet the rows: each thread looks at its share of them.
  STRETTO_PRIMITIVE bool wait_listed(Region rows, Where where) {
    const auto& map = channel_.producer;
    const auto step = static_cast<uint64>(block_.num_threads());
    for (auto tile = static_cast<uint64>(block_.thread_idx()); tile < map.num_tiles; tile += step) {
      const Region theirs = region_of(map, tile);
      const uint64 low = theirs.low > rows.low ? theirs.low : rows.low;
      const uint64 high = theirs.high < rows.high ? theirs.high : rows.high;
      if (low < high && !wait_signal(signal_of(tile), where)) return false;
    }
    return true;
  }

  Block& block_;
  Shmem<Block> shmem_;
  const BlockChannel<Block>& channel_;
};

}  // namespace stretto::device
