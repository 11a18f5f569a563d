// The OpenSHMEM layer does what it says, under many schedules, without a finding.
#include "stretto/device/lang/shmem.h"

#include <gmock/gmock.h>

#include "fibre/expect_clean.h"

namespace stretto::fibre {
namespace {

using device::Ptr;
using device::Shmem;

template <class Block>
struct RingArgs {
  Ptr<Block, const float> message;
  Ptr<Block, float> inbox;
  Ptr<Block, uint64> arrived;
  Ptr<Block, float> out;
  uint64 count;
};

template <class Block>
STRETTO_KERNEL void ring(Block& block, const RingArgs<Block>& args) {
  Shmem shmem(block);
  const int next = (shmem.my_pe() + 1) % shmem.n_pes();
  shmem.putmem_signal_block(args.inbox, args.message, args.count * sizeof(float), args.arrived, 1,
                            SignalOp::kAdd, next);
  if (!shmem.signal_wait_until_block(args.arrived, Compare::kGe, 1)) return;
  for (auto i = static_cast<uint64>(block.thread_idx()); i < args.count;
       i += static_cast<uint64>(block.num_threads())) {
    args.out[i] = args.inbox[i];
  }
}

TEST(Shmem, PutWithSignalReachesTheNextRank) {
  expect_clean({.ranks = 3, .threads = 4}, [](World& world) {
    const size_t count = 37;
    auto message = world.local<float>("message", count);
    auto inbox = world.symmetric<float>("inbox", count);
    auto out = world.local<float>("out", count);
    auto arrived = world.symmetric<uint64>("arrived", 1, 0);
    for (int r = 0; r < 3; ++r) {
      for (size_t i = 0; i < count; ++i) message.set(r, i, float(100 * r + int(i)));
    }
    world.launch([=](Block& block) {
      const int r = block.rank();
      ring(block, RingArgs<Block>{message.at(r), inbox.at(r), arrived.at(r), out.at(r), count});
    });
    if (!world.run()) return;
    for (int r = 0; r < 3; ++r) {
      for (size_t i = 0; i < count; ++i) {
        world.expect(out.get(r, i) == float(100 * ((r + 2) % 3) + int(i)), "ring moved wrong data");
      }
    }
  });
}

TEST(Shmem, EveryFormOfPutAndGetMovesTheBytes) {
  expect_clean({.ranks = 2, .threads = 8, .warp_size = 4}, [](World& world) {
    auto source = world.symmetric<uint64>("source", 16);
    auto dest = world.symmetric<uint64>("dest", 12 * 16);
    for (int r = 0; r < 2; ++r) {
      for (size_t i = 0; i < 16; ++i) source.set(r, i, uint64(1000 * r) + i);
    }
    world.launch([=](Block& block) {
      Shmem shmem(block);
      const int me = shmem.my_pe();
      const int peer = 1 - me;
      auto from = source.at(me);
      auto row = [&](int i) { return dest.at(me) + 16 * i; };
      const uint64 bytes = 16 * sizeof(uint64);
      if (block.thread_idx() == 0) {
        shmem.putmem(row(0), from, bytes, peer);
        shmem.putmem_nbi(row(1), from, bytes, peer);
        shmem.getmem(row(2), from, bytes, peer);
        shmem.getmem_nbi(row(3), from, bytes, peer);
      }
      if (block.thread_idx() < 4) {
        shmem.putmem_warp(row(4), from, bytes, peer);
        shmem.putmem_nbi_warp(row(5), from, bytes, peer);
        shmem.getmem_warp(row(6), from, bytes, peer);
        shmem.getmem_nbi_warp(row(7), from, bytes, peer);
      }
      shmem.putmem_block(row(8), from, bytes, peer);
      shmem.putmem_nbi_block(row(9), from, bytes, peer);
      shmem.getmem_block(row(10), from, bytes, peer);
      shmem.getmem_nbi_block(row(11), from, bytes, peer);
      shmem.barrier_all_block();
    });
    if (!world.run()) return;
    for (int r = 0; r < 2; ++r) {
      for (size_t i = 0; i < 12 * 16; ++i) {
        world.expect(dest.get(r, i) == uint64(1000 * (1 - r)) + i % 16, "a copy is wrong");
      }
    }
  });
}

TEST(Shmem, AWaitForASentinelSaysThatNobodyHasWritten) {
  const std::string message =
      expect_found(FindingKind::kDeadlock, {.ranks = 2, .threads = 1}, [](World& world) {
        auto slot = world.symmetric<Vec16>("slot", 2,
                                           Vec16{{0x80008000, 0x80008000, 0x80008000, 0x80008000}});
        world.launch([=](Block& block) {
          Vec16 value;
          const int me = block.rank();
          if (me == 0) {
            (void)block.wait_words_not(slot.at(me) + 1, 0x80008000, value, Where::here(), 1);
          }
        });
        world.run();
      }).finding.message;
  EXPECT_THAT(message, testing::HasSubstr("waits for rank 1 to write slot[1]"));
  EXPECT_THAT(message, testing::HasSubstr("which holds 0x80008000 where it has not been written"));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("raised")));
}

