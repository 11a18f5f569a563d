// Pointers to the wrong place, or to memory that nobody has written.
#pragma once

#include "fibre/planted/planted.h"

namespace stretto::fibre {

// 10 elements in tiles of 4: the last tile is not clamped.
inline void last_tile_not_clamped(World& world, bool bug) {
  auto source = world.local<float>("source", 12, 1.0f);
  auto inbox = world.symmetric<float>("inbox", 10);
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    const int me = block.rank();
    for (int tile = 0; tile < 3; ++tile) {
      const int count = bug ? 4 : std::min(4, 10 - 4 * tile);
      shmem.putmem_block(inbox.at(me) + 4 * tile, source.at(me) + 4 * tile,
                         uint64(count) * sizeof(float), 1 - me);
    }
  });
  world.run();
}

inline void address_translated_twice(World& world, bool bug) {
  auto source = world.local<float>("source", 4, 1.0f);
  auto inbox = world.symmetric<float>("inbox", 4);
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    const int me = block.rank();
    auto dest = bug ? shmem.ptr(inbox.at(me), 1 - me) : inbox.at(me);
    shmem.putmem_block(dest, source.at(me), 16, 1 - me);
  });
  world.run();
}

inline void local_memory_as_destination(World& world, bool bug) {
  auto source = world.local<float>("source", 4, 1.0f);
  auto inbox = bug ? world.local<float>("inbox", 4) : world.symmetric<float>("inbox", 4);
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    const int me = block.rank();
    shmem.putmem_block(inbox.at(me), source.at(me), 16, 1 - me);
  });
  world.run();
}

// Rank 2 is on the other node: ptr gives null.
inline void load_from_another_node(World& world, bool bug) {
  auto x = world.symmetric<float>("x", 4, 1.0f);
  auto out = world.local<float>("out", 4, 0.0f);
  world.launch(1, 1, [=](Block& block) {
    device::Shmem shmem(block);
    if (block.rank() != 0) return;
    if (bug) {
      out.at(0)[0] = shmem.ptr(x.at(0), 2)[0];
    } else {
      shmem.getmem(out.at(0), x.at(0), 16, 2);
    }
  });
  world.run();
}

// An all-gather whose own shard nobody copies.
inline void own_shard_not_copied(World& world, bool bug) {
  auto shard = world.local<float>("shard", 4, 1.0f);
  auto all = world.symmetric<float>("all", 4 * size_t(world.shape().ranks));
  auto out = world.local<float>("out", 1, 0.0f);
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    const int me = block.rank();
    const int ranks = block.num_ranks();
    for (int i = bug ? 1 : 0; i < ranks; ++i) {
      shmem.putmem_block(all.at(me) + 4 * me, shard.at(me), 16, (me + i) % ranks);
    }
    if (!shmem.barrier_all_block()) return;
    if (block.thread_idx() != 0) return;
    float sum = 0;
    for (int i = 0; i < 4 * ranks; ++i) sum += all.at(me)[i];
    out.at(me)[0] = sum;
  });
  world.run();
}

inline void vector_access_misaligned(World& world, bool bug) {
  auto x = world.local<float>("x", 16, 1.0f);
  auto out = world.local<float>("out", 4, 0.0f);
  world.launch(1, 1, [=](Block& block) {
    const Vec16 four = pointer_cast<Vec16>(x.at(block.rank()) + (bug ? 2 : 4))[0];
    pointer_cast<Vec16>(out.at(block.rank()))[0] = four;
  });
  world.run();
}

inline std::vector<Planted> address_bugs() {
  const Shape pair{.ranks = 2, .threads = 4};
  return {
      {"last_tile_not_clamped",
       "sizes that no tile divides",
       {FindingKind::kOutOfBounds},
       pair,
       last_tile_not_clamped,
       kPairOnly},
      {"address_translated_twice",
       "ptr() result passed to a put",
       {FindingKind::kWrongRank},
       pair,
       address_translated_twice,
       kPairOnly},
      {"local_memory_as_destination",
       "buffer not from the symmetric heap",
       {FindingKind::kWrongRank},
       pair,
       local_memory_as_destination,
       kPairOnly},
      {"load_from_another_node",
       "P2P assumed",
       {FindingKind::kPutOnly},
       {.ranks = 4, .threads = 1, .ranks_per_node = 2},
       load_from_another_node,
       {.least_ranks = 3}},
      {"own_shard_not_copied", "textbook", {FindingKind::kUnwritten}, pair, own_shard_not_copied},
      {"vector_access_misaligned",
       "carved windows, nccl 2198",
       {FindingKind::kMisaligned},
       pair,
       vector_access_misaligned},
  };
}

}  // namespace stretto::fibre
