// Producers that signal too early, too weakly, or for others' work.
#pragma once

#include "fibre/planted/planted.h"

namespace stretto::fibre {

// Rank 0 produces 16 floats for rank 1, which waits and sums them.
struct Handover {
  explicit Handover(World& world)
      : source(world.local<float>("source", 16, 1.0f)),
        inbox(world.symmetric<float>("inbox", 16)),
        arrived(world.symmetric<uint64>("arrived", 1, 0)),
        sum(world.local<float>("sum", 1)) {}

  // What rank 1 does. Every thread of the block may read after it.
  bool wait(Block& block, uint64 count = 1) const {
    device::Shmem shmem(block);
    return shmem.signal_wait_until_block(arrived.at(1), Compare::kGe, count);
  }
  void add_up(Block& block) const {
    if (block.thread_idx() != 0) return;
    float total = 0;
    for (int i = 0; i < 16; ++i) total += inbox.at(1)[i];
    sum.at(1)[0] = total;
  }
  void finish(World& world) const {
    if (world.run()) world.expect(sum.get(1, 0) == 16.0f, "the sum is wrong");
  }

  Buffer<float> source, inbox;
  Buffer<uint64> arrived;
  Buffer<float> sum;
};

inline void hand_over(World& world, const std::function<void(Block&, const Handover&)>& produce) {
  const Handover handover(world);
  world.launch([=](Block& block) {
    if (block.rank() == 0) produce(block, handover);
    if (block.rank() == 1) {
      if (!handover.wait(block)) return;
      handover.add_up(block);
    }
  });
  handover.finish(world);
}

inline void signal_before_data(World& world, bool bug) {
  hand_over(world, [=](Block& block, const Handover& h) {
    device::Shmem shmem(block);
    if (block.thread_idx() != 0) return;
    if (bug) shmem.signal_op(h.arrived.at(0), 1, SignalOp::kAdd, 1);
    shmem.putmem(h.inbox.at(0), h.source.at(0), 64, 1);
    if (!bug) shmem.signal_op(h.arrived.at(0), 1, SignalOp::kAdd, 1);
  });
}

// The source may be reused, but the writes are still on their way.
inline void signal_after_source_read(World& world, bool bug) {
  hand_over(world, [=](Block& block, const Handover& h) {
    device::Shmem shmem(block);
    if (block.thread_idx() != 0) return;
    shmem.putmem_nbi(h.inbox.at(0), h.source.at(0), 64, 1);
    if (!bug) shmem.fence();
    shmem.signal_op(h.arrived.at(0), 1, SignalOp::kAdd, 1);
  });
}

inline void no_block_barrier_before_notify(World& world, bool bug) {
  hand_over(world, [=](Block& block, const Handover& h) {
    device::Shmem shmem(block);
    auto inbox = shmem.ptr(h.inbox.at(0), 1);
    for (int i = block.thread_idx(); i < 16; i += block.num_threads()) inbox[i] = 1.0f;
    if (!bug) block.sync();
    if (block.thread_idx() == 0) shmem.signal_op(h.arrived.at(0), 1, SignalOp::kAdd, 1);
  });
}

inline void relaxed_notify(World& world, bool bug) {
  hand_over(world, [=](Block& block, const Handover& h) {
    device::Shmem shmem(block);
    if (block.thread_idx() != 0) return;
    auto inbox = shmem.ptr(h.inbox.at(0), 1);
    for (int i = 0; i < 16; ++i) inbox[i] = 1.0f;
    block.store(shmem.ptr(h.arrived.at(0), 1), 1, bug ? Order::kRelaxed : Order::kRelease);
  });
}

inline void notify_at_gpu_scope(World& world, bool bug) {
  hand_over(world, [=](Block& block, const Handover& h) {
    device::Shmem shmem(block);
    if (block.thread_idx() != 0) return;
    auto inbox = shmem.ptr(h.inbox.at(0), 1);
    for (int i = 0; i < 16; ++i) inbox[i] = 1.0f;
    block.fetch_add(shmem.ptr(h.arrived.at(0), 1), 1, Order::kRelease,
                    bug ? Scope::kGpu : Scope::kSystem);
  });
}

// The signal of the second put says nothing about the first.
inline void one_signal_for_two_puts(World& world, bool bug) {
  hand_over(world, [=](Block& block, const Handover& h) {
    device::Shmem shmem(block);
    if (block.thread_idx() != 0) return;
    shmem.putmem_nbi(h.inbox.at(0), h.source.at(0), 32, 1);
    if (!bug) shmem.fence();
    shmem.putmem_signal_nbi(h.inbox.at(0) + 8, h.source.at(0), 32, h.arrived.at(0), 1,
                            SignalOp::kAdd, 1);
  });
}

// Works over NVLink; across nodes a put and a signal are not ordered.
inline void no_fence_across_nodes(World& world, bool bug) {
  hand_over(world, [=](Block& block, const Handover& h) {
    device::Shmem shmem(block);
    if (block.thread_idx() != 0) return;
    shmem.putmem(h.inbox.at(0), h.source.at(0), 64, 1);
    if (!bug) shmem.fence();
    shmem.signal_op(h.arrived.at(0), 1, SignalOp::kAdd, 1);
  });
}

inline void source_reused_before_quiet(World& world, bool bug) {
  hand_over(world, [=](Block& block, const Handover& h) {
    device::Shmem shmem(block);
    if (block.thread_idx() != 0) return;
    shmem.putmem_signal_nbi(h.inbox.at(0), h.source.at(0), 64, h.arrived.at(0), 1, SignalOp::kAdd,
                            1);
    if (bug) {
      shmem.fence();
    } else {
      shmem.quiet();
    }
    h.source.at(0)[3] = 7.0f;
  });
}

// Both blocks of rank 0 write a half; block 0 publishes both.
inline void published_before_all_blocks(World& world, bool bug) {
  const Handover h(world);
  auto blocks_done = world.local<uint64>("blocks_done", 1, 0);
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    if (block.rank() == 0) {
      auto inbox = shmem.ptr(h.inbox.at(0), 1) + 8 * block.block_idx();
      for (int i = block.thread_idx(); i < 8; i += block.num_threads()) inbox[i] = 1.0f;
      block.sync();
      if (block.thread_idx() != 0) return;
      bool last = block.block_idx() == 0;
      if (!bug) {
        last = block.fetch_add(blocks_done.at(0), 1, Order::kAcqRel, Scope::kGpu) == 1;
      }
      if (last) shmem.signal_op(h.arrived.at(0), 1, SignalOp::kAdd, 1);
    } else if (block.block_idx() == 0) {
      if (!h.wait(block)) return;
      h.add_up(block);
    }
  });
  h.finish(world);
}

