// Arguments that cannot work: refused by the host before a launch, or found by the ranks in a call.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cuda/lang_arguments.h"
#include "fibre/expect_clean.h"
#include "fibre/scenarios/all_reduce_norm.h"
#include "fibre/scenarios/all_to_all.h"
#include "fibre/scenarios/experts.h"
#include "fibre/scenarios/movers.h"

namespace stretto::fibre {
namespace {

using testing::HasSubstr;

template <class Args>
std::string refusal(const Args& args, int ranks, int blocks) {
  try {
    cuda::check_arguments(args, ranks, blocks);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

template <class T>
T* address(uint64_t at) {
  return reinterpret_cast<T*>(at);
}

AllReduceArgs<GpuBlock> good_all_reduce() {
  return {address<Vec16>(0x10000), address<Vec16>(0x20000), 16, 64, address<Vec16>(0x40000),
          address<Vec16>(0x60000), address<uint64>(0x70000)};
}

TEST(BadArguments, MemoryThatIsMissingUnalignedOrOverlaps) {
  auto args = good_all_reduce();
  EXPECT_EQ(refusal(args, 2, 8), "");
  args.output = address<Vec16>(0x10000);  // in place
  EXPECT_EQ(refusal(args, 2, 8), "");
  args.output = address<Vec16>(0x10010);
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("'input' and 'output' overlap"));
  args = good_all_reduce();
  args.input = address<Vec16>(0x10008);
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("'input' at 0x10008 is not aligned to 16 bytes"));
  args = good_all_reduce();
  args.slots = nullptr;
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("'slots' is null; 6144 bytes are needed"));
  args = good_all_reduce();
  args.greetings = args.slots + 3 * 2 * 64 - 1;  // the slots' last vector
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("'slots' and 'greetings' overlap"));
  args = good_all_reduce();
  args.num_vectors = 65;
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("65 vectors, but max_vectors is 64"));
}

TEST(BadArguments, TwoShotNeedsFewerSlotsThanOneShot) {
  auto args = good_all_reduce();
  args.greetings = args.slots + 3 * 2 * 64;
  EXPECT_EQ(refusal(args, 4, 8), "");
}

TEST(BadArguments, NormsOfOddRowsInFp8AndTooManyTokens) {
  AllReduceNormArgs<GpuBlock> args{};
  args.tokens = 5;
  args.max_tokens = 4;
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("5 tokens, but max_tokens is 4"));
  args.tokens = 4;
  args.row_vectors = 3;
  args.norm.fp8_scale = address<float>(0x100);
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("3 vectors a row; fp8 output needs an even number"));
}

ScatterNormGatherArgs<GpuBlock> good_scatter_norm_gather() {
  ScatterNormGatherArgs<GpuBlock> args{};
  args.input = address<Vec16>(0x10000);
  args.residual = address<Vec16>(0x20000);
  args.new_residual = address<Vec16>(0x30000);
  args.output = address<Vec16>(0x40000);
  args.norm = {address<Vec16>(0x50000), nullptr, 1e-5f};
  args.tokens = 7;
  args.row_vectors = 2;
  args.max_tokens = 8;
  args.rows_per_chunk = 2;
  args.slots = address<Vec16>(0x60000);
  args.arrived = address<uint64>(0x70000);
  args.done = address<uint64>(0x80000);
  args.greetings = address<Vec16>(0x90000);
  args.state = address<uint64>(0xa0000);
  return args;
}

