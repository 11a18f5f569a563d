// All-gather and reduce-scatter in one hop: the right bits on every rank by any schedule, whatever
// the number of ranks and the sizes of calls that follow each other.
#include "fibre/scenarios/gather_scatter.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fibre/expect_clean.h"
#include "stretto/device/lang/kernels/all_reduce.h"

namespace stretto::fibre {
namespace {

const Shape kShapes[] = {
    {.ranks = 1, .blocks = 2, .threads = 2}, {.ranks = 2, .blocks = 1, .threads = 2},
    {.ranks = 3, .blocks = 2, .threads = 4}, {.ranks = 5, .blocks = 1, .threads = 3},
    {.ranks = 8, .blocks = 1, .threads = 2}, {.ranks = 16, .blocks = 1, .threads = 2}};

uint64_t seeds_of(const Shape& shape) { return shape.ranks <= 3 ? 60 : shape.ranks <= 8 ? 12 : 4; }

TEST(GatherScatter, GathersBits) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(fmt::format("{} ranks", shape.ranks));
    expect_clean(
        shape,
        [](World& world) { gather_calls<Bf16x8>(world, all_gather_one_shot<Bf16x8, Block>); },
        seeds_of(shape));
    expect_clean(
        shape,
        [](World& world) { gather_calls<Fp16x8>(world, all_gather_one_shot<Fp16x8, Block, 3>); },
        seeds_of(shape));
    expect_clean(
        shape,
        [](World& world) { gather_calls<Fp32x4>(world, all_gather_one_shot<Fp32x4, Block, 2>); },
        seeds_of(shape));
  }
}

TEST(GatherScatter, ScattersSums) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(fmt::format("{} ranks", shape.ranks));
    expect_clean(
        shape,
        [](World& world) { scatter_calls<Bf16x8>(world, reduce_scatter_one_shot<Bf16x8, Block>); },
        seeds_of(shape));
    expect_clean(
        shape,
        [](World& world) {
          scatter_calls<Fp16x8>(world, reduce_scatter_one_shot<Fp16x8, Block, 3>);
        },
        seeds_of(shape));
    expect_clean(
        shape,
        [](World& world) {
          scatter_calls<Fp32x4>(world, reduce_scatter_one_shot<Fp32x4, Block, 2>);
        },
        seeds_of(shape));
  }
}

// A kernel sends, and another receives, which may start early; also where other ranks, or the same
// in other calls, do both in one. The bits are those that one kernel leaves.
TEST(GatherScatter, ScattersSumsInTwoKernels) {
  for (const Shape& shape : kShapes) {
    if (shape.ranks > 5) continue;
    SCOPED_TRACE(fmt::format("{} ranks", shape.ranks));
    const auto calls = parts_of_calls(uint32(shape.ranks));
    for (const bool in_turns : {false, true}) {
      expect_clean(
          shape,
          [&](World& world) {
            const PartsKernel receives = reduce_scatter_one_shot<Bf16x8, Block, 4, SentBy::kBefore>;
            scatter_calls<Bf16x8>(world, reduce_scatter_one_shot<Bf16x8, Block, 4>, calls,
                                  {receives, in_turns});
          },
          seeds_of(shape) / 2);
    }
    expect_clean(
        shape,
        [&](World& world) {
          const PartsKernel receives = reduce_scatter_one_shot<Fp16x8, Block, 3, SentBy::kBefore>;
          scatter_calls<Fp16x8>(world, reduce_scatter_one_shot<Fp16x8, Block, 3>, calls,
                                {receives, false});
        },
        seeds_of(shape) / 2);
  }
}

// As a graph does that serves every row count, among calls of the host's counts.
TEST(GatherScatter, RowsInMemoryTellTheSizes) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(fmt::format("{} ranks", shape.ranks));
    const auto calls = calls_told_both_ways(uint32(shape.ranks));
    expect_clean(
        shape,
        [&](World& world) {
          gather_calls<Bf16x8>(world, all_gather_one_shot<Bf16x8, Block>, calls);
        },
        seeds_of(shape));
    expect_clean(
        shape,
        [&](World& world) {
          scatter_calls<Fp16x8>(world, reduce_scatter_one_shot<Fp16x8, Block, 3>, calls);
        },
        seeds_of(shape));
  }
}