inline std::vector<Planted> notify_bugs() {
  const auto race = FindingKind::kRace;
  const auto unwritten = FindingKind::kUnwritten;
  const Shape pair{.ranks = 2, .threads = 4};
  return {
      {"signal_before_data", "textbook", {race, unwritten}, pair, signal_before_data},
      {"signal_after_source_read",
       "bulk stores awaited in their .read form, several systems",
       {race, unwritten},
       pair,
       signal_after_source_read},
      {"no_block_barrier_before_notify",
       "Triton-distributed: notify has no barrier inside",
       {race, unwritten},
       pair,
       no_block_barrier_before_notify},
      {"relaxed_notify", "volatile flag stores", {race, unwritten}, pair, relaxed_notify},
      {"notify_at_gpu_scope",
       "Triton-distributed GEMM+AR: peer flags at gpu scope",
       {race},
       pair,
       notify_at_gpu_scope},
      {"one_signal_for_two_puts",
       "misread putmem_signal_nbi",
       {race, unwritten},
       pair,
       one_signal_for_two_puts},
      {"no_fence_across_nodes",
       "NVLink code moved to a network",
       {race, unwritten},
       {.ranks = 2, .threads = 4, .ranks_per_node = 1},
       no_fence_across_nodes},
      {"source_reused_before_quiet", "forgotten quiet", {race}, pair, source_reused_before_quiet},
      {"published_before_all_blocks",
       "Triton-distributed MoE GEMM+AR",
       {race, unwritten},
       {.ranks = 2, .blocks = 2, .threads = 4},
       published_before_all_blocks,
       kPairOnly},
  };
}

}  // namespace stretto::fibre
