// Protocols that hold only where strong relaxed accesses keep their order, which GPUs do not.
#pragma once

#include "fibre/planted/planted.h"

namespace stretto::fibre {

// Rank 0 stores a value and a flag into the memory of rank `home`; rank 1 polls the flag and loads
// the value, all by strong accesses, of which none races.
struct Message {
  Message(World& world, int its_home)
      : home(its_home),
        value(world.symmetric<uint32>("value", 1, 0u)),
        flag(world.symmetric<uint32>("flag", 1, 0u)),
        seen(world.local<uint32>("seen", 1, 0u)) {}

  void send(Block& block, Order flag_order) const {
    block.store(block.peer(value.at(0), home), 7u);
    block.store(block.peer(flag.at(0), home), 1u, flag_order);
  }
  void take(Block& block, Order flag_order, bool fences) const {
    const auto from = block.peer(flag.at(1), home);
    while (block.load(from, flag_order) == 0) {
    }
    if (fences) block.fence();
    const uint32 got = block.load(block.peer(value.at(1), home));
    seen.at(1)[0] = got;
  }
  void run(World& world, Order stored, Order polled, bool fences) const {
    world.launch([=, *this](Block& block) {
      if (block.thread_idx() != 0) return;
      if (block.rank() == 0) send(block, stored);
      if (block.rank() == 1) take(block, polled, fences);
    });
    if (world.run()) world.expect(seen.get(1, 0) == 7, "the flag has come and not the value");
  }

  int home;
  Buffer<uint32> value, flag, seen;
};

inline void relaxed_flag_stored_last(World& world, bool bug) {
  Message(world, 1).run(world, bug ? Order::kRelaxed : Order::kRelease, Order::kAcquire, false);
}

inline void relaxed_flag_in_own_memory(World& world, bool bug) {
  Message(world, 0).run(world, bug ? Order::kRelaxed : Order::kRelease, Order::kAcquire, false);
}

inline void loaded_before_the_flag(World& world, bool bug) {
  Message(world, 1).run(world, Order::kRelease, Order::kRelaxed, !bug);
}

// Of two ranks that meet, at least one is to see the other. Each raises its own flag and looks at
// the other's; rightly both count in one word, so one of them is the second.
inline void both_raise_then_look(World& world, bool bug) {
  auto raised = world.symmetric<uint32>("raised", 1, 0u);
  auto saw = world.local<uint32>("saw", 1, 0u);
  world.launch([=](Block& block) {
    const int me = block.rank();
    if (block.thread_idx() != 0) return;
    if (bug) {
      block.store(raised.at(me), 1u, Order::kRelease);
      saw.at(me)[0] = block.load(block.peer(raised.at(me), 1 - me), Order::kAcquire);
    } else {
      saw.at(me)[0] = block.fetch_add(block.peer(raised.at(me), 0), 1u, Order::kAcqRel);
    }
  });
  if (world.run()) world.expect(saw.get(0, 0) + saw.get(1, 0) > 0, "neither saw the other");
}

inline std::vector<Planted> relaxed_bugs() {
  const Shape pair{.ranks = 2, .threads = 1};
  const std::vector<FindingKind> wrong{FindingKind::kMismatch};
  return {
      {"relaxed_flag_stored_last", "message passing: the stores pass each other on the link", wrong,
       pair, relaxed_flag_stored_last},
      {"relaxed_flag_in_own_memory", "the same where the reader pulls both", wrong, pair,
       relaxed_flag_in_own_memory},
      {"loaded_before_the_flag", "a relaxed poll, and a load behind it that passes it", wrong, pair,
       loaded_before_the_flag},
      {"both_raise_then_look", "store buffering, as in Dekker's and Peterson's locks", wrong, pair,
       both_raise_then_look, kPairOnly},
  };
}

}  // namespace stretto::fibre