TEST(BadArguments, ScatterNormGatherOfMemoryThatIsMissingUnalignedOrOverlaps) {
  const auto with = [](auto change) {
    auto args = good_scatter_norm_gather();
    change(args);
    return refusal(args, 2, 8);
  };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_EQ(with([](auto& args) { args.new_residual = address<Vec16>(0x20000); }), "");  // in place
  EXPECT_THAT(with([](auto& args) { args.new_residual = address<Vec16>(0x20010); }),
              HasSubstr("'residual' and 'new_residual' overlap"));
  // Two chunks of each of two ranks.
  EXPECT_EQ(with([](auto& args) { args.done = args.arrived + 4; }), "");
  EXPECT_THAT(with([](auto& args) { args.done = args.arrived + 3; }),
              HasSubstr("'arrived' and 'done' overlap; give each memory of its own"));
  EXPECT_THAT(with([](auto& args) { args.output = address<Vec16>(0x10000); }),
              HasSubstr("'input' and 'output' overlap"));
  EXPECT_THAT(with([](auto& args) { args.slots = address<Vec16>(0x60008); }),
              HasSubstr("scatter_norm_gather: 'slots' at 0x60008 is not aligned to 16 bytes"));
  EXPECT_THAT(with([](auto& args) { args.arrived = nullptr; }),
              HasSubstr("'arrived' is null; 32 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.norm.fp8_scale = address<float>(0xb0002); }),
              HasSubstr("'fp8_scale' at 0xb0002 is not aligned to 4 bytes"));
}

TEST(BadArguments, ScatterNormGatherOfSizesThatAreNotServed) {
  const auto with = [](auto change) {
    auto args = good_scatter_norm_gather();
    change(args);
    return refusal(args, 2, 8);
  };
  EXPECT_THAT(with([](auto& args) { args.tokens = 9; }),
              HasSubstr("9 tokens, but max_tokens is 8"));
  EXPECT_THAT(with([](auto& args) { args.max_tokens = 1ull << 31; }),
              HasSubstr("2147483648 tokens of 2 vectors; at most 2147483647 of each are served"));
  EXPECT_THAT(with([](auto& args) { args.rows_per_chunk = 0; }),
              HasSubstr("chunks of 0 rows; 1 to 134217727 are served"));
  EXPECT_THAT(with([](auto& args) {
                args.row_vectors = 3;
                args.norm.fp8_scale = address<float>(0xb0000);
              }),
              HasSubstr("3 vectors a row; fp8 output needs an even number"));
}

TEST(BadArguments, ExpertsThatDoNotFit) {
  DispatchArgs<GpuBlock> args{};
  args.shape = {128, 8, 9, 4, 64, 1, 0};
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("dispatch: top_k must be at least 1 and at most"));
  args.shape.top_k = 2;
  EXPECT_THAT(refusal(args, 3, 8), HasSubstr("experts must be a multiple of the ranks"));
  args.tokens = 5;
  EXPECT_THAT(refusal(args, 2, 8), HasSubstr("5 tokens, but max_tokens is 4"));
  CombineArgs<GpuBlock> back{};
  back.shape = args.shape;
  EXPECT_THAT(refusal(back, 2, 8), HasSubstr("combine: 'rows' is null"));
}

TEST(BadArguments, AllToAllOfOddRowsOrOtherGrids) {
  AllToAllArgs<GpuBlock> args{};
  args.row_bytes = 24;
  EXPECT_THAT(refusal(args, 4, 3), HasSubstr("rows of 24 bytes; a multiple of 16"));
  EXPECT_THAT(refusal(args, 4, 7), HasSubstr("7 blocks for 4 ranks"));
}

template <class Args, class Change>
std::string refusal_with(Args args, Change change) {
  change(args);
  return refusal(args, 2, 8);
}

