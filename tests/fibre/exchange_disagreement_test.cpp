// Ranks that exchange tokens with other arguments than each other, or than before, or that do not
// call: found in the call.
#include "fibre/disagreement.h"
#include "fibre/expect_clean.h"
#include "fibre/scenarios/all_to_all.h"
#include "fibre/scenarios/experts.h"

namespace stretto::fibre {
namespace {

using namespace device;
using testing::HasSubstr;

// Memory for a dispatch of a few tokens of each rank.
struct OneDispatch {
  OneDispatch(World& world, uint32 most, uint32 count = 2)
      : memory(world, {256, 2 * uint32(world.shape().ranks), 2, most, 64, 1, 0}),
        tokens(world.local<uint32>("tokens", 1, count)),
        input(world.local<Vec16>("input", 64, Vec16{})),
        ids(world.local<int32>("ids", 16, 0)),
        weights(world.local<float>("weights", 16, 1.0f)) {}
  DispatchArgs<Block> args(Block& block) const {
    return memory.dispatch_args(block.rank(), tokens, input, ids, weights);
  }
  ExpertMemory memory;
  Buffer<uint32> tokens;
  Buffer<Vec16> input;
  Buffer<int32> ids;
  Buffer<float> weights;
};

// Dispatch with what `change` makes of rank 1's shape.
template <class Change>
void one_dispatch(World& world, Change change, uint32 count = 2) {
  const OneDispatch one(world, 4, count);
  world.launch([=](Block& block) {
    auto args = one.args(block);
    if (block.rank() == 1) change(args.shape);
    dispatch(block, args);
  });
  world.run();
}

const Shape kExpertShape{
    .ranks = 2, .blocks = 2, .threads = 4, .warp_size = 4, .shared_bytes = 4096};

TEST(ExchangeDisagreement, RanksThatDispatchOtherwiseAreNamed) {
  const auto differs = [](uint32 ExpertShape::*field, uint32 value, uint32 count = 2) {
    const auto change = [=](ExpertShape& shape) { shape.*field = value; };
    return expect_found(FindingKind::kDisagreement, kExpertShape,
                        [=](World& world) { one_dispatch(world, change, count); })
        .finding.message;
  };
  EXPECT_THAT(differs(&ExpertShape::hidden, 128), names("hidden", 256, 128));
  EXPECT_THAT(differs(&ExpertShape::experts, 2), names("experts", 4, 2));
  EXPECT_THAT(differs(&ExpertShape::top_k, 1), names("top_k", 2, 1));
  EXPECT_THAT(differs(&ExpertShape::max_tokens, 3), names("max_tokens", 4, 3));
  EXPECT_THAT(differs(&ExpertShape::fp8, 1, 0), names("fp8", 0, 1));
}

// Rank 1 has one block more, or one less; also where that makes units of two blocks into ones of
// one, and of more tokens than a unit takes as one part.
TEST(ExchangeDisagreement, RanksThatDispatchWithOtherGridsAreNamed) {
  for (const int blocks : {1, 2, 4}) {
    for (const uint32 most : {4u, 12u, 40u}) {
      const int usual = blocks == 1 ? 2 : 3;
      Shape shape = kExpertShape;
      shape.blocks = 4;  // what memory is for
      const auto failure = expect_found(FindingKind::kDisagreement, shape, [=](World& world) {
        const OneDispatch one(world, most);
        for (int r = 0; r < 2; ++r) {
          world.launch_on(r, 0, r == 1 ? blocks : usual, world.shape().threads,
                          [=](Block& block) { dispatch(block, one.args(block)); });
        }
        world.run();
      });
      EXPECT_THAT(failure.finding.message, names("blocks", usual, blocks));
    }
  }
}

// A combine with what `change` makes of its arguments after a dispatch, both on so many blocks.
template <class Change>
std::string found_in_combine(int blocks, Change change) {
  return expect_found(FindingKind::kDisagreement, kExpertShape,
                      [=](World& world) {
                        const OneDispatch one(world, 4);
                        auto results = world.local<Vec16>("results", 64 * 32, Vec16{});
                        auto output = world.local<Vec16>("output", 4 * 32);
                        world.launch(2, world.shape().threads,
                                     [=](Block& block) { dispatch(block, one.args(block)); });
                        for (int r = 0; r < 2; ++r) {
                          world.launch_on(r, 0, r == 1 ? blocks : 2, world.shape().threads,
                                          [=](Block& block) {
                                            auto args = one.memory.combine_args(
                                                block.rank(), one.tokens, results, output);
                                            if (block.rank() == 1) change(args.shape);
                                            combine(block, args);
                                          });
                        }
                        world.run();
                      })
      .finding.message;
}

TEST(ExchangeDisagreement, RanksThatCombineOtherwiseThanTheyDispatchedAreNamed) {
  const auto differs = [](uint32 ExpertShape::*field, uint32 value) {
    return found_in_combine(2, [=](ExpertShape& shape) { shape.*field = value; });
  };
  const auto says = [](const char* argument, int now, int before) {
    return HasSubstr(fmt::format("rank 1 calls with {} = {}, but called before with {}\n", argument,
                                 now, before));
  };
  EXPECT_THAT(differs(&ExpertShape::hidden, 128), says("hidden", 128, 256));
  EXPECT_THAT(differs(&ExpertShape::experts, 2), says("experts", 2, 4));
  EXPECT_THAT(differs(&ExpertShape::top_k, 1), says("top_k", 1, 2));
  EXPECT_THAT(differs(&ExpertShape::max_tokens, 3), says("max_tokens", 3, 4));
  EXPECT_THAT(found_in_combine(1, [](ExpertShape&) {}), says("blocks", 1, 2));
}

// All ranks alike, from one call to the next.
TEST(ExchangeDisagreement, AGridThatChangesBetweenCallsIsNamed) {
  for (const int then : {1, 3}) {
    Shape shape = kExpertShape;
    shape.blocks = 3;
    const auto failure = expect_found(FindingKind::kDisagreement, shape, [=](World& world) {
      const OneDispatch one(world, 4);
      for (const int blocks : {2, then}) {
        world.launch(blocks, world.shape().threads,
                     [=](Block& block) { dispatch(block, one.args(block)); });
      }
      world.run();
    });
    EXPECT_THAT(failure.finding.message,
                HasSubstr(fmt::format("blocks = {}, but called before with 2\n", then)));
  }
}

TEST(ExchangeDisagreement, DispatchLeavesWhenARankIsAbsent) {
  expect_clean(kExpertShape, [](World& world) {
    world.make_absent(1);
    one_dispatch(world, [](ExpertShape&) {});
    if (!world.finding()) world.expect(world.num_expired() > 0, "nobody noticed");
  });
}

// Rank 1 calls with what `change` makes of the arguments.
template <class Change>
std::string found_in_all_to_all(Change change) {
  return expect_found(FindingKind::kDisagreement, {.ranks = 2, .blocks = 1},
                      [=](World& world) {
                        auto bytes = world.symmetric<uint8>("slots", 1024);
                        auto tokens = world.local<uint8>("tokens", 64, 0);
                        auto scales = world.symmetric<float>("scale_slots", 64);
                        auto own_scales = world.local<float>("scales", 16, 1.0f);
                        auto offsets = world.local<uint32>("offsets", 3, 0);
                        auto signals = world.symmetric<uint64>("signals", all_to_all_signals(2), 0);
                        auto calls = world.local<uint64>("calls", 2, 0);
                        auto received = world.local<uint32>("received", 4, 0);
                        auto refused = world.local<uint32>("refused", 1, 0);
                        world.launch(1, 4, [=](Block& block) {
                          const int r = block.rank();
                          AllToAllArgs<Block> args{tokens.at(r),
                                                   own_scales.at(r),
                                                   offsets.at(r),
                                                   16,
                                                   1,
                                                   2,
                                                   bytes.at(r),
                                                   scales.at(r),
                                                   signals.at(r),
                                                   calls.at(r),
                                                   received.at(r),
                                                   refused.at(r)};
                          if (r == 1) change(args);
                          all_to_all(block, args);
                        });
                        world.run();
                      })
      .finding.message;
}

TEST(ExchangeDisagreement, AllToAllsOfOtherRowsAreNamed) {
  EXPECT_THAT(found_in_all_to_all([](auto& args) { args.row_bytes = 32; }),
              names("row_bytes", 16, 32));
  EXPECT_THAT(found_in_all_to_all([](auto& args) { args.scales_per_row = 2; }),
              names("scales_per_row", 1, 2));
  EXPECT_THAT(found_in_all_to_all([](auto& args) { args.max_rows = 3; }), names("max_rows", 2, 3));
}

}  // namespace
}  // namespace stretto::fibre
