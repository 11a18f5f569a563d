// Consumers that wait for the wrong thing, or that only some threads wait.
#pragma once

#include "fibre/planted/planted.h"

namespace stretto::fibre {

// Every rank but 0 puts a float into its slot at rank 0 and raises a signal there.
struct Gather {
  explicit Gather(World& world, size_t num_signals = 1)
      : ranks(world.shape().ranks),
        source(world.local<float>("source", 4, 2.0f)),
        slots(world.symmetric<float>("slots", 4 * size_t(ranks))),
        arrived(world.symmetric<uint64>("arrived", num_signals, 0)),
        sum(world.local<float>("sum", 1)) {}

  void send(Block& block, int slot, int signal, SignalOp op = SignalOp::kAdd) const {
    device::Shmem shmem(block);
    const int me = block.rank();
    shmem.putmem_signal_block(slots.at(me) + 4 * slot, source.at(me), 16, arrived.at(me) + signal,
                              1, op, 0);
  }
  void add_up(Block& block, int slot_count) const {
    if (block.thread_idx() != 0) return;
    float total = 0;
    for (int r = 1; r < slot_count; ++r) total += slots.at(0)[4 * r];
    sum.at(0)[0] = total;
  }
  void finish(World& world) const {
    if (world.run()) {
      world.expect(sum.get(0, 0) == 2.0f * float(ranks - 1), "the sum is wrong");
    }
  }

  int ranks;
  Buffer<float> source, slots;
  Buffer<uint64> arrived;
  Buffer<float> sum;
};

inline void gather(World& world, const std::function<bool(Block&, const Gather&)>& wait) {
  const Gather g(world);
  world.launch([=](Block& block) {
    if (block.rank() != 0) return g.send(block, block.rank(), 0);
    if (wait(block, g)) g.add_up(block, g.ranks);
  });
  g.finish(world);
}

inline void wrong_threshold(World& world, bool bug) {
  gather(world, [=](Block& block, const Gather& g) {
    device::Shmem shmem(block);
    return shmem.signal_wait_until_block(g.arrived.at(0), Compare::kGe,
                                         uint64(g.ranks - (bug ? 2 : 1)));
  });
}

inline void threshold_never_reached(World& world, bool bug) {
  gather(world, [=](Block& block, const Gather& g) {
    device::Shmem shmem(block);
    return shmem.signal_wait_until_block(g.arrived.at(0), Compare::kGe,
                                         uint64(g.ranks - (bug ? 0 : 1)));
  });
}

// Waits for the first arrival by equality; the second may come in between.
inline void equality_skipped_over(World& world, bool bug) {
  gather(world, [=](Block& block, const Gather& g) {
    device::Shmem shmem(block);
    const Compare compare = bug ? Compare::kEq : Compare::kGe;
    return shmem.signal_wait_until_block(g.arrived.at(0), compare, 1) &&
           shmem.signal_wait_until_block(g.arrived.at(0), compare, uint64(g.ranks - 1));
  });
}

inline void polled_without_acquire(World& world, bool bug) {
  gather(world, [=](Block& block, const Gather& g) {
    device::Shmem shmem(block);
    if (block.thread_idx() == 0) {
      while (shmem.signal_fetch(g.arrived.at(0)) < uint64(g.ranks - 1)) {
      }
      if (!bug) shmem.fence();
    }
    block.sync();
    return true;
  });
}

// Thread 0 adds up, but thread 1 waits, and no barrier joins them.
inline void only_one_thread_waits(World& world, bool bug) {
  gather(world, [=](Block& block, const Gather& g) {
    device::Shmem shmem(block);
    bool came = true;
    if (block.thread_idx() == 1) {
      came = shmem.signal_wait_until(g.arrived.at(0), Compare::kGe, uint64(g.ranks - 1));
    }
    if (!bug) block.sync();
    return came;
  });
}

// A flag a source: the consumer is off by one.
inline void waits_for_another_shard(World& world, bool bug) {
  const Gather g(world, size_t(world.shape().ranks));
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    if (block.rank() != 0) return g.send(block, block.rank(), block.rank());
    for (int r = 1; r < g.ranks; ++r) {
      const int flag = bug ? std::max(1, r - 1) : r;
      if (!shmem.signal_wait_until_block(g.arrived.at(0) + flag, Compare::kGe, 1)) return;
    }
    g.add_up(block, g.ranks);
  });
  g.finish(world);
}

// Ranks 1 and 2 both believe that slot 1 is theirs.
inline void slot_clash(World& world, bool bug) {
  const Gather g(world);
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    const int slot = bug ? (block.rank() + 1) / 2 : block.rank();
    if (block.rank() != 0) return g.send(block, slot, 0);
    if (shmem.signal_wait_until_block(g.arrived.at(0), Compare::kGe, uint64(g.ranks - 1))) {
      g.add_up(block, bug ? 2 : g.ranks);
    }
  });
  g.finish(world);
}

// Every source sets the same word, so arrivals are not counted.
inline void set_where_add_is_meant(World& world, bool bug) {
  const Gather g(world);
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    if (block.rank() != 0) {
      return g.send(block, block.rank(), 0, bug ? SignalOp::kSet : SignalOp::kAdd);
    }
    if (shmem.signal_wait_until_block(g.arrived.at(0), Compare::kGe, uint64(g.ranks - 1))) {
      g.add_up(block, g.ranks);
    }
  });
  g.finish(world);
}

// Everyone waits for its neighbour before it sends.
inline void ring_waits_before_it_sends(World& world, bool bug) {
  auto token = world.symmetric<uint64>("token", 1, 0);
  const int ranks = world.shape().ranks;
  world.launch([=](Block& block) {
    device::Shmem shmem(block);
    const int me = block.rank();
    if (block.thread_idx() != 0) return;
    const bool starts = !bug && me == 0;
    if (starts) shmem.signal_op(token.at(me), 1, SignalOp::kAdd, (me + 1) % ranks);
    if (!shmem.signal_wait_until(token.at(me), Compare::kGe, 1)) return;
    if (!starts) shmem.signal_op(token.at(me), 1, SignalOp::kAdd, (me + 1) % ranks);
  });
  world.run();
}

inline std::vector<Planted> wait_bugs() {
  const auto race = FindingKind::kRace;
  const auto unwritten = FindingKind::kUnwritten;
  const auto deadlock = FindingKind::kDeadlock;
  const Shape three{.ranks = 3, .threads = 4};
  return {
      {"wrong_threshold", "count without one source", {race, unwritten}, three, wrong_threshold},
      {"threshold_never_reached",
       "own rank counted among the senders",
       {deadlock},
       three,
       threshold_never_reached},
      {"equality_skipped_over",
       "Triton-distributed dl.wait compares with ==",
       {deadlock},
       three,
       equality_skipped_over},
      {"polled_without_acquire",
       "Triton-distributed: plain loads poll LL words",
       {race, unwritten},
       three,
       polled_without_acquire},
      {"only_one_thread_waits",
       "missing barrier after a wait",
       {race, unwritten},
       three,
       only_one_thread_waits,
       {.least_threads = 2}},
      {"waits_for_another_shard",
       "flag index off by one",
       {race, unwritten},
       three,
       waits_for_another_shard},
      {"slot_clash", "incast into one slot", {race}, three, slot_clash},
      {"set_where_add_is_meant",
       "shared completion word",
       {FindingKind::kLostSignal, deadlock},
       three,
       set_where_add_is_meant},
      {"ring_waits_before_it_sends", "textbook", {deadlock}, three, ring_waits_before_it_sends},
  };
}

}  // namespace stretto::fibre