TEST(BadArguments, AddNormOfMemoryOrSizesThatCannotBe) {
  AddNormArgs<GpuBlock> good{};
  good.input = address<Vec16>(0x10000);
  good.residual = good.new_residual = address<Vec16>(0x20000);
  good.output = address<Vec16>(0x30000);
  good.norm.weight = address<Vec16>(0x40000);
  good.rows = 4;
  good.row_vectors = 3;
  const auto with = [&](auto change) { return refusal_with(good, change); };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_EQ(with([](auto& args) { args.new_residual += 12; }), "");
  EXPECT_EQ(with([](auto& args) { args.rows = 0, args.input = nullptr; }), "");
  EXPECT_THAT(with([](auto& args) { args.new_residual += 11; }),
              HasSubstr("add_norm: 'residual' and 'new_residual' overlap"));
  EXPECT_THAT(with([](auto& args) { args.output = address<Vec16>(0x10000); }),
              HasSubstr("'input' and 'output' overlap"));
  EXPECT_THAT(with([](auto& args) { args.norm.weight = nullptr; }),
              HasSubstr("'weight' is null; 48 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.input = address<Vec16>(0x10004); }),
              HasSubstr("'input' at 0x10004 is not aligned to 16 bytes"));
  EXPECT_THAT(with([](auto& args) { args.norm.fp8_scale = address<float>(0x50000); }),
              HasSubstr("add_norm: 3 vectors a row; fp8 output needs an even number"));
  EXPECT_THAT(with([](auto& args) { args.rows = 1ull << 31; }),
              HasSubstr("2147483648 rows of 3 vectors; at most 2147483647 of each are served"));
}

TEST(BadArguments, PushGatherOfTilesOrMemoryThatCannotBe) {
  GatherArgs<GpuBlock> good{};
  auto& tiles = good.channel.producer;
  tiles.num_rows = 7;  // tiles of 2: 4 rows, and 3 of the last rank
  tiles.tile_rows = 2;
  tiles.num_tiles = 4;
  tiles.tiles_per_rank = 2;
  tiles.tiles_per_signal = 2;
  good.channel.signals = address<uint64>(0x30000);
  good.channel.epoch = address<uint64>(0x31000);
  good.greetings = address<Vec16>(0x32000);
  good.state = address<uint64>(0x33000);
  good.shard = address<uint8>(0x10000);
  good.gathered = address<uint8>(0x20000);
  good.row_bytes = 32;
  const auto with = [&](auto change) { return refusal_with(good, change); };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_THAT(with([](auto& args) { args.row_bytes = 24; }),
              HasSubstr("push_gather: rows of 24 bytes; a multiple of 16 is needed"));
  EXPECT_THAT(with([](auto& args) { args.channel.producer.tile_rows = 0; }),
              HasSubstr("producer.tile_rows is 0; at least 1 is needed"));
  EXPECT_THAT(with([](auto& args) { args.channel.producer.tile_rows = 1; }),
              HasSubstr("4 tiles of 1 rows in producer; 7 rows need 7"));
  EXPECT_THAT(with([](auto& args) { args.channel.producer.tiles_per_rank = 3; }),
              HasSubstr("4 tiles for 2 ranks with 3 each; each rank must have as many"));
  EXPECT_THAT(with([](auto& args) { args.channel.producer.tiles_per_signal = 0; }),
              HasSubstr("producer.tiles_per_signal is 0; at least 1 is needed"));
  EXPECT_THAT(with([](auto& args) { args.gathered = nullptr; }),
              HasSubstr("'gathered' is null; 224 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.shard = address<const uint8>(0x20000 + 6 * 32); }),
              HasSubstr("'shard' and 'gathered' overlap"));
  EXPECT_EQ(with([](auto& args) { args.shard = address<const uint8>(0x20000 + 7 * 32); }), "");
  EXPECT_THAT(with([](auto& args) { args.channel.signals = nullptr; }),
              HasSubstr("'signals' is null; 16 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.channel.producer.low = address<uint64>(0x40000); }),
              HasSubstr("producer.high is null; with the table low it is needed"));
  EXPECT_THAT(with([](auto& args) { args.greetings = nullptr; }),
              HasSubstr("'greetings' is null; 96 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.state = address<uint64>(0x32008); }),
              HasSubstr("'greetings' and 'state' overlap"));
}

TEST(BadArguments, SlotReduceOfTilesOrMemoryThatCannotBe) {
  SlotReduceArgs<GpuBlock> good{};
  auto& producer = good.channel.producer;
  producer.num_rows = 8;
  producer.tile_rows = 2;
  producer.num_tiles = 4;
  producer.tiles_per_signal = 1;
  good.channel.consumer = producer;
  good.channel.notifies_per_tile = 2;
  good.channel.signals = address<uint64>(0x30000);
  good.channel.epoch = address<uint64>(0x40000);
  good.greetings = address<Vec16>(0x50000);
  good.state = address<uint64>(0x60000);
  good.slots = address<Vec16>(0x10000);
  good.output = address<Vec16>(0x20000);
  good.rows = 8;
  good.row_vectors = 2;
  const auto with = [&](auto change) { return refusal_with(good, change); };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_EQ(with([](auto& args) { args.output = address<Vec16>(0x10000) + 31; }),
            "slot_reduce: 'slots' and 'output' overlap; give each memory of its own");
  EXPECT_THAT(
      with([](auto& args) { args.rows = 9; }),
      HasSubstr("slot_reduce: producer.num_rows is 8, but rows is 9; they must be the same"));
  EXPECT_THAT(with([](auto& args) { args.channel.consumer.num_tiles = 3; }),
              HasSubstr("3 tiles of 2 rows in consumer; 8 rows need 4"));
  EXPECT_THAT(with([](auto& args) { args.channel.notifies_per_tile = 0; }),
              HasSubstr("notifies_per_tile is 0, for which nobody waits; 2 ranks send each tile"));
  EXPECT_THAT(with([](auto& args) { args.channel.epoch = nullptr; }),
              HasSubstr("'epoch' is null; 8 bytes are needed"));
  EXPECT_THAT(with([](auto& args) { args.channel.signals = address<uint64>(0x30004); }),
              HasSubstr("'signals' at 0x30004 is not aligned to 8 bytes"));
  EXPECT_THAT(with([](auto& args) {
                args.channel.producer.low = args.channel.producer.high = address<uint64>(0x50000);
              }),
              HasSubstr("producer.tiles_of_signal is null; with the table low it is needed"));
  EXPECT_THAT(with([](auto& args) { args.state = nullptr; }),
              HasSubstr("'state' is null; 128 bytes are needed"));
}

// Dispatch with what `change` makes of one rank's shape, or with that rank absent.
template <class Change>
void one_dispatch(World& world, Change change) {
  const auto num = static_cast<uint32>(world.shape().ranks);
  const ExpertShape shape{16, 2 * num, 2, 4, 64, 1, 0};
  const ExpertMemory memory(world, shape);
  auto tokens = world.local<uint32>("tokens", 1, 2);
  auto input = world.local<Vec16>("input", 16, Vec16{});
  auto ids = world.local<int32>("ids", 16, 0);
  auto weights = world.local<float>("weights", 16, 1.0f);
  world.launch([=](Block& block) {
    auto args = memory.dispatch_args(block.rank(), tokens, input, ids, weights);
    if (block.rank() == 1) change(args.shape);
    dispatch(block, args);
  });
  world.run();
}

const Shape kExpertShape{
    .ranks = 2, .blocks = 2, .threads = 4, .warp_size = 4, .shared_bytes = 4096};

TEST(BadArguments, RanksThatDispatchOtherwiseAreNamed) {
  const auto differs = [](uint32 ExpertShape::*field, uint32 value) {
    return expect_found(FindingKind::kDisagreement, kExpertShape,
                        [=](World& world) {
                          one_dispatch(world, [=](ExpertShape& shape) { shape.*field = value; });
                        })
        .finding.message;
  };
  EXPECT_THAT(differs(&ExpertShape::hidden, 8), HasSubstr("hidden = "));
  EXPECT_THAT(differs(&ExpertShape::top_k, 1), HasSubstr("top_k = "));
  EXPECT_THAT(differs(&ExpertShape::max_tokens, 3), HasSubstr("max_tokens = "));
}

TEST(BadArguments, DispatchLeavesWhenARankIsAbsent) {
  expect_clean(kExpertShape, [](World& world) {
    world.make_absent(1);
    one_dispatch(world, [](ExpertShape&) {});
    if (!world.finding()) world.expect(world.num_expired() > 0, "nobody noticed");
  });
}

// Rank 1 calls for fp32 instead of bf16, or for the other number of shots.
TEST(BadArguments, RanksThatReduceInOtherFormatsAreNamed) {
  using Kernel = void (*)(Block&, const AllReduceArgs<Block>&);
  const std::pair<Kernel, Kernel> kernels[] = {
      {all_reduce_one_shot<Bf16x8, Block>, all_reduce_one_shot<Fp32x4, Block>},
      {all_reduce_two_shot<Bf16x8, Block>, all_reduce_two_shot<Fp32x4, Block>},
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
    const bool formats = other != kernels[2].second;
    EXPECT_THAT(failure.finding.message, HasSubstr(formats ? "element_bytes = " : "shots = "));
  }
}

// A call of a norm kernel that rank 1 makes with other arguments; memory suits both.
template <class Change>
std::string found_in_norm(NormKernel how, Change change) {
  return expect_found(FindingKind::kDisagreement, {.ranks = 2, .blocks = 1, .threads = 2},
                      [=](World& world) { one_norm(world, how, change); })
      .finding.message;
}

TEST(BadArguments, RanksThatNormOtherwiseAreNamed) {
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

// Names the argument with both values and rank 1, whoever finds it.
auto names(const char* argument, int usual, int of_rank_1) {
  return testing::AnyOf(
      testing::AllOf(HasSubstr(fmt::format("rank 1 calls with {} = {}, rank", argument, of_rank_1)),
                     HasSubstr(fmt::format(" with {}\n", usual))),
      HasSubstr(fmt::format(" calls with {} = {}, rank 1 with {}\n", argument, usual, of_rank_1)));
}

TEST(BadArguments, RanksThatGatherOtherwiseAreNamed) {
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

TEST(BadArguments, RanksThatReduceSlotsOtherwiseAreNamed) {
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
              names("element_bytes", 2, 4));
}

TEST(BadArguments, MoversLeaveWhenARankIsAbsent) {
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

TEST(BadArguments, NormsLeaveWhenARankIsAbsent) {
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

TEST(BadArguments, AllToAllsOfOtherRowsAreNamed) {
  const Failure failure =
      expect_found(FindingKind::kDisagreement, {.ranks = 2, .blocks = 1}, [](World& world) {
        auto bytes = world.symmetric<uint8>("slots", 512);
        auto tokens = world.local<uint8>("tokens", 64, 0);
        auto scales = world.symmetric<float>("scale_slots", 64);
        auto own_scales = world.local<float>("scales", 16, 1.0f);
        auto offsets = world.local<uint32>("offsets", 3, 0);
        auto signals = world.symmetric<uint64>("signals", 4, 0);
        auto shapes = world.symmetric<uint64>("shapes", 4, 0);
        auto calls = world.local<uint64>("calls", 2, 0);
        auto received = world.local<uint32>("received", 4, 0);
        auto refused = world.local<uint32>("refused", 1, 0);
        world.launch(1, 4, [=](Block& block) {
          const int r = block.rank();
          all_to_all(block, AllToAllArgs<Block>{tokens.at(r), own_scales.at(r), offsets.at(r),
                                                r == 0 ? 16u : 32u, 1, 2, bytes.at(r), scales.at(r),
                                                signals.at(r), shapes.at(r), calls.at(r),
                                                received.at(r), refused.at(r)});
        });
        world.run();
      });
  EXPECT_THAT(failure.finding.message, HasSubstr("row_bytes = "));
}

}  // namespace
}  // namespace stretto::fibre
