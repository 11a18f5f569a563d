// All-gather and reduce-scatter in one hop: the right bits on every rank by any schedule, whatever
// the number of ranks and the sizes of calls that follow each other; and what goes wrong, named.
#include "fibre/scenarios/gather_scatter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "fibre/expect_clean.h"
#include "stretto/device/lang/kernels/all_reduce.h"

namespace stretto::fibre {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

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

// One call, of which `change` may make another on rank 1.
template <class Change>
void one_call(World& world, PartsKernel kernel, Change change) {
  const PartsMemory memory(world, Bf16x8::kPoison);
  const size_t total = memory.num_ranks * kMostOfAPart;
  auto input = world.local<Vec16>("input", total, Vec16{});
  auto output = world.local<Vec16>("output", total, Vec16{});
  const Parts parts{2, 3};  // of two ranks, whatever the number of them
  world.launch([=](Block& block) {
    PartsArgs<Block> args = memory.args(block.rank(), input, output, parts);
    PartsKernel own = kernel;
    if (block.rank() == 1) change(args, own);
    own(block, args);
  });
  world.run();
}

TEST(GatherScatter, LeavesWhenARankIsAbsent) {
  for (PartsKernel kernel :
       {all_gather_one_shot<Bf16x8, Block>, reduce_scatter_one_shot<Bf16x8, Block>}) {
    for (const int absent : {0, 2}) {
      expect_clean({.ranks = 3, .blocks = 2, .threads = 2, .warp_size = 2}, [&](World& world) {
        world.make_absent(absent);
        one_call(world, kernel, [](auto&, auto&) {});
        if (!world.finding()) world.expect(world.num_expired() > 0, "nobody noticed");
      });
    }
  }
}

TEST(GatherScatter, RanksThatCallOtherwiseAreNamed) {
  const PartsKernel gather = all_gather_one_shot<Bf16x8, Block>;
  const PartsKernel scatter = reduce_scatter_one_shot<Bf16x8, Block>;
  const auto names = [](const char* argument, uint32 usual, uint32 of_rank_1) {
    return AnyOf(HasSubstr(fmt::format("rank 1 calls with {} = {}, rank", argument, of_rank_1)),
                 HasSubstr(fmt::format(" calls with {} = {}, rank 1 with {}\n", argument, usual,
                                       of_rank_1)));
  };
  const auto found = [](PartsKernel kernel, auto change) {
    return expect_found(FindingKind::kDisagreement, {.ranks = 3, .blocks = 2, .threads = 4},
                        [=](World& world) { one_call(world, kernel, change); })
        .finding.message;
  };
  for (PartsKernel kernel : {gather, scatter}) {
    EXPECT_THAT(found(kernel, [](auto& args, auto&) { args.num_vectors = 2; }),
                names("num_vectors", 3, 2));
    EXPECT_THAT(found(kernel, [](auto& args, auto&) { args.part_vectors = 3; }),
                names("part_vectors", 2, 3));
    EXPECT_THAT(found(kernel, [](auto& args, auto&) { args.max_part_vectors = 6; }),
                names("max_part_vectors", 7, 6));
  }
  EXPECT_THAT(found(gather, [=](auto&, auto& kernel) { kernel = scatter; }),
              names("collective", 3, 4));
  EXPECT_THAT(found(scatter, [=](auto&, auto& kernel) { kernel = gather; }),
              names("collective", 4, 3));
  EXPECT_THAT(
      found(gather, [](auto&, auto& kernel) { kernel = all_gather_one_shot<Fp16x8, Block>; }),
      names("mantissa_bits", 7, 10));
  EXPECT_THAT(
      found(scatter, [](auto&, auto& kernel) { kernel = reduce_scatter_one_shot<Fp32x4, Block>; }),
      names("mantissa_bits", 7, 23));
}

// Or whose memory says another number of rows.
TEST(GatherScatter, RanksThatReadOtherRowsAreNamed) {
  for (PartsKernel kernel :
       {all_gather_one_shot<Bf16x8, Block>, reduce_scatter_one_shot<Bf16x8, Block>}) {
    const Failure failure = expect_found(
        FindingKind::kDisagreement, {.ranks = 2, .blocks = 2, .threads = 4}, [=](World& world) {
          auto rows = world.local<int32>("rows", 1, 3);
          rows.set(1, 0, 4);
          const PartsMemory memory(world, Bf16x8::kPoison);
          auto input = world.local<Vec16>("input", 2 * kMostOfAPart, Vec16{});
          auto output = world.local<Vec16>("output", 2 * kMostOfAPart, Vec16{});
          world.launch([=](Block& block) {
            const int r = block.rank();
            PartsArgs<Block> args = memory.args(r, input, output, {});
            args.rows = {rows.at(r), 6, 2};
            kernel(block, args);
          });
          world.run();
        });
    EXPECT_THAT(failure.finding.message, HasSubstr("num_vectors = "));
  }
}

// Rank 1 reduces on the same memory, with numbers that are the same where both have one.
TEST(GatherScatter, IsToldFromAnAllReduce) {
  const PartsKernel all_reduces[] = {
      [](Block& block, const PartsArgs<Block>& args) {
        all_reduce_one_shot<Bf16x8>(
            block,
            AllReduceArgs<Block>{args.input, args.output, args.num_vectors, args.max_part_vectors,
                                 args.slots, args.greetings, args.state});
      },
      [](Block& block, const PartsArgs<Block>& args) {
        all_reduce_two_shot<Bf16x8>(
            block,
            AllReduceArgs<Block>{args.input, args.output, args.num_vectors, args.max_part_vectors,
                                 args.slots, args.greetings, args.state});
      }};
  for (PartsKernel kernel :
       {all_gather_one_shot<Bf16x8, Block>, reduce_scatter_one_shot<Bf16x8, Block>}) {
    for (PartsKernel other : all_reduces) {
      const Failure failure = expect_found(
          FindingKind::kDisagreement, {.ranks = 2, .blocks = 1, .threads = 2},
          [&](World& world) { one_call(world, kernel, [&](auto&, auto& own) { own = other; }); });
      EXPECT_THAT(failure.finding.message,
                  AnyOf(HasSubstr("collective = "), HasSubstr("shots = ")));
    }
  }
}

}  // namespace
}  // namespace stretto::fibre
