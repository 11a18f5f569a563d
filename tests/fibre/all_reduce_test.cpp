// All-reduce by sentinels, also of nothing and of less than a vector a rank: right sums, the same
// bits on all ranks, no finding over calls of several sizes.
#include "fibre/scenarios/all_reduce.h"

#include "fibre/expect_clean.h"

namespace stretto::fibre {
namespace {

using namespace stretto::device;

TEST(AllReduce, OneShot) {
  expect_clean({.ranks = 3, .blocks = 2, .threads = 4}, [](World& world) {
    all_reduce_calls<Bf16x8>(world, all_reduce_one_shot<Bf16x8, Block>);
  });
  expect_clean(
      {.ranks = 8, .blocks = 1, .threads = 2},
      [](World& world) { all_reduce_calls<Fp32x4>(world, all_reduce_one_shot<Fp32x4, Block>); },
      10);
}

TEST(AllReduce, TwoShot) {
  expect_clean({.ranks = 3, .blocks = 2, .threads = 4}, [](World& world) {
    all_reduce_calls<Bf16x8>(world, all_reduce_two_shot<Bf16x8, Block>);
  });
  expect_clean(
      {.ranks = 8, .blocks = 1, .threads = 2},
      [](World& world) { all_reduce_calls<Fp32x4>(world, all_reduce_two_shot<Fp32x4, Block>); },
      10);
}

// As a graph does that serves every row count, among calls of the host's counts.
TEST(AllReduce, RowsInMemoryTellTheSize) {
  for (AllReduceKernel kernel :
       {all_reduce_one_shot<Bf16x8, Block>, all_reduce_two_shot<Bf16x8, Block>}) {
    for (const Shape& shape : {Shape{.ranks = 3, .blocks = 2, .threads = 4},
                               Shape{.ranks = 8, .blocks = 1, .threads = 2}}) {
      expect_clean(
          shape,
          [=](World& world) {
            all_reduce_calls<Bf16x8>(world, kernel, reductions_told_both_ways());
          },
          shape.ranks == 3 ? 40 : 8);
    }
  }
}

// A kernel sends, and another receives, which may start early; also where other ranks, or the same
// in other calls, do both in one.
TEST(AllReduce, OneShotInTwoKernels) {
  const AllReduceKernel received = all_reduce_one_shot<Bf16x8, Block, kBatch, SentBy::kBefore>;
  for (const Shape& shape :
       {Shape{.ranks = 2, .blocks = 1, .threads = 3}, Shape{.ranks = 3, .blocks = 2, .threads = 4},
        Shape{.ranks = 5, .blocks = 2, .threads = 2}}) {
    for (const bool in_turns : {false, true}) {
      expect_clean(
          shape,
          [=](World& world) {
            all_reduce_calls<Bf16x8>(world, all_reduce_one_shot<Bf16x8, Block>, all_reduce_sizes(),
                                     {received, in_turns});
          },
          shape.ranks == 5 ? 12 : 30);
    }
  }
}

TEST(AllReduce, LeavesWhenARankIsAbsent) {
  for (AllReduceKernel kernel :
       {all_reduce_one_shot<Bf16x8, Block>, all_reduce_two_shot<Bf16x8, Block>,
        all_reduce_one_shot<Bf16x8, Block, kBatch, SentBy::kBefore>}) {
    expect_clean({.ranks = 3, .blocks = 2, .threads = 2, .warp_size = 2}, [&](World& world) {
      world.make_absent(2);
      auto slots = world.symmetric<Vec16>("slots", 64, four_of(Bf16x8::kPoison));
      auto input = world.local<Vec16>("input", 3, Vec16{});
      auto output = world.local<Vec16>("output", 3, Vec16{});
      auto greetings = world.symmetric<Vec16>("greetings", 9, four_of(kNoGreeting));
      auto state = world.local<uint64>("state", 4, 0);
      world.launch([=](Block& block) {
        const int r = block.rank();
        kernel(block, AllReduceArgs<Block>{input.at(r), output.at(r), 3, 3, slots.at(r),
                                           greetings.at(r), state.at(r)});
      });
      if (world.run()) world.expect(world.num_expired() > 0, "nobody noticed");
    });
  }
}

TEST(AllReduce, RanksThatCallWithOtherSizesAreNamed) {
  for (AllReduceKernel kernel :
       {all_reduce_one_shot<Bf16x8, Block>, all_reduce_two_shot<Bf16x8, Block>}) {
    const Failure failure = expect_found(
        FindingKind::kDisagreement, {.ranks = 3, .blocks = 2, .threads = 4}, [&](World& world) {
          const auto ranks = static_cast<size_t>(world.shape().ranks);
          auto slots = world.symmetric<Vec16>("slots", 24 * ranks, four_of(Bf16x8::kPoison));
          auto greetings = world.symmetric<Vec16>("greetings", 3 * ranks, four_of(kNoGreeting));
          auto data = world.local<Vec16>("data", 4, Vec16{});
          auto state = world.local<uint64>("state", 4, 0);
          world.launch([=](Block& block) {
            const int r = block.rank();
            const uint64 size = r == 1 ? 4 : 3;
            kernel(block, AllReduceArgs<Block>{data.at(r), data.at(r), size, 4, slots.at(r),
                                               greetings.at(r), state.at(r)});
          });
          world.run();
        });
    EXPECT_NE(failure.finding.message.find("num_vectors = "), std::string::npos)
        << failure.finding.message;
  }
}

}  // namespace
}  // namespace stretto::fibre
