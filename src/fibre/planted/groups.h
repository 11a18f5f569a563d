// Threads, blocks and ranks that do not do the same thing where they must.
#pragma once

#include "fibre/planted/planted.h"

namespace stretto::fibre {

inline void barrier_in_divergent_code(World& world, bool bug) {
  auto x = world.local<float>("x", 8, 0.0f);
  world.launch([=](Block& block) {
    if (!bug || block.thread_idx() < 2) block.sync();
    x.at(block.rank())[block.thread_idx()] = 1.0f;
    block.sync();
  });
  world.run();
}

// Threads past the end of a partial tile return before the block's barrier.
inline void early_return_before_barrier(World& world, bool bug) {
  auto x = world.local<float>("x", 3, 1.0f);
  world.launch([=](Block& block) {
    const bool inside = block.thread_idx() < 3;
    if (bug && !inside) return;
    float value = 0;
    if (inside) value = x.at(block.rank())[block.thread_idx()];
    block.sync();
    if (inside) x.at(block.rank())[(block.thread_idx() + 1) % 3] = value;
  });
  world.run();
}

inline void block_call_with_own_arguments(World& world, bool bug) {
  auto source = world.local<float>("source", 16, 1.0f);
  auto inbox = world.symmetric<float>("inbox", 16);
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    const int me = block.rank();
    const int offset = bug ? 4 * block.thread_idx() : 0;
    const uint64 bytes = bug ? 16 : 64;
    shmem.putmem_block(inbox.at(me) + offset, source.at(me) + offset, bytes, 1 - me);
  });
  world.run();
}

// Four blocks spin on each other, but only two are resident.
inline void blocks_not_co_resident(World& world, bool bug) {
  auto here = world.symmetric<uint64>("here", 1, 0);
  const int blocks = bug ? 4 : 2;
  world.launch(blocks, 1, [=](Block& block) {
    device::Shmem shmem(block);
    shmem.signal_op(here.at(block.rank()), 1, SignalOp::kAdd, 1 - block.rank());
    shmem.signal_wait_until(here.at(block.rank()), Compare::kGe, uint64(blocks));
  });
  world.run();
}

// A rank whose input is empty skips a meeting of all.
inline void barrier_all_skipped_by_one_rank(World& world, bool bug) {
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    if (!shmem.barrier_all_block()) return;
    if (bug && block.rank() == 1) return;
    if (!shmem.barrier_all_block()) return;
  });
  world.run();
}

// Shared memory is read by the neighbour without a barrier.
inline void shared_memory_without_barrier(World& world, bool bug) {
  auto out = world.local<float>("out", 4, 0.0f);
  world.launch([=](Block& block) {
    auto stage = block.shared<float>(0);
    stage[block.thread_idx()] = float(block.thread_idx());
    if (!bug) block.sync();
    const float other = stage[(block.thread_idx() + 1) % block.num_threads()];
    out.at(block.rank())[block.thread_idx()] = other;
  });
  world.run();
}

inline std::vector<Planted> group_bugs() {
  const auto divergence = FindingKind::kDivergence;
  const Shape pair{.ranks = 2, .threads = 4};
  return {
      {"barrier_in_divergent_code", "textbook", {divergence}, pair, barrier_in_divergent_code},
      {"early_return_before_barrier",
       "partial warps, flashinfer 3880",
       {divergence},
       pair,
       early_return_before_barrier},
      {"block_call_with_own_arguments",
       "a _block form used as a thread form",
       {divergence},
       pair,
       block_call_with_own_arguments,
       kPairOnly},
      {"blocks_not_co_resident",
       "Triton-distributed hangs when blocks are not co-resident",
       {FindingKind::kDeadlock},
       {.ranks = 2, .blocks = 4, .threads = 1, .resident_blocks = 2},
       blocks_not_co_resident,
       kPairOnly},
      {"barrier_all_skipped_by_one_rank",
       "default world assumed",
       {FindingKind::kDeadlock},
       pair,
       barrier_all_skipped_by_one_rank},
      {"shared_memory_without_barrier",
       "textbook",
       {FindingKind::kRace, FindingKind::kUnwritten},
       {.ranks = 2, .threads = 4, .shared_bytes = 64},
       shared_memory_without_barrier,
       {.most_threads = 4}},
  };
}

}  // namespace stretto::fibre
