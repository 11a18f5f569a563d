#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/cases.h"
#include "schedule/default_tile.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Presets, AreLegalForEveryOperatorRankCountAndShape) {
  for (const Preset& preset : presets()) {
    for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
      for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
        for (const int ranks : {1, 2, 3, 8, 16}) {
          for (const int64_t m : {1, 5, 100, 8192}) {
            const Segment op{kind, m, int64_t{48} * ranks, int64_t{16} * ranks, ranks, dtype};
            const Machine machine = machine_of(2);
            EXPECT_THAT(legal(op, preset.make(op, machine), machine), IsEmpty())
                << preset.name << " " << to_string(op);
          }
        }
      }
    }
  }
}

TEST(Presets, TextsOfGemmRs) {
  const auto text = [](std::string_view preset) {
    return to_string(find_preset(preset).make(gemm_rs(), machine_of()));
  };
  EXPECT_EQ(text("sequential"),
            "granularity=whole,order=plain,mover=nccl,sync=event,reduction=nccl,reuse=double,"
            "partials=bf16,tile=128x64,swizzle=8,chunks=1,groups=auto,comm-sms=0");
  EXPECT_EQ(text("library"), text("sequential") + ",gemm=library");
  EXPECT_EQ(text("low-latency"), text("library") + ",collectives=low-latency");
  EXPECT_EQ(text("two-chunk"),
            "granularity=chunk,order=plain,mover=nccl,sync=event,reduction=nccl,reuse=double,"
            "partials=bf16,tile=128x128,swizzle=8,chunks=2,groups=auto,comm-sms=16");
  EXPECT_EQ(text("decomposed"),
            "granularity=chunk,order=peer-staggered,mover=copy-engine,sync=event,reduction=slots,"
            "reuse=ack,partials=bf16,tile=128x64,swizzle=8,chunks=1,groups=auto,comm-sms=0");
  EXPECT_EQ(text("waves"),
            "granularity=waves,order=plain,mover=nccl,sync=counter,reduction=nccl,reuse=double,"
            "partials=bf16,tile=128x128,swizzle=8,chunks=1,groups=auto,comm-sms=16");
  EXPECT_EQ(text("tiles"),
            "granularity=tile,order=interleaved,mover=epilogue,sync=flag,reduction=slots,"
            "reuse=double,partials=bf16,tile=128x64,swizzle=8,chunks=1,groups=auto,comm-sms=0");
  EXPECT_EQ(text("slices"),
            "granularity=slice,order=peer-staggered,mover=epilogue,sync=counter,reduction=slots,"
            "reuse=double,partials=bf16,tile=128x128,swizzle=8,chunks=1,groups=auto,comm-sms=8");
}

// Elsewhere cuBLAS multiplies.
TEST(Presets, FewRowsAreOfDenseProducts) {
  const auto gemm = [](Segment op, int64_t m) {
    op.m = m;
    const Schedule made = find_preset("few-rows").make(op, machine_of());
    EXPECT_THAT(legal(op, made, machine_of()), IsEmpty()) << to_string(op);
    Schedule same = find_preset("low-latency").make(op, machine_of());
    same.gemm = made.gemm;
    EXPECT_EQ(made, same);
    return made.gemm;
  };
  EXPECT_EQ(gemm(gemm_rs(), 512), GemmBy::few_rows);
  EXPECT_EQ(gemm(gemm_rs(), 2048), GemmBy::few_rows);
  EXPECT_EQ(gemm(gemm_rs(), 2049), GemmBy::library);
  EXPECT_EQ(gemm(ag_gemm(), 513), GemmBy::library);
  Segment wide = gemm_rs();
  wide.n = 12288;
  EXPECT_EQ(gemm(wide, 333), GemmBy::few_rows);  // two rounds of tiles, sent beside the next
  EXPECT_EQ(gemm(wide, 128), GemmBy::few_rows);
  wide = ag_gemm();
  wide.n = 12288 * wide.ranks;
  EXPECT_EQ(gemm(wide, 333), GemmBy::library);  // which are sent to nobody
  EXPECT_EQ(gemm(gemm_ar(4), 100), GemmBy::few_rows);
  EXPECT_EQ(gemm(gemm_rs(1), 64), GemmBy::few_rows);
  EXPECT_EQ(gemm(ag_gemm(), 64), GemmBy::few_rows);
  Segment gated = ag_gemm();
  gated.weights = 2;
  EXPECT_EQ(gemm(gated, 128), GemmBy::few_rows);
  EXPECT_EQ(gemm(gated, 129), GemmBy::library);
  Segment fp32 = gemm_rs();
  fp32.dtype = DType::fp32;
  EXPECT_EQ(gemm(fp32, 64), GemmBy::library);
}

