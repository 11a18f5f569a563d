// All-gather and reduce-scatter of ranks that are absent, or that call otherwise than the others:
// left, or named.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "fibre/expect_clean.h"
#include "fibre/scenarios/gather_scatter.h"
#include "stretto/device/lang/kernels/all_reduce.h"

namespace stretto::fibre {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

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