TEST(GatherScatter, CopiesTheRowsThatThereAre) {
  for (const Shape& shape : {Shape{.ranks = 1, .blocks = 3, .threads = 2},
                             Shape{.ranks = 2, .blocks = 8, .threads = 8}}) {
    expect_clean(shape, copy_rows_calls, 20);
  }
}

// Part r of what the all-reduce leaves everywhere is what the reduce-scatter leaves on rank r.
template <class Format>
void expect_sums_of_all_reduce(World& world) {
  const auto num = size_t(world.shape().ranks);
  const size_t total = num * kMostOfAPart - 2;
  const PartsMemory memory(world, Format::kPoison);
  auto input = world.local<Vec16>("input", total);
  auto part = world.local<Vec16>("part", kMostOfAPart);
  auto whole = world.local<Vec16>("whole", total);
  auto slots = world.symmetric<Vec16>("whole slots", 2 * num * total, four_of(Format::kPoison));
  auto greetings = world.symmetric<Vec16>("whole greetings", 3 * num, four_of(kNoGreeting));
  auto state = world.local<uint64>("whole state", size_t(world.shape().blocks), 0);
  for (int r = 0; r < world.shape().ranks; ++r) {
    for (size_t i = 0; i < total; ++i) input.set(r, i, summand<Format>(r, 0, i));
  }
  const Parts parts{kMostOfAPart, uint32(total)};
  world.launch([=](Block& block) {
    reduce_scatter_one_shot<Format>(block, memory.args(block.rank(), input, part, parts));
  });
  world.launch([=](Block& block) {
    const int r = block.rank();
    all_reduce_one_shot<Format>(
        block, AllReduceArgs<Block>{input.at(r), whole.at(r), total, total, slots.at(r),
                                    greetings.at(r), state.at(r)});
  });
  if (!world.run()) return;
  for (int r = 0; r < world.shape().ranks; ++r) {
    for (uint32 i = 0; i < parts.size_of(r); ++i) {
      const Vec16 got = part.get(r, i), want = whole.get(r, parts.first(r) + i);
      for (int w = 0; w < 4; ++w) world.expect(got.word[w] == want.word[w], "other bits");
    }
  }
}

TEST(GatherScatter, AgreesWithTheAllReduceBitByBit) {
  for (const Shape& shape : kShapes) {
    if (shape.ranks > 8) continue;  // an all-reduce of so many takes seconds
    expect_clean(shape, expect_sums_of_all_reduce<Bf16x8>, 4);
    expect_clean(shape, expect_sums_of_all_reduce<Fp16x8>, 4);
    expect_clean(shape, expect_sums_of_all_reduce<Fp32x4>, 4);
  }
}

TEST(GatherScatter, KeepsEveryBitButThoseOfNegativeZeros) {
  for (uint32 half = 0; half < 0x10000u; ++half) {
    const uint32 kept = half == 0x8000u ? 0u : half;
    const Vec16 v = {{half, half << 16, half << 16 | half, half << 16 | 0x8000u}};
    for (const Vec16& got : {positive_zeros<Bf16x8>(v), positive_zeros<Fp16x8>(v)}) {
      ASSERT_EQ(got.word[0], kept);
      ASSERT_EQ(got.word[1], kept << 16);
      ASSERT_EQ(got.word[2], kept << 16 | kept);
      ASSERT_EQ(got.word[3], kept << 16);
    }
    const Vec16 of_fp32 = positive_zeros<Fp32x4>(v);
    ASSERT_EQ(of_fp32.word[0], half);
    ASSERT_EQ(of_fp32.word[1], kept << 16);
    ASSERT_EQ(of_fp32.word[3], half << 16 | 0x8000u);
  }
}

}  // namespace
}  // namespace stretto::fibre