TEST(Presets, FollowTheOperator) {
  const Schedule ag = find_preset("tiles").make(ag_gemm(), machine_of());
  EXPECT_EQ(ag.order, Order::arrival);
  EXPECT_EQ(ag.mover, Mover::comm_blocks);
  EXPECT_EQ(ag.reduction, Reduction::none);
  const Schedule ar = find_preset("tiles").make(gemm_ar(), machine_of());
  EXPECT_EQ(ar.reduction, Reduction::two_shot);
  Segment fp16 = gemm_rs();
  fp16.dtype = DType::fp16;
  EXPECT_EQ(find_preset("tiles").make(fp16, machine_of()).partials, DType::fp16);
}

// In the order of arrival all of B is read for every row of tiles, where that row is half a wave.
// No matter whether one weight has the columns, or two of a gate.
TEST(Presets, SweepWideGathersFromTheRanksOwnRows) {
  const auto order = [](int64_t m, int64_t n, int64_t k, int weights = 1) {
    Segment op = ag_gemm(2);
    op.m = m;
    op.n = n;
    op.k = k;
    op.weights = weights;
    const Machine machine = default_machine(op.ranks);
    const Schedule tiles = find_preset("tiles").make(op, machine);
    EXPECT_TRUE(legal(op, tiles, machine).empty()) << to_string(op);
    return tiles.order;
  };
  EXPECT_EQ(order(2048, 57344, 8192), Order::own_first);
  EXPECT_EQ(order(1501, 51200, 5120), Order::own_first);
  EXPECT_EQ(order(2048, 28672, 8192, 2), Order::own_first);
  EXPECT_EQ(order(2048, 28672, 8192), Order::own_first);
  EXPECT_EQ(order(2048, 26624, 8192), Order::arrival) << "a wave has more than two rows of tiles";
  EXPECT_EQ(order(130, 57344, 8192), Order::arrival) << "own rows are over soon";
  EXPECT_EQ(order(2048, 57344, 512), Order::arrival) << "the cache holds B";
}

// Picking rows while they are loaded costs a share of the product, a pass costs what they have.
TEST(Presets, BeginWithTheRanksColumnsBehindAnAllToAll) {
  const auto phases = [](const Segment& op) {
    const Machine machine = default_machine(op.ranks);
    const Schedule tiles = find_preset("tiles").make(op, machine);
    EXPECT_TRUE(legal(op, tiles, machine).empty()) << to_string(op);
    return tiles.k_phases;
  };
  Segment op = a2a_gemm(4);
  EXPECT_EQ(phases(op), 4);
  EXPECT_EQ(phases(gemm_a2a(4)), 1);
  EXPECT_EQ(phases(a2a_gemm(1)), 1);
  op.k = 4 * 96;
  EXPECT_EQ(phases(op), 1) << "no whole steps";
  op = a2a_gemm(4);
  op.weights = 2;
  EXPECT_EQ(phases(op), 1) << "two products side by side";
}

TEST(Presets, PermuteRowsWhereExpertsHaveManyAndAreWide) {
  Machine machine = machine_of();
  machine.gemm_tflops = 700;
  machine.hbm_gb_per_s = 4000;
  const auto permute = [&](int64_t tokens, int64_t inner) {
    const Sizes sizes = {{"t", tokens}, {"h", 4096}, {"f", inner}, {"experts", 64}, {"k", 8}};
    const Operator op = make_operator("moe-ep", sizes, 8);
    std::vector<Permute> all;
    for (const char* name : {"sequential", "tiles"}) {
      all.push_back(schedule_of(find_preset(name), op, machine).products[0].permute);
    }
    return all;
  };
  EXPECT_THAT(permute(8192, 2048), testing::Each(Permute::pass));
  // The kernel of experts picks rows for less.
  const auto by_library = [&](int64_t inner) {
    const Sizes sizes = {{"t", 8192}, {"h", 4096}, {"f", inner}, {"experts", 64}, {"k", 8}};
    const Operator op = make_operator("moe-ep", sizes, 8);
    return schedule_of(find_preset("library"), op, machine).products[0].permute;
  };
  EXPECT_EQ(by_library(1024), Permute::load);
  EXPECT_EQ(by_library(4096), Permute::pass);
  // Also of few tiles: narrow ones, but by four warps.
  const auto few = [&](int64_t tokens) {
    const Sizes sizes = {{"t", tokens}, {"h", 4096}, {"f", 3584}, {"experts", 8}, {"k", 2}};
    const Operator op = make_operator("moe-tp", sizes, 2);
    return schedule_of(find_preset("library"), op, machine).products[0].permute;
  };
  EXPECT_EQ(few(1024), Permute::load);
  EXPECT_EQ(few(8192), Permute::load);
  EXPECT_THAT(permute(8192, 512), testing::Each(Permute::load));
  EXPECT_THAT(permute(1024, 2048), testing::Each(Permute::load));
}

