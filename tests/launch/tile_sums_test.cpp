// Which sums the GEMM kernel adds itself.
#include "launch/tile_sums.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan_fixture.h"

namespace stretto::cuda {
namespace {

// Rank 0's tile #0 lies in rows [0, 64) of its slots, rank 1's sum for it in the 64 rows below.
Plan tile_sum_plan(const std::string& slots, const std::string& second, const std::string& after) {
  return parse_plan(fmt::format(R"(stretto-plan 1
operator gemm-rs m=128 n=64 k=256 ranks=2 dtype=bf16
sms 132
buffer a bf16 128x128 input
buffer b bf16 64x128 input
buffer slots bf16 {}
buffer copied bf16 64x64 local
buffer out bf16 64x64 output sharded=128
signals slots 1 copies=2
signals read 1
lane 0 compute 0
  gemm #0 a[0:64,0:128] b[0:64,0:128] -> slots[0:64,0:64]
  wait slots.0 >= 1
  reduce #0 slots[0:64,0:64] slots[{},0:64] -> out[0:64,0:64]
  notify read.0@0 += 1
lane 0 comm 0
  wait read.0 >= 1
  copy {} -> copied[0:64,0:64]
end
)",
                                slots, second, after));
}

int adds(const Plan& plan) {
  return TileSums(plan).of(0, 0) ? TileSums(plan).needs().front().adds : 0;
}

TEST(TileSums, TilesThatNothingElseReadsAreAddedInTheKernel) {
  const char* slots = "128x64 symmetric copies=2";
  EXPECT_EQ(adds(tile_sum_plan(slots, "64:128", "a[0:64,0:64]")), 1);
  EXPECT_EQ(adds(tile_sum_plan(slots, "64:128", "slots[64:128,0:64]")), 1);
}

TEST(TileSums, TilesThatSomethingElseReadsAreStoredAndLeftToAMover) {
  const char* slots = "192x64 symmetric copies=2";
  const Plan whole = tile_sum_plan(slots, "64:128", "slots[0:64,0:64]");
  EXPECT_EQ(adds(whole), 0);
  EXPECT_EQ(config_of(whole).adds, 0);
  EXPECT_EQ(text(whole, programs_of(whole)[0]), "1:move 1 0:gemm 0 0:move 0");
  // The last row of the tile alone.
  EXPECT_EQ(adds(tile_sum_plan(slots, "64:128", "slots[63:127,0:64]")), 0);
  EXPECT_EQ(adds(tile_sum_plan(slots, "64:128", "slots[64:128,0:64]")), 1);
  // The caller would find nothing.
  EXPECT_EQ(adds(tile_sum_plan("128x64 output copies=2", "64:128", "a[0:64,0:64]")), 0);
}

TEST(TileSums, SourcesThatShareRowsWithTheTileAreLeftToAMover) {
  EXPECT_EQ(adds(tile_sum_plan("192x64 symmetric copies=2", "32:96", "a[0:64,0:64]")), 0);
}

}  // namespace
}  // namespace stretto::cuda
