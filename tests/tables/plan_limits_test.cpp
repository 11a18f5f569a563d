// Which plans the CUDA target takes.
#include "tables/plan_limits.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/plan_fixture.h"
#include "launch/rank_program.h"
#include "launch/tile_sums.h"
#include "stretto/error.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kActivationAlone = R"(stretto-plan 1
operator gemm-rs m=4 n=8 k=16 ranks=1 dtype=bf16
sms 2
buffer x bf16 4x8 local
buffer out bf16 4x8 output
lane 0 compute 0
  silu x[0:4,0:8] -> out[0:4,0:8]
  norm eps=1e-06 x[0:4,0:8] x[0:1,0:8] -> out[0:4,0:8]
end
)";

TEST(PlanLimits, ActivationsAreAMoversAlone) {
  Plan plan = parse_plan(kActivationAlone);
  EXPECT_THAT(why_not_on_cuda(plan), IsEmpty());
  plan.library_gemms = true;
  EXPECT_THAT(why_not_on_cuda(plan), IsEmpty());
}

TEST(PlanLimits, WhatAMoverReadsIsOfOneType) {
  std::string text = kActivationAlone;
  text.insert(text.find("buffer out"), "buffer wide fp32 4x8 local\n");
  text.insert(text.find("  norm"), "  swiglu x[0:4,0:8] wide[0:4,0:8] -> out[0:4,0:8]\n");
  const Plan plan = parse_plan(text);
  const std::vector<PlanLimit> limits = limits_on_cuda(plan, TileSums(plan));
  ASSERT_EQ(limits.size(), 1u);
  EXPECT_EQ(limits[0].reason, "a mover reads one type and writes one type");
  EXPECT_EQ(limits[0].where, (InstrRef{0, 1}));
}

TEST(PlanLimits, RowsThatNoTaskNormsAreRefused) {
  std::string text = kActivationAlone;
  text.replace(text.find("  silu"), text.find("  norm") - text.find("  silu"), "");
  EXPECT_THAT(why_not_on_cuda(parse_plan(text)), IsEmpty());
  for (size_t at = text.find("4x8 "); at != std::string::npos; at = text.find("4x8 ", at)) {
    text.replace(at, 4, "4x9 ");
  }
  for (size_t at = text.find("0:8]"); at != std::string::npos; at = text.find("0:8]", at)) {
    text.replace(at, 4, "0:9]");
  }
  EXPECT_THAT(why_not_on_cuda(parse_plan(text)),
              ElementsAre("rows of 9 columns cannot be normed: take a multiple of 8"));
}

TEST(PlanLimits, RowsAreRestoredOfTilesThatAKernelFinds) {
  const auto limits = [](std::string_view tiles) {
    return why_not_on_cuda(parse_plan(fmt::format(R"(stretto-plan 2
operator gemm-rs m=4 n=8 k=16 ranks=1 dtype=bf16
sms 2
buffer packed bf16 64x64 local
buffer y bf16 4x120 local
buffer wide fp32 64x64 local
buffer out bf16 4x8 output
lane 0 compute 0
  restore {} -> y[0:4,0:120]
end
)",
                                                  tiles)));
  };
  EXPECT_THAT(limits("packed[0:4,0:64] packed[8:12,0:56]"), IsEmpty());
  EXPECT_THAT(limits("packed[0:4,0:60] packed[8:12,0:60]"),
              ElementsAre("rows are restored from tiles of multiples of 8 columns: take such a "
                          "tile"));
  EXPECT_THAT(limits("packed[0:4,0:56] packed[8:12,0:64]"),
              ElementsAre("rows are restored from tiles of one width, at most 65535, but for the "
                          "last, which may have less"));
  EXPECT_THAT(limits("packed[0:4,0:64] wide[8:12,0:56]"),
              ElementsAre("a mover reads one type and writes one type"));
}

TEST(PlanLimits, MoreMatricesThanAKernelNumbersAreRefused) {
  constexpr int kRanks = 1000, kBuffers = 66, kAtOnce = 200;
  std::string text = fmt::format(R"(stretto-plan 1
operator gemm-rs m=64000 n=64 k=64000 ranks={} dtype=bf16
sms 132
buffer a bf16 64000x64 input
buffer b bf16 64x64 input
buffer out bf16 64x64 output sharded=64000
)",
                                 kRanks);
  for (int i = 0; i < kBuffers; ++i) text += fmt::format("buffer s{} bf16 64x64 symmetric\n", i);
  text += "lane 0 compute 0\n";
  for (int first = 0; first < kBuffers * kRanks; first += kAtOnce) {
    text += fmt::format("  gemm #{} a[0:64,0:64] b[0:64,0:64] ->", first / kAtOnce);
    for (int i = first; i < first + kAtOnce; ++i) {
      text += fmt::format(" s{}@{}[0:64,0:64]", i / kRanks, i % kRanks);
    }
    text += "\n";
  }
  const Plan plan = parse_plan(text + "end\n");
  const auto programs = programs_of(plan);
  try {
    tables_for(plan, 0, programs[0], places_of(plan), SignalLayout(plan, programs, true));
    FAIL() << "fits";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("more than 65535 matrices; fewer buffers or"));
  }
}

