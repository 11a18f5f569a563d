// The movers of overlapped operators, each joined to the other side by a BlockChannel.
#pragma once

#include <vector>

#include "fibre/scenarios/read_behind.h"
#include "stretto/device/lang/kernels/movers.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

using namespace device;

inline constexpr uint64 kMoverRuns = 3;

// What movers of all runs greet with.
struct MoverGreetings {
  explicit MoverGreetings(World& world)
      : greetings(world.symmetric<Vec16>("greetings", 3 * size_t(world.shape().ranks),
                                         four_of(kNoGreeting))),
        state(world.local<uint64>("state", size_t(world.shape().blocks), 0)) {}
  Buffer<Vec16> greetings;
  Buffer<uint64> state;
};

// Every rank's rows to all; the consumer waits for tiles of another size than they are sent in, and
// the next run stores over what it has read.
inline void push_gather_calls(World& world) {
  constexpr uint64 kShardRows = 3, kBytes = 16;
  const int ranks = world.shape().ranks;
  const uint64 rows = kShardRows * static_cast<uint64>(ranks);
  auto byte_at = [](uint64 i, uint64 run) { return static_cast<uint8>(i * 7 + run * 31); };
  const MoverGreetings greeting(world);
  auto signals = world.symmetric<uint64>("signals", 2 * size_t(ranks), 0);
  auto gathered = world.symmetric<uint8>("gathered", rows * kBytes);
  std::vector<Buffer<uint8>> seen;
  for (uint64 run = 1; run <= kMoverRuns; ++run) {
    auto shard = world.local<uint8>("shard", kShardRows * kBytes);
    auto epoch = world.local<uint64>("epoch", 1, run);
    auto taken = seen.emplace_back(world.local<uint8>("seen", rows * kBytes, 0));
    for (int r = 0; r < ranks; ++r) {
      for (uint64 i = 0; i < kShardRows * kBytes; ++i) {
        shard.set(r, i, byte_at(uint64(r) * kShardRows * kBytes + i, run));
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
      push_gather(block, GatherArgs<Block>{channel_of(r), shard.at(r), gathered.at(r), kBytes,
                                           greeting.greetings.at(r), greeting.state.at(r)});
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
          taken.at(r)[i] = gathered.at(r)[i];
        }
      }
    });
  }
  if (!world.run()) return;
  for (int r = 0; r < ranks; ++r) {
    for (uint64 run = 1; run <= kMoverRuns; ++run) {
      for (uint64 i = 0; i < rows * kBytes; ++i) {
        world.expect(seen[run - 1].get(r, i) == byte_at(i, run), "a byte is wrong");
      }
    }
  }
}

// Every rank stores its partial sums into its slot at the owner, tile by tile; the owner's blocks
// follow on a stream of their own and add them up in rank order.
template <class Format>
void slot_reduce_calls(World& world) {
  constexpr int kElements = Format::kElements;
  constexpr uint64 kRows = 8, kRowVectors = 2, kSlot = kRows * kRowVectors;
  const int ranks = world.shape().ranks;
  const int blocks = world.shape().blocks;
  const MoverGreetings greeting(world);
  std::vector<Buffer<Vec16>> sums;
  const auto value_at = [](int source, uint64 at, uint64 run, int e) {
    return e == 0 ? float(source) : e == 1 ? float(at % 5) : float(e - 1) + float(run);
  };
  for (uint64 run = 1; run <= kMoverRuns; ++run) {
    auto partial = world.local<Vec16>("partial", size_t(ranks) * kSlot);
    auto slots = world.symmetric<Vec16>("slots", size_t(ranks) * kSlot);
    // A rank that sends for the next run must not count for this one: each has signals of its own.
    auto signals = world.symmetric<uint64>("signals", 4, 0);
    auto epoch = world.local<uint64>("epoch", 1, 1);
    auto output = sums.emplace_back(world.local<Vec16>("output", kSlot));
    for (int r = 0; r < ranks; ++r) {
      for (uint64 i = 0; i < uint64(ranks) * kSlot; ++i) {
        float values[kElements];
        for (int e = 0; e < kElements; ++e) values[e] = value_at(r, i, run, e);
        partial.set(r, i, Format::round(values));
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
        args.greetings = greeting.greetings.at(r);
        args.state = greeting.state.at(r);
        slot_reduce<Format>(block, args);
      });
    }
    sums.back() = read_behind(world, output, 1);
  }
  if (!world.run()) return;
  for (int r = 0; r < ranks; ++r) {
    for (uint64 i = 0; i < kMoverRuns * kSlot; ++i) {
      const uint64 run = i / kSlot + 1;
      float got[kElements] = {}, want[kElements] = {};
      Format::add(got, sums[run - 1].get(r, i % kSlot));
      for (int from = 0; from < ranks; ++from) {
        for (int e = 0; e < kElements; ++e)
          want[e] += value_at(from, uint64(r) * kSlot + i % kSlot, run, e);
      }
      for (int e = 0; e < kElements; ++e) world.expect(got[e] == want[e], "a sum is wrong");
    }
  }
}

// One run of a mover, with what `change` makes of rank 1's arguments. Memory suits all of them.
struct OneMover {
  explicit OneMover(World& world)
      : greeting(world),
        vectors(world.symmetric<Vec16>("memory", 256, Vec16{})),
        output(world.local<Vec16>("output", 64)),
        signals(world.symmetric<uint64>("signals", 16, 0)),
        epochs(world.local<uint64>("epoch", 2, 1)) {
    for (int r = 0; r < world.shape().ranks; ++r) epochs.set(r, 1, 2);
  }
  BlockChannel<Block> channel(const Block& block) const {
    const auto ranks = static_cast<uint64>(block.num_ranks());
    BlockChannel<Block> channel{};
    channel.producer.num_rows = 4 * ranks;
    channel.producer.tile_rows = 2;
    channel.producer.num_tiles = 2 * ranks;
    channel.producer.tiles_per_rank = 2;
    channel.producer.tiles_per_signal = 1;
    channel.consumer = channel.producer;
    channel.notifies_per_tile = 1;
    channel.signals = signals.at(block.rank());
    channel.epoch = epochs.at(block.rank());
    return channel;
  }
  GatherArgs<Block> gather(const Block& block) const {
    const int r = block.rank();
    return {channel(block),
            pointer_cast<const uint8>(output.at(r)),
            pointer_cast<uint8>(vectors.at(r)),
            32,
            greeting.greetings.at(r),
            greeting.state.at(r)};
  }
  SlotReduceArgs<Block> reduce(const Block& block) const {
    const int r = block.rank();
    const auto joined = channel(block);
    return {joined,
            vectors.at(r),
            output.at(r),
            joined.producer.num_rows,
            2,
            greeting.greetings.at(r),
            greeting.state.at(r)};
  }

  MoverGreetings greeting;
  Buffer<Vec16> vectors, output;
  Buffer<uint64> signals, epochs;
};

}  // namespace stretto::fibre
