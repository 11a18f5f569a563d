// The low-latency all-to-all: every token arrives with its scales, call after call, also when some
// ranks get none and some get more than fits.
#include "fibre/scenarios/all_to_all.h"

#include "fibre/expect_clean.h"

namespace stretto::fibre {
namespace {

using namespace stretto::device;

TEST(AllToAll, MovesEveryTokenCallAfterCall) {
  expect_clean({.ranks = 3, .blocks = 2, .threads = 4}, all_to_all_calls);
  expect_clean({.ranks = 5, .blocks = 4, .threads = 1}, all_to_all_calls, 15);
}

TEST(AllToAll, WorksAcrossNodes) {
  expect_clean({.ranks = 4, .blocks = 3, .threads = 2, .warp_size = 2, .ranks_per_node = 2},
               all_to_all_calls, 20);
}

// Old tokens would be taken for new ones if the number of the call lost its upper half.
TEST(AllToAll, CountsMoreThanFourBillionCalls) {
  expect_clean({.ranks = 3, .blocks = 2, .threads = 2},
               [](World& world) { all_to_all_calls_after(world, (uint64{1} << 32) - 2); });
}

// Rank 0's offsets fall where rank 1's rows would be.
TEST(AllToAll, SendsNothingWhereOffsetsFall) {
  expect_clean({.ranks = 3, .blocks = 2, .threads = 2}, [](World& world) {
    auto tokens = world.local<uint8>("tokens", 4 * 16, 0);
    auto scales = world.local<float>("scales", 4, 1.0f);
    auto slots = world.symmetric<uint8>("slots", 6 * 4 * 16);
    auto scale_slots = world.symmetric<float>("scale_slots", 6 * 4);
    auto signals = world.symmetric<uint64>("signals", all_to_all_signals(3), 0);
    auto calls = world.local<uint64>("calls", 3, 0);
    auto received = world.local<uint32>("received", 6, 9);
    auto refused = world.local<uint32>("refused", 1, 0);
    auto offsets = world.local<uint32>("offsets", 4, 0);
    offsets.set(0, 1, 3);
    offsets.set(0, 2, 1);
    offsets.set(0, 3, 2);
    world.launch([=](Block& block) {
      const int r = block.rank();
      all_to_all(block, AllToAllArgs<Block>{tokens.at(r), scales.at(r), offsets.at(r), 16, 1, 4,
                                            slots.at(r), scale_slots.at(r), signals.at(r),
                                            calls.at(r), received.at(r), refused.at(r)});
    });
    if (!world.run()) return;
    world.expect(refused.get(0, 0) == 2, "the rows by which offsets fall are not counted");
    world.expect(received.get(1, 3) == 0, "rank 1 got rows");
    world.expect(received.get(2, 3) == 1, "rank 2 did not get its row");
  });
}

}  // namespace
}  // namespace stretto::fibre