TEST(PlanLimits, PlansMayHaveNoTiles) {
  const Plan plan = parse_plan(R"(stretto-plan 1
operator ag-gemm m=128 n=64 k=128 ranks=2 dtype=bf16
sms 132
buffer a bf16 64x128 input sharded=128
buffer b bf16 32x128 input
buffer out bf16 128x32 output
buffer ag bf16 128x128 symmetric
lane 0 comm 0
  copy a[0:64,0:128] -> ag@1[0:64,0:128]
end
)");
  EXPECT_THAT(why_not_on_cuda(plan), IsEmpty());
  const auto programs = programs_of(plan);
  const RankTables tables =
      tables_for(plan, 0, programs[0], places_of(plan), SignalLayout(plan, programs, true));
  EXPECT_TRUE(tables.gemms.empty());
  EXPECT_EQ(tables.moves.size(), 1u);
}

TEST(PlanLimits, OtherArchitecturesAreRefusedBeforeTheirKernelsFailToCompile) {
  EXPECT_EQ(why_not_on_arch("sm_90a"), "");
  EXPECT_EQ(why_not_on_arch("sm_80"), "plans run on Hopper GPUs (sm_90a); this one is sm_80");
}

// The kernel adds 15 sums to a tile at most. Ranks that share GPUs can be more than that in a node.
TEST(PlanLimits, SumsOfAnyNumberOfRanksAreTaken) {
  for (const int ranks : {16, 17, 24, 64}) {
    Machine machine = default_machine(8);
    machine.ranks_per_node = ranks;
    machine.sms = 16;
    for (const char* kind : {"gemm-rs", "gemm-ar"}) {
      for (const int m : {37, 64 * ranks, 256 * ranks + 5}) {
        const Segment op = parse_segment(
            fmt::format("{} m={} n=512 k={} ranks={} dtype=bf16", kind, m, 64 * ranks, ranks));
        for (const char* schedule : {"tiles,comm-sms=0", "tiles,comm-sms=0,mover=copy-engine"}) {
          const Plan plan = lower(op, parse_schedule(schedule, op, machine), machine);
          EXPECT_THAT(why_not_on_cuda(plan), IsEmpty()) << to_string(op) << " " << schedule;
          EXPECT_LE(TileSums(plan).needs().front().adds, ranks == 16 ? 15 : 0);
          const bool adds = ranks == 16 && schedule == std::string("tiles,comm-sms=0");
          if (adds) {
            EXPECT_EQ(TileSums(plan).needs().front().adds, 15) << to_string(op);
          }
        }
      }
    }
  }
}

// Declared by one line: nothing may be sized by them before they are refused.
TEST(PlanLimits, ManyCountersAreRefusedWithoutMemoryForThem) {
  const Plan plan = parse_plan(R"(stretto-plan 1
operator gemm-rs m=64000 n=64 k=64000 ranks=1000 dtype=bf16
sms 132
buffer a bf16 64000x64 input
buffer b bf16 64x64 input
buffer out bf16 64x64 output sharded=64000
signals many 2000000000 copies=2
lane 0 compute 0
  gemm #0 a[0:64,0:64] b[0:64,0:64] -> out[0:64,0:64]
end
)");
  EXPECT_THAT(
      why_not_on_cuda(plan),
      testing::Contains("the signals of all ranks have 4000000000000 counters, GPUs at most "
                        "67108864: take larger tiles or fewer ranks"));
}

// Of a tile beside these buffers, which nothing uses.
std::vector<std::string> reasons_beside(const std::string& buffers) {
  return why_not_on_cuda(parse_plan(fmt::format(R"(stretto-plan 1
operator ag-gemm m=64 n=64 k=64 ranks=1 dtype=bf16
sms 132
buffer a bf16 64x64 input
buffer b bf16 64x64 input
buffer out bf16 64x64 output
{}lane 0 compute 0
  gemm #0 a[0:64,0:64] b[0:64,0:64] -> out[0:64,0:64]
end
)",
                                                buffers)));
}

TEST(PlanLimits, BuffersWhoseBytesNobodyCouldCountAreRefused) {
  const auto reasons = [](const std::string& size) {
    return reasons_beside(fmt::format("buffer huge {}\n", size));
  };
  EXPECT_THAT(reasons("bf16 1000000x200000000 symmetric copies=2"), IsEmpty());
  // As 64-bit numbers they would overflow.
  EXPECT_THAT(reasons("fp32 2147483647x2147483647 symmetric copies=2"),
              ElementsAre(testing::HasSubstr("take 3.7e+19 bytes, GPUs have at most 1e+15")));
}

// 251 * 241 * 239 * 233 * 229 runs are more than an int counts.
TEST(PlanLimits, CopiesThatNeverComeTogetherAreRefused) {
  const auto reasons = [](const std::vector<int>& copies) {
    std::string buffers;
    for (const int count : copies) {
      buffers += fmt::format("buffer s{} bf16 64x64 symmetric copies={}\n", buffers.size(), count);
    }
    return reasons_beside(buffers);
  };
  EXPECT_THAT(reasons({255, 85, 51}), IsEmpty());
  EXPECT_THAT(reasons({2, 128}), IsEmpty());
  for (const auto& copies : {std::vector{128, 3}, std::vector{251, 241, 239, 233, 229}}) {
    EXPECT_THAT(reasons(copies), ElementsAre(testing::HasSubstr("after more than 255 runs: take")));
  }
}

}  // namespace
}  // namespace stretto::cuda
