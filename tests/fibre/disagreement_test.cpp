// Ranks that call with other arguments than each other, or that do not call: found in the call.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "fibre/expect_clean.h"
#include "fibre/scenarios/all_reduce_norm.h"
#include "fibre/scenarios/all_to_all.h"
#include "fibre/scenarios/experts.h"
#include "fibre/scenarios/movers.h"
#include "stretto/device/lang/kernels/all_reduce.h"
namespace stretto::fibre {
namespace {

using namespace device;
using testing::HasSubstr;

// Names the argument with both values and rank 1, whoever finds it.
auto names(const char* argument, int usual, int of_rank_1) {
  return testing::AnyOf(
      testing::AllOf(HasSubstr(fmt::format("rank 1 calls with {} = {}, rank", argument, of_rank_1)),
                     HasSubstr(fmt::format(" with {}\n", usual))),
      HasSubstr(fmt::format(" calls with {} = {}, rank 1 with {}\n", argument, usual, of_rank_1)));
}

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

TEST(Disagreement, RanksThatDispatchOtherwiseAreNamed) {
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
TEST(Disagreement, RanksThatDispatchWithOtherGridsAreNamed) {
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

TEST(Disagreement, RanksThatCombineOtherwiseThanTheyDispatchedAreNamed) {
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
TEST(Disagreement, AGridThatChangesBetweenCallsIsNamed) {
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

TEST(Disagreement, DispatchLeavesWhenARankIsAbsent) {
  expect_clean(kExpertShape, [](World& world) {
    world.make_absent(1);
    one_dispatch(world, [](ExpertShape&) {});
    if (!world.finding()) world.expect(world.num_expired() > 0, "nobody noticed");
  });
}

// Rank 1 calls for fp32 instead of bf16, or for the other number of shots.
TEST(Disagreement, RanksThatReduceInOtherFormatsAreNamed) {
  using Kernel = void (*)(Block&, const AllReduceArgs<Block>&);
  const std::pair<Kernel, Kernel> kernels[] = {
      {all_reduce_one_shot<Bf16x8, Block>, all_reduce_one_shot<Fp32x4, Block>},
      {all_reduce_two_shot<Bf16x8, Block>, all_reduce_two_shot<Fp32x4, Block>},
      {all_reduce_one_shot<Fp16x8, Block>, all_reduce_one_shot<Bf16x8, Block>},
      {all_reduce_one_shot<Bf16x8, Block>, all_reduce_two_shot<Bf16x8, Block>}};
  for (const auto& [own, other] : kernels) {
    const Failure failure = expect_found(
        FindingKind::kDisagreement, {.ranks = 2, .blocks = 1, .threads = 2},
        [own = own, other = other](World& world) {
          auto data = world.local<Vec16>("data", 4, Vec16{});
          auto slots = world.symmetric<Vec16>("slots", 48, four_of(Bf16x8::kPoison));
          auto greetings = world.symmetric<Vec16>("greetings", 6, four_of(kNoGreeting));
          auto state = world.local<uint64>("state", 2, 0);
          world.launch([=](Block& block) {
            const int r = block.rank();
            (r == 1 ? other : own)(
                block, {data.at(r), data.at(r), 4, 4, slots.at(r), greetings.at(r), state.at(r)});
          });
          world.run();
        });
    const bool formats = other != kernels[3].second;
    EXPECT_THAT(failure.finding.message, HasSubstr(formats ? "mantissa_bits = " : "shots = "));
  }
}

// A call of a norm kernel that rank 1 makes with other arguments; memory suits both.
template <class Change>
std::string found_in_norm(NormKernel how, Change change) {
  return expect_found(FindingKind::kDisagreement, {.ranks = 2, .blocks = 1, .threads = 2},
                      [=](World& world) { one_norm(world, how, change); })
      .finding.message;
}

TEST(Disagreement, RanksThatNormOtherwiseAreNamed) {
  const auto chunks = [](auto change) { return found_in_norm(NormKernel::kScatterGather, change); };
  EXPECT_THAT(chunks([](NormSizes& sizes) { sizes.tokens = 3; }), HasSubstr("tokens = "));
  EXPECT_THAT(chunks([](NormSizes& sizes) { sizes.row_vectors = 1; }), HasSubstr("row_vectors = "));
  EXPECT_THAT(chunks([](NormSizes& sizes) { sizes.max_tokens = 5; }), HasSubstr("max_tokens = "));
  EXPECT_THAT(chunks([](NormSizes& sizes) { sizes.rows_per_chunk = 1; }),
              HasSubstr("rows_per_chunk = "));
  EXPECT_THAT(chunks([](NormSizes& sizes) { sizes.fp8 = true; }), HasSubstr("fp8 = "));
  EXPECT_THAT(found_in_norm(NormKernel::kTwoShot,
                            [](NormSizes& sizes) { sizes.how = NormKernel::kTwoShotOwnRows; }),
              HasSubstr("own_rows = "));
  EXPECT_THAT(found_in_norm(NormKernel::kTwoShot,
                            [](NormSizes& sizes) { sizes.how = NormKernel::kOneShot; }),
              HasSubstr("shots = "));
}

// A run of a mover that rank 1 makes with other arguments, by any schedule.
template <class Run>
std::string found_in_mover(Run run) {
  return expect_found(FindingKind::kDisagreement,
                      {.ranks = 2, .blocks = 2, .threads = 2, .warp_size = 2},
                      [=](World& world) {
                        const OneMover mover(world);
                        world.launch([=](Block& block) { run(block, mover); });
                        world.run();
                      })
      .finding.message;
}

TEST(Disagreement, RanksThatGatherOtherwiseAreNamed) {
  const auto gathers = [](auto change) {
    return found_in_mover([=](Block& block, const OneMover& mover) {
      auto args = mover.gather(block);
      if (block.rank() == 1) change(args, args.channel.producer);
      push_gather(block, args);
    });
  };
  EXPECT_THAT(gathers([](auto& args, auto&) { args.row_bytes = 16; }), names("row_bytes", 32, 16));
  EXPECT_THAT(gathers([](auto&, auto& tiles) { tiles.num_rows = 7; }), names("num_rows", 8, 7));
  EXPECT_THAT(gathers([](auto&, auto& tiles) { tiles.tile_rows = 3; }), names("tile_rows", 2, 3));
  EXPECT_THAT(gathers([](auto&, auto& tiles) { tiles.tiles_per_signal = 2; }),
              names("tiles_per_signal", 1, 2));
  EXPECT_THAT(gathers([](auto& args, auto&) { args.channel.epoch = args.channel.epoch + 1; }),
              names("epoch", 1, 2));
}

TEST(Disagreement, RanksThatReduceSlotsOtherwiseAreNamed) {
  const auto reduces = [](auto change) {
    return found_in_mover([=](Block& block, const OneMover& mover) {
      auto args = mover.reduce(block);
      if (block.rank() == 1) change(args);
      slot_reduce<Bf16x8>(block, args);
    });
  };
  EXPECT_THAT(reduces([](auto& args) { args.row_vectors = 1; }), names("row_vectors", 2, 1));
  EXPECT_THAT(reduces([](auto& args) { args.channel.producer.tile_rows = 3; }),
              names("tile_rows", 2, 3));
  EXPECT_THAT(reduces([](auto& args) { args.channel.notifies_per_tile = 3; }),
              names("notifies_per_tile", 1, 3));
  EXPECT_THAT(reduces([](auto& args) { args.channel.epoch = args.channel.epoch + 1; }),
              names("epoch", 1, 2));
  EXPECT_THAT(found_in_mover([](Block& block, const OneMover& mover) {
                const auto args = mover.reduce(block);
                block.rank() == 1 ? slot_reduce<Fp32x4>(block, args)
                                  : slot_reduce<Bf16x8>(block, args);
              }),
              names("mantissa_bits", 7, 23));
}

TEST(Disagreement, MoversLeaveWhenARankIsAbsent) {
  for (const bool gathers : {true, false}) {
    expect_clean({.ranks = 3, .blocks = 2, .threads = 2, .warp_size = 2}, [=](World& world) {
      const OneMover mover(world);
      world.make_absent(1);
      world.launch([=](Block& block) {
        if (gathers) return push_gather(block, mover.gather(block));
        slot_reduce<Bf16x8>(block, mover.reduce(block));
      });
      world.run();
      if (!world.finding()) world.expect(world.num_expired() > 0, "nobody noticed");
    });
  }
}

TEST(Disagreement, NormsLeaveWhenARankIsAbsent) {
  for (const NormKernel how : {NormKernel::kOneShot, NormKernel::kTwoShot,
                               NormKernel::kTwoShotOwnRows, NormKernel::kScatterGather}) {
    for (const int threads : {1, 2}) {  // two vectors a thread, or one
      expect_clean({.ranks = 2, .blocks = 2, .threads = threads, .warp_size = threads},
                   [=](World& world) {
                     world.make_absent(1);
                     one_norm(world, how, [](NormSizes&) {});
                     if (!world.finding()) {
                       world.expect(world.num_expired() > 0, "nobody noticed");
                     }
                   });
    }
  }
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

TEST(Disagreement, AllToAllsOfOtherRowsAreNamed) {
  EXPECT_THAT(found_in_all_to_all([](auto& args) { args.row_bytes = 32; }),
              names("row_bytes", 16, 32));
  EXPECT_THAT(found_in_all_to_all([](auto& args) { args.scales_per_row = 2; }),
              names("scales_per_row", 1, 2));
  EXPECT_THAT(found_in_all_to_all([](auto& args) { args.max_rows = 3; }), names("max_rows", 2, 3));
}

}  // namespace
}  // namespace stretto::fibre
