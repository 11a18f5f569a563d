// The OpenSHMEM layer does what it says, under many schedules, without a finding.
#include "stretto/device/lang/shmem.h"

#include <gtest/gtest.h>

#include "stretto/fibre/explore.h"

namespace stretto::fibre {
namespace {

using device::Ptr;
using device::Shmem;

constexpr uint64_t kSeeds = 60;

void expect_clean(const Shape& shape, const Scenario& scenario, uint64_t seeds = kSeeds) {
  const Exploration result = explore(shape, scenario, {.num_seeds = seeds});
  ASSERT_FALSE(result.failure) << result.failure->to_text();
}

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

}  // namespace
}  // namespace stretto::fibre