TEST(Shmem, AtomicsCountEveryRank) {
  expect_clean({.ranks = 3, .threads = 4}, [](World& world) {
    auto count = world.symmetric<uint64>("count", 1, 0);
    auto highest = world.symmetric<uint32>("highest", 1, 0);
    world.launch([=](Block& block) {
      Shmem shmem(block);
      const int me = shmem.my_pe();
      shmem.atomic_add(count.at(me), uint64(1), 0);
      const auto mine = uint32(me * 4 + block.thread_idx());
      uint32 seen = shmem.atomic_fetch(highest.at(me), 0);
      while (seen < mine) {
        const uint32 old = shmem.atomic_compare_swap(highest.at(me), seen, mine, 0);
        if (old == seen) break;
        seen = old;
      }
    });
    if (!world.run()) return;
    world.expect(count.get(0, 0) == 12, "an addition was lost");
    world.expect(highest.get(0, 0) == 11, "the maximum was lost");
  });
}

TEST(Shmem, PtrIsNullAcrossNodes) {
  expect_clean({.ranks = 4, .threads = 1, .ranks_per_node = 2}, [](World& world) {
    auto x = world.symmetric<float>("x", 1, 0.0f);
    auto near = world.local<uint32>("near", 4);
    world.launch([=](Block& block) {
      Shmem shmem(block);
      const int me = shmem.my_pe();
      for (int r = 0; r < 4; ++r) near.at(me)[r] = shmem.ptr(x.at(me), r) ? 1u : 0u;
    });
    if (!world.run()) return;
    for (int r = 0; r < 4; ++r) {
      for (size_t p = 0; p < 4; ++p) {
        world.expect(near.get(r, p) == (size_t(r) / 2 == p / 2 ? 1u : 0u), "ptr is wrong");
      }
    }
  });
}

// A rank that never comes: every wait expires, and a kernel that then leaves ends cleanly.
TEST(Shmem, WaitsExpireWhenARankIsAbsent) {
  uint64_t expired = 0;
  expect_clean({.ranks = 3, .threads = 4}, [&](World& world) {
    const size_t count = 8;
    auto message = world.local<float>("message", count, 1.0f);
    auto inbox = world.symmetric<float>("inbox", count);
    auto out = world.local<float>("out", count);
    auto arrived = world.symmetric<uint64>("arrived", 1, 0);
    world.make_absent(1);
    world.launch([=](Block& block) {
      const int r = block.rank();
      ring(block, RingArgs<Block>{message.at(r), inbox.at(r), arrived.at(r), out.at(r), count});
    });
    world.run();
    expired += world.num_expired();
  });
  EXPECT_GT(expired, 0u);
}

// Which the functions have been told.
TEST(Shmem, FindingsInPAndGNameTheLineOfTheKernel) {
  const auto scenario = [](bool loads) {
    return [=](World& world) {
      auto x = world.symmetric<uint32>("x", 1, 0u);
      world.launch([=](Block& block) {
        Shmem shmem(block);
        const uint32 own = loads && shmem.my_pe() == 1 ? shmem.g(x.at(1), 0) : 0;
        if (!loads || shmem.my_pe() == 0) shmem.p(x.at(shmem.my_pe()), own + 1, 0);
      });
      world.run();
    };
  };
  for (const bool loads : {false, true}) {
    const Finding finding =
        expect_found(FindingKind::kRace, {.ranks = 2, .threads = 1}, scenario(loads)).finding;
    for (const Place& place : {finding.place, finding.other}) {
      EXPECT_NE(std::string(place.where.file).find("shmem_test.cpp"), std::string::npos)
          << finding.message;
    }
  }
}

}  // namespace
}  // namespace stretto::fibre
