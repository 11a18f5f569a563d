// Ranks that reduce, norm or gather with other arguments than each other, or that do not call:
// found in the call.
#include "fibre/disagreement.h"

#include "fibre/expect_clean.h"
#include "fibre/scenarios/all_reduce_norm.h"
#include "fibre/scenarios/movers.h"
#include "stretto/device/lang/kernels/all_reduce.h"

namespace stretto::fibre {
namespace {

using namespace device;
using testing::HasSubstr;

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

}  // namespace
}  // namespace stretto::fibre
