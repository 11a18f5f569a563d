// What orders what: scopes, fences, kernels of one stream, transfers.
#include "fibre/expect_clean.h"
#include "stretto/device/lang/shmem.h"

namespace stretto::fibre {
namespace {

using device::Shmem;

// Reads it, as any race check sees it.
template <class Place>
void expect_value(World& world, const Place& place, uint32 value) {
  const uint32 seen = place[0];
  world.expect(seen == value, "the value is old");
}

// Thread 0 of block 0 writes and publishes; thread 0 of block 1 takes and reads.
Scenario hand_over(Scope release_scope, Scope acquire_scope) {
  return [=](World& world) {
    auto x = world.local<uint32>("x", 1);
    auto flag = world.local<uint32>("flag", 1, 0);
    world.launch(2, 1, [=, &world](Block& block) {
      const int r = block.rank();
      if (block.block_idx() == 0) {
        x.at(r)[0] = 5u;
        block.store(flag.at(r), 1, Order::kRelease, release_scope);
      } else {
        while (block.load(flag.at(r), Order::kAcquire, acquire_scope) == 0) {
        }
        expect_value(world, x.at(r), 5);
      }
    });
    world.run();
  };
}

TEST(MemoryModel, GpuScopeOrdersBlocksOfOneRank) {
  expect_clean({.ranks = 2}, hand_over(Scope::kGpu, Scope::kGpu));
  expect_clean({.ranks = 2}, hand_over(Scope::kSystem, Scope::kGpu));
}

TEST(MemoryModel, BlockScopeDoesNot) {
  expect_found(FindingKind::kRace, {.ranks = 2}, hand_over(Scope::kBlock, Scope::kGpu));
  expect_found(FindingKind::kRace, {.ranks = 2}, hand_over(Scope::kGpu, Scope::kBlock));
}

TEST(MemoryModel, ARelaxedFlagBetweenFencesOrders) {
  expect_clean({.ranks = 2, .threads = 1}, [](World& world) {
    auto x = world.symmetric<uint32>("x", 1);
    auto flag = world.symmetric<uint64>("flag", 1, 0);
    world.launch([=, &world](Block& block) {
      Shmem shmem(block);
      const int me = shmem.my_pe();
      if (me == 0) {
        shmem.ptr(x.at(me), 1)[0] = 5u;
        shmem.fence();
        shmem.atomic_set(flag.at(me), uint64(1), 1);
      } else {
        while (shmem.signal_fetch(flag.at(me)) == 0) {
        }
        shmem.fence();
        expect_value(world, x.at(me), 5);
      }
    });
    world.run();
  });
}

// What a wait acquires is what raised its own signal: one seen by a relaxed load before it needs a
// fence, also when the wait comes after it.
TEST(MemoryModel, AWaitAcquiresItsOwnSignalOnly) {
  const auto scenario = [](bool fence) {
    return [=](World& world) {
      auto x = world.symmetric<uint32>("x", 1, 0);
      auto flags = world.symmetric<uint64>("flags", 2, 0);
      world.launch(1, 1, [=, &world](Block& block) {
        Shmem shmem(block);
        const int me = shmem.my_pe();
        if (me == 1) shmem.p(x.at(1), 5u, 0);
        if (me != 0) return shmem.signal_op(flags.at(me) + (me - 1), 1, SignalOp::kAdd, 0);
        while (shmem.signal_fetch(flags.at(0)) == 0) {
        }
        if (!shmem.signal_wait_until(flags.at(0) + 1, Compare::kGe, 1)) return;
        if (fence) shmem.fence();
        expect_value(world, x.at(0), 5);
      });
      world.run();
    };
  };
  expect_needed({.ranks = 3, .threads = 1}, scenario);
}

// One fence may stand before several signals; without it relaxed ones say nothing.
TEST(MemoryModel, RelaxedSignalsReleaseWhatAFenceCovered) {
  const auto scenario = [](bool fence) {
    return [=](World& world) {
      auto x = world.symmetric<uint32>("x", 1, 0);
      auto arrived = world.symmetric<uint64>("arrived", 1, 0);
      world.launch(1, 1, [=, &world](Block& block) {
        Shmem shmem(block);
        const int me = shmem.my_pe();
        if (me != 0) {
          if (!shmem.signal_wait_until(arrived.at(me), Compare::kGe, 1)) return;
          return expect_value(world, x.at(me), 5);
        }
        for (int r = 1; r < shmem.n_pes(); ++r) shmem.p(x.at(0), 5u, r);
        if (fence) shmem.fence();
        for (int r = 1; r < shmem.n_pes(); ++r) {
          block.signal(arrived.at(0), 1, SignalOp::kAdd, r, Where::here(), Order::kRelaxed);
        }
      });
      world.run();
    };
  };
  expect_needed({.ranks = 3, .threads = 1}, scenario);
}

// A reads what B forwarded of C: order is transitive.
TEST(MemoryModel, ReleasesAreCumulative) {
  expect_clean({.ranks = 3, .threads = 1}, [](World& world) {
    auto x = world.symmetric<uint32>("x", 1);
    auto flag = world.symmetric<uint64>("flag", 1, 0);
    world.launch([=, &world](Block& block) {
      Shmem shmem(block);
      const int me = shmem.my_pe();
      if (me == 0) {
        shmem.p(x.at(0), 5u, 2);
        shmem.signal_op(flag.at(0), 1, SignalOp::kAdd, 1);
      } else if (shmem.signal_wait_until(flag.at(me), Compare::kGe, 1)) {
        if (me == 1) shmem.signal_op(flag.at(1), 1, SignalOp::kAdd, 2);
        if (me == 2) {
          expect_value(world, x.at(2), 5);
        }
      }
    });
    world.run();
  });
}

TEST(MemoryModel, KernelsOfOneStreamAreOrderedAndOfTwoAreNot) {
  auto scenario = [](int second_stream) {
    return [=](World& world) {
      auto x = world.local<uint32>("x", 1, 0);
      for (int r = 0; r < 2; ++r) {
        world.launch_on(r, 0, 1, 1, [=](Block& block) { x.at(block.rank())[0] = 5u; });
        world.launch_on(r, second_stream, 1, 1, [=](Block& block) {
          const uint32 seen = x.at(block.rank())[0];
          x.at(block.rank())[0] = seen + 1;
        });
      }
      if (world.run()) world.expect(x.get(0, 0) == 6, "out of order");
    };
  };
  expect_clean({.ranks = 2}, scenario(0));
  expect_found(FindingKind::kRace, {.ranks = 2}, scenario(1));
}

// fence delivers, but only quiet lets a source be reused and a get be read.
TEST(MemoryModel, FenceIsNotQuiet) {
  auto scenario = [](bool quiet) {
    return [=](World& world) {
      auto x = world.symmetric<uint32>("x", 1, 1);
      auto y = world.local<uint32>("y", 1);
      world.launch(1, 1, [=, &world](Block& block) {
        Shmem shmem(block);
        const int me = shmem.my_pe();
        if (me != 0) return;
        shmem.getmem_nbi(y.at(me), x.at(me), 4, 1);
        quiet ? shmem.quiet() : shmem.fence();
        const uint32 got = y.at(me)[0];
        world.expect(got == 1, "not there");
      });
      world.run();
    };
  };
  expect_needed({.ranks = 2}, scenario);
}

// One thread's quiet covers what other threads of its rank began before a barrier.
TEST(MemoryModel, QuietCoversWhatHappensBeforeIt) {
  expect_clean({.ranks = 2, .threads = 4}, [](World& world) {
    auto source = world.local<uint32>("source", 16, 1);
    auto x = world.symmetric<uint32>("x", 16);
    world.launch([=](Block& block) {
      Shmem shmem(block);
      const int me = shmem.my_pe();
      shmem.putmem_nbi_block(x.at(me), source.at(me), 64, 1 - me);
      block.sync();
      if (block.thread_idx() == 0) shmem.quiet();
      block.sync();
      source.at(me)[4 * block.thread_idx()] = 2u;
    });
    world.run();
  });
}

// A put that one thread's quiet has completed is covered by another's as well.
TEST(MemoryModel, EveryQuietCoversWhatHappensBeforeIt) {
  expect_clean({.ranks = 2, .threads = 4}, [](World& world) {
    auto source = world.local<uint32>("source", 16, 1);
    auto x = world.symmetric<uint32>("x", 16, 0);
    auto arrived = world.symmetric<uint64>("arrived", 4, 0);
    world.launch([=, &world](Block& block) {
      Shmem shmem(block);
      const int me = shmem.my_pe();
      const int thread = block.thread_idx();
      if (me == 0) {
        shmem.putmem_nbi_block(x.at(0), source.at(0), 64, 1);
        block.sync();
        shmem.quiet();
        return block.signal(arrived.at(0) + thread, 1, SignalOp::kAdd, 1, Where::here(),
                            Order::kRelaxed);
      }
      if (!shmem.signal_wait_until(arrived.at(1) + thread, Compare::kGe, 1)) return;
      for (int i = 0; i < 16; ++i) {
        const uint32 seen = x.at(1)[i];
        world.expect(seen == 1, "the value is old");
      }
    });
    world.run();
  });
}

}  // namespace
}  // namespace stretto::fibre
