// The movers of overlapped operators, each joined to the other side by a BlockChannel.
#pragma once

#include "stretto/device/lang/kernels/movers.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

using namespace device;

// Every rank's rows to all; the consumer waits for tiles of another size than they are sent in.
inline void push_gather_call(World& world) {
  constexpr uint64 kShardRows = 3, kBytes = 16;
  const int ranks = world.shape().ranks;
  const uint64 rows = kShardRows * static_cast<uint64>(ranks);
  auto byte_at = [](uint64 i) { return static_cast<uint8>(i * 7 + 3); };
  auto signals = world.symmetric<uint64>("signals", 2 * size_t(ranks), 0);
  auto shard = world.local<uint8>("shard", kShardRows * kBytes);
  auto gathered = world.symmetric<uint8>("gathered", rows * kBytes);
  auto epoch = world.local<uint64>("epoch", 1, 1);
  auto seen = world.local<uint8>("seen", rows * kBytes, 0);
  for (int r = 0; r < ranks; ++r) {
    for (uint64 i = 0; i < kShardRows * kBytes; ++i) {
      shard.set(r, i, byte_at(uint64(r) * kShardRows * kBytes + i));
    }
  }
  auto channel_of = [=](int r) {
    BlockChannel<Block> channel{};
    channel.producer.num_rows = rows;
    channel.producer.tile_rows = 1;
    channel.producer.num_tiles = rows;
    channel.producer.tiles_per_rank = kShardRows;
    channel.producer.tiles_per_signal = 3;
    channel.consumer = channel.producer;
    channel.consumer.tile_rows = 4;
    channel.consumer.num_tiles = (rows + 3) / 4;
    channel.notifies_per_tile = 1;
    channel.signals = signals.at(r);
    channel.epoch = epoch.at(r);
    return channel;
  };
  world.launch([=](Block& block) {
    const int r = block.rank();
    push_gather(block, GatherArgs<Block>{channel_of(r), shard.at(r), gathered.at(r), kBytes});
  });
  world.launch(1, world.shape().threads, [=](Block& block) {
    const int r = block.rank();
    const auto channel = channel_of(r);
    Tiles tiles(block, channel);
    for (uint64 t = 0; t < channel.consumer.num_tiles; ++t) {
      if (!tiles.consumer_tile_wait(t)) return;
      const Region region = tiles.consumer_region(t);
      for (uint64 i = region.low * kBytes + uint64(block.thread_idx()); i < region.high * kBytes;
           i += uint64(block.num_threads())) {
        seen.at(r)[i] = gathered.at(r)[i];
      }
    }
  });
  if (!world.run()) return;
  for (int r = 0; r < ranks; ++r) {
    for (uint64 i = 0; i < rows * kBytes; ++i) {
      world.expect(seen.get(r, i) == byte_at(i), "a byte is wrong");
    }
  }
}

// Every rank stores its partial sums into its slot at the owner, tile by tile; the owner's blocks
// follow on a stream of their own and add them up in rank order.
inline void slot_reduce_call(World& world) {
  constexpr uint64 kRows = 8, kRowVectors = 2, kSlot = kRows * kRowVectors;
  const int ranks = world.shape().ranks;
  const int blocks = world.shape().blocks;
  auto partial = world.local<Vec16>("partial", size_t(ranks) * kSlot);
  auto slots = world.symmetric<Vec16>("slots", size_t(ranks) * kSlot);
  auto output = world.local<Vec16>("output", kSlot);
  auto signals = world.symmetric<uint64>("signals", 4, 0);
  auto epoch = world.local<uint64>("epoch", 1, 1);
  for (int r = 0; r < ranks; ++r) {
    for (uint64 i = 0; i < uint64(ranks) * kSlot; ++i) {
      const float values[8] = {float(r), float(i % 5), 1, 2, 3, 4, 5, 6};
      partial.set(r, i, Bf16x8::round(values));
    }
  }
  world.launch([=](Block& block) {
    const int r = block.rank();
    Shmem shmem(block);
    for (auto t = uint64(block.block_idx()); t < 4; t += uint64(blocks)) {
      for (int k = 1; k <= ranks; ++k) {
        const int owner = (r + k) % ranks;
        const uint64 at = t * 2 * kRowVectors;
        shmem.putmem_signal_block(
            slots.at(r) + (uint64(r) * kSlot + at), partial.at(r) + (uint64(owner) * kSlot + at),
            2 * kRowVectors * sizeof(Vec16), signals.at(r) + t, 1, SignalOp::kAdd, owner);
      }
    }
  });
  for (int r = 0; r < ranks; ++r) {
    world.launch_on(r, 1, blocks, world.shape().threads, [=](Block& block) {
      TileMap<Block> producer{};
      producer.num_tiles = 4;
      producer.num_rows = kRows;
      producer.tile_rows = 2;
      producer.tiles_per_signal = 1;
      TileMap<Block> consumer = producer;
      consumer.num_tiles = 3;
      consumer.tile_rows = 3;
      SlotReduceArgs<Block> args{};
      args.channel.producer = producer;
      args.channel.consumer = consumer;
      args.channel.notifies_per_tile = uint64(ranks);
      args.channel.signals = signals.at(r);
      args.channel.epoch = epoch.at(r);
      args.slots = slots.at(r);
      args.output = output.at(r);
      args.rows = kRows;
      args.row_vectors = kRowVectors;
      slot_reduce<Bf16x8>(block, args);
    });
  }
  if (!world.run()) return;
  for (int r = 0; r < ranks; ++r) {
    for (uint64 i = 0; i < kSlot; ++i) {
      float got[8] = {}, want[8] = {};
      Bf16x8::add(got, output.get(r, i));
      for (int from = 0; from < ranks; ++from) {
        const float values[8] = {float(from), float((uint64(r) * kSlot + i) % 5), 1, 2, 3, 4, 5, 6};
        for (int e = 0; e < 8; ++e) want[e] += values[e];
      }
      for (int e = 0; e < 8; ++e) world.expect(got[e] == want[e], "a sum is wrong");
    }
  }
}

}  // namespace stretto::fibre
