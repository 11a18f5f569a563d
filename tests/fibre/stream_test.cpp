// Copy-engine work of the host joined to kernels by signals, both ways.
#include "stretto/fibre/stream.h"

#include "fibre/expect_clean.h"

namespace stretto::fibre {
namespace {

using device::Shmem;

// The copy engine gathers shards, and each rank's kernel consumes them as they arrive.
void gather_by_copy_engine(World& world, bool notifies_first) {
  const int ranks = world.shape().ranks;
  const size_t count = 4;
  auto shard = world.local<uint32>("shard", count);
  auto all = world.symmetric<uint32>("all", count * size_t(ranks));
  auto arrived = world.symmetric<uint64>("arrived", size_t(ranks), 0);
  auto sums = world.local<uint32>("sums", size_t(ranks), 0);
  for (int r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < count; ++i) shard.set(r, i, uint32(r + 1));
    RankStream stream(world, r, 1);
    for (int k = 0; k < ranks; ++k) {
      const int peer = (r + k) % ranks;
      if (notifies_first) stream.rank_notify(arrived, size_t(r), 1, peer);
      stream.rank_copy_data(all, size_t(r) * count, shard, 0, count, peer);
      if (!notifies_first) stream.rank_notify(arrived, size_t(r), 1, peer);
    }
  }
  world.launch(1, 1, [=](Block& block) {
    Shmem shmem(block);
    const int me = shmem.my_pe();
    for (int k = 0; k < ranks; ++k) {
      const int from = (me + k) % ranks;
      if (!shmem.signal_wait_until(arrived.at(me) + from, Compare::kGe, 1)) return;
      uint32 sum = 0;
      for (size_t i = 0; i < count; ++i) sum += all.at(me)[size_t(from) * count + i];
      sums.at(me)[from] = sum;
    }
  });
  if (!world.run()) return;
  for (int r = 0; r < ranks; ++r) {
    for (int from = 0; from < ranks; ++from) {
      world.expect(sums.get(r, size_t(from)) == uint32(4 * (from + 1)), "a shard is wrong");
    }
  }
}

TEST(RankStream, CopiesBeforeItNotifies) {
  expect_clean({.ranks = 3}, [](World& world) { gather_by_copy_engine(world, false); });
}

TEST(RankStream, NotifyingFirstIsFound) {
  const Exploration result =
      explore({.ranks = 3}, [](World& world) { gather_by_copy_engine(world, true); });
  ASSERT_TRUE(result.failure);
}

TEST(RankStream, WaitsForAKernel) {
  expect_clean({.ranks = 2}, [](World& world) {
    auto produced = world.local<uint32>("produced", 1);
    auto inbox = world.symmetric<uint32>("inbox", 1);
    auto ready = world.symmetric<uint64>("ready", 2, 0);
    world.launch(1, 1, [=](Block& block) {
      Shmem shmem(block);
      const int me = shmem.my_pe();
      produced.at(me)[0] = 7u;
      shmem.signal_op(ready.at(me), 1, SignalOp::kAdd, me);
    });
    for (int r = 0; r < 2; ++r) {
      RankStream stream(world, r, 1);
      stream.rank_wait(ready, 0, 1);
      stream.rank_copy_data(inbox, 0, produced, 0, 1, 1 - r);
    }
    if (!world.run()) return;
    for (int r = 0; r < 2; ++r) world.expect(inbox.get(r, 0) == 7, "not copied");
  });
}

}  // namespace
}  // namespace stretto::fibre
