// What strong relaxed accesses may do, as docs/device-language.md says: which orders they do not
// keep, and which they do.
#include "fibre/expect_clean.h"
#include "stretto/device/lang/shmem.h"

namespace stretto::fibre {
namespace {

using device::Shmem;

constexpr Shape kPair{.ranks = 2, .threads = 1};
constexpr uint64_t kSeeds = 400;

struct Words {
  explicit Words(World& world)
      : x(world.symmetric<uint32>("x", 1, 0u)),
        y(world.symmetric<uint32>("y", 1, 0u)),
        saw(world.local<uint32>("saw", 2, 0u)) {}
  Buffer<uint32> x, y, saw;
};

// Rank 0 does `one` and rank 1 `other`, which keeps what it sees.
template <class One, class Other>
Scenario two_ranks(One one, Other other, bool (*wrong)(const Words&)) {
  return [=](World& world) {
    const Words words(world);
    world.launch([=](Block& block) {
      if (block.rank() == 0) one(block, words);
      if (block.rank() == 1) other(block, words);
    });
    if (world.run()) world.expect(!wrong(words), "not in this order");
  };
}

void expect_seen(const Scenario& scenario) {
  expect_found(FindingKind::kMismatch, kPair, scenario);
}
void expect_never(const Scenario& scenario) { expect_clean(kPair, scenario, kSeeds); }

// Loads x behind y, both in rank 0's memory; `polls` until y is there.
auto take(Order order, bool polls = true) {
  return [=](Block& block, const Words& words) {
    uint32 y = 0;
    do {
      y = block.load(block.peer(words.y.at(1), 0), order);
    } while (polls && y == 0);
    words.saw.at(1)[0] = y;
    words.saw.at(1)[1] = block.load(block.peer(words.x.at(1), 0));
  };
}
auto store_both(Order order) {
  return [=](Block& block, const Words& words) {
    block.store(words.x.at(0), 7u);
    block.store(words.y.at(0), 1u, order);
  };
}
bool y_without_x(const Words& words) {
  return words.saw.get(1, 0) == 1 && words.saw.get(1, 1) == 0;
}

TEST(Relaxed, StoresPassEachOtherAndSoDoLoads) {
  expect_seen(two_ranks(store_both(Order::kRelaxed), take(Order::kAcquire), y_without_x));
  expect_seen(two_ranks(store_both(Order::kRelease), take(Order::kRelaxed), y_without_x));
  expect_seen(two_ranks(store_both(Order::kRelease), take(Order::kRelaxed, false), y_without_x));
  expect_never(two_ranks(store_both(Order::kRelease), take(Order::kAcquire), y_without_x));
  expect_never(two_ranks(store_both(Order::kRelease), take(Order::kAcquire, false), y_without_x));
}

TEST(Relaxed, AFenceOrdersLoads) {
  const auto fenced = [](Block& block, const Words& words) {
    while (block.load(block.peer(words.y.at(1), 0)) == 0) {
    }
    block.fence();
    words.saw.at(1)[0] = 1u;
    words.saw.at(1)[1] = block.load(block.peer(words.x.at(1), 0));
  };
  expect_never(two_ranks(store_both(Order::kRelease), fenced, y_without_x));
}

// The last value of one place is not followed by an older one, whoever stored it.
TEST(Relaxed, OnePlaceNeverGoesBack) {
  const auto counts = [](Block& block, const Words& words) {
    for (uint32 i = 1; i <= 4; ++i) block.store(words.x.at(0), i);
  };
  const auto looks_twice = [](Block& block, const Words& words) {
    words.saw.at(1)[0] = block.load(block.peer(words.x.at(1), 0));
    words.saw.at(1)[1] = block.load(block.peer(words.x.at(1), 0));
  };
  expect_never(two_ranks(counts, looks_twice, [](const Words& words) {
    return words.saw.get(1, 1) < words.saw.get(1, 0);
  }));
}

// Also where the first of two looks was a wait.
TEST(Relaxed, WhatAWaitHasSeenStays) {
  constexpr uint32 kNothing = 0xffffffffu;
  expect_clean(
      kPair,
      [](World& world) {
        auto slot =
            world.symmetric<Vec16>("slot", 1, Vec16{{kNothing, kNothing, kNothing, kNothing}});
        auto saw = world.local<Vec16>("saw", 1, Vec16{});
        world.launch([=](Block& block) {
          if (block.rank() == 0) return block.store(block.peer(slot.at(0), 1), Vec16{{1, 2, 3, 4}});
          Vec16 value;
          if (!block.wait_words_not(slot.at(1), kNothing, value)) return;
          value = block.load(slot.at(1));
          saw.at(1)[0] = value;
        });
        if (!world.run()) return;
        for (uint32 w = 0; w < 4; ++w) world.expect(saw.get(1, 0).word[w] == w + 1, "older again");
      },
      kSeeds);
}

TEST(Relaxed, AThreadSeesItsOwnStores) {
  const auto stores = [](Block& block, const Words& words) {
    block.store(words.x.at(block.rank()), 3u);
    const auto theirs = block.peer(words.y.at(block.rank()), 1 - block.rank());
    block.store(theirs, 4u);
    words.saw.at(block.rank())[0] = block.load(words.x.at(block.rank()));
    words.saw.at(block.rank())[1] = block.load(theirs);
  };
  expect_never(two_ranks(stores, stores, [](const Words& words) {
    return words.saw.get(0, 0) != 3 || words.saw.get(1, 0) != 3 || words.saw.get(0, 1) != 4 ||
           words.saw.get(1, 1) != 4;
  }));
}

// Release and acquire do not keep a load behind a store; quiet, which waits for the store, does.
TEST(Relaxed, ALoadPassesAStoreButNotAQuiet) {
  const auto look_after = [](bool quiet) {
    return [=](Block& block, const Words& words) {
      const int me = block.rank();
      block.store(words.x.at(me), 1u, Order::kRelease);
      if (quiet) block.quiet();
      words.saw.at(me)[0] = block.load(block.peer(words.x.at(me), 1 - me), Order::kAcquire);
    };
  };
  const auto neither = [](const Words& words) {
    return words.saw.get(0, 0) + words.saw.get(1, 0) == 0;
  };
  expect_seen(two_ranks(look_after(false), look_after(false), neither));
  expect_never(two_ranks(look_after(true), look_after(true), neither));
}

// What a thread of another block has seen of a place, and a barrier told, is not older here.
TEST(Relaxed, WhatABarrierToldIsNotOlder) {
  const auto scenario = [](bool barrier) {
    return [=](World& world) {
      auto x = world.symmetric<uint32>("x", 1, 0u);
      auto saw = world.local<uint32>("saw", 2, 0u);
      world.launch([=](Block& block) {
        if (block.rank() == 0) {
          if (block.thread_idx() == 0) block.store(block.peer(x.at(0), 1), 1u);
          return;
        }
        if (block.thread_idx() == 0) {
          const uint32 first = block.load(x.at(1));
          saw.at(1)[0] = first;
          block.store(block.template shared<uint32>(0), first, Order::kRelaxed, Scope::kBlock);
        }
        if (barrier) block.sync();
        if (block.thread_idx() == 1) saw.at(1)[1] = block.load(x.at(1));
        if (!barrier) block.sync();
      });
      if (world.run()) world.expect(saw.get(1, 1) >= saw.get(1, 0), "older behind a barrier");
    };
  };
  const Shape two_threads{.ranks = 2, .threads = 2, .warp_size = 2, .shared_bytes = 16};
  expect_clean(two_threads, scenario(true), kSeeds);
  expect_found(FindingKind::kMismatch, two_threads, scenario(false));
}

TEST(Relaxed, ReadModifyWritesSeeTheLastValue) {
  expect_clean({.ranks = 3, .blocks = 2, .threads = 2}, [](World& world) {
    auto count = world.symmetric<uint32>("count", 1, 0u);
    world.launch([=](Block& block) {
      for (int i = 0; i < 3; ++i) block.fetch_add(block.peer(count.at(block.rank()), 0), 1u);
    });
    if (world.run()) world.expect(count.get(0, 0) == 36, "an addition is lost");
  });
}

// What is shrunk is found again by its decisions alone.
TEST(Relaxed, AnEarlyLoadIsReplayed) {
  const Scenario scenario =
      two_ranks(store_both(Order::kRelease), take(Order::kRelaxed), y_without_x);
  const Failure failure = expect_found(FindingKind::kMismatch, kPair, scenario);
  EXPECT_NE(failure.to_text().find("the load misses the last"), std::string::npos)
      << failure.to_text();
  World again(failure.shape, Schedule::replay(failure.decisions));
  scenario(again);
  ASSERT_TRUE(again.finding());
  EXPECT_EQ(again.finding()->kind, FindingKind::kMismatch);
}

}  // namespace
}  // namespace stretto::fibre