// Few rows a few at a time; many source by source, of which an expert's rows fill entries.
TEST(Presets, MoveFewRowsOtherwiseThanMany) {
  const Machine machine = default_machine(8);
  const auto schedule = [&](const char* name, int64_t tokens) {
    const Operator op = make_operator("dispatch-combine",
                                      {{"t", tokens}, {"h", 7168}, {"experts", 256}, {"k", 8}}, 8);
    const OperatorSchedule made = schedule_of(find_preset(name), op, machine);
    EXPECT_THAT(legal(op, made, machine), testing::IsEmpty()) << name;
    return made.products[0];
  };
  EXPECT_EQ(schedule("low-latency", 1024).collectives, CollectivesBy::low_latency);
  EXPECT_EQ(schedule("low-latency", 32768).collectives, CollectivesBy::nccl);
  EXPECT_EQ(schedule("low-latency", 32768).tile_m, 16);
  EXPECT_EQ(schedule("low-latency", 32768).granularity, Granularity::whole);
  EXPECT_EQ(schedule("tiles", 1024).granularity, Granularity::whole);
  EXPECT_EQ(schedule("tiles", 32768).granularity, Granularity::chunk);
  EXPECT_EQ(schedule("sequential", 1024).permute, Permute::pass);
}

TEST(Presets, AcrossNodesWhatCrossesGoesFirst) {
  EXPECT_EQ(find_preset("tiles").make(gemm_rs(8), machine_of(2)).order, Order::interleaved);
  EXPECT_EQ(find_preset("tiles").make(gemm_rs(16), machine_of(2)).order, Order::node_then_local);
}

TEST(Presets, AcrossNodesCollectivesAreOfNccl) {
  const auto by = [](int ranks) {
    return find_preset("low-latency").make(gemm_rs(ranks), machine_of(2)).collectives;
  };
  EXPECT_EQ(by(8), CollectivesBy::low_latency);
  EXPECT_EQ(by(16), CollectivesBy::nccl);
}

TEST(Presets, UnknownNamesAreAnswered) {
  try {
    find_preset("slice");
    FAIL() << "not refused";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'slices'?"));
    EXPECT_THAT(
        error.what(),
        HasSubstr("sequential, library, low-latency, few-rows, two-chunk, decomposed, waves, "
                  "tiles, slices"));
  }
}

TEST(Presets, NamesAreTextsThatCannotBeMistakenForCoordinates) {
  for (const Preset& preset : presets()) {
    EXPECT_EQ(preset.name.find_first_of("=, "), std::string_view::npos);
    EXPECT_FALSE(preset.idea.empty() || preset.source.empty() || preset.stands_for.empty());
  }
}

TEST(DefaultTile, ShrinksUntilTilesFillTheSms) {
  const auto tile = [](int64_t m, int64_t n, int ranks, int sms = 132) {
    return default_tile({kGemmRs, m, n, 4096, ranks, DType::bf16}, sms);
  };
  EXPECT_EQ(tile(8192, 8192, 8), (TileShape{128, 256}));
  EXPECT_EQ(tile(4096, 2048, 8), (TileShape{128, 256}));
  EXPECT_EQ(tile(2048, 2048, 8), (TileShape{128, 128}));
  EXPECT_EQ(tile(1024, 1024, 8), (TileShape{64, 64}));
}

TEST(DefaultTile, IsNeverFarLargerThanTheProblem) {
  const auto tile = [](int64_t m, int64_t n) {
    return default_tile({kGemmRs, m, n, 4096, 1, DType::bf16}, 132);
  };
  EXPECT_EQ(tile(1, 1), (TileShape{8, 8}));
  EXPECT_EQ(tile(37, 24), (TileShape{64, 32}));
  EXPECT_EQ(tile(1, 100000), (TileShape{8, 256}));
}

TEST(DefaultTile, DoesNotSpanManyShards) {
  const Segment op{kGemmRs, 512, 1 << 20, 4096, 8, DType::bf16};
  EXPECT_EQ(default_tile(op, 132), (TileShape{64, 256}));
}

}  // namespace
}  // namespace stretto
