// Tiles and communication SMs of the fused preset, on the measured machine.
#include "schedule/fused_point.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

FusedPoint point_of(const char* op) {
  const Segment parsed = parse_segment(op);
  return fused_point(parsed, load_machine("h200x8"), 8);
}

TEST(FusedPoint, TilesFillWaves) {
  // 16 x 32 tiles of 224 are four waves of 128 SMs; of 256 they would be three and a half.
  const FusedPoint gather = point_of("ag-gemm m=2048 n=28672 k=8192 ranks=4 dtype=bf16");
  EXPECT_EQ(gather.tile, (TileShape{128, 224}));
  EXPECT_EQ(gather.comm_sms, 4);
  const FusedPoint reduce = point_of("gemm-rs m=2048 n=8192 k=14336 ranks=4 dtype=bf16");
  EXPECT_EQ(reduce.tile, (TileShape{128, 256}));
  EXPECT_EQ(reduce.comm_sms, 0);
}

TEST(FusedPoint, WhereLinksBoundAGatherTheTileBehindItIsSmall) {
  const FusedPoint point = point_of("ag-gemm m=4096 n=5120 k=8192 ranks=4 dtype=bf16");
  EXPECT_LE(point.tile.n, 160);
  EXPECT_GT(point.comm_sms, 8);
}

TEST(FusedPoint, OneWaveOfAReductionIsCutSoThatSomeOfItsSendingIsHidden) {
  const FusedPoint point = point_of("gemm-rs m=512 n=8192 k=14336 ranks=4 dtype=bf16");
  EXPECT_LT(point.tile.n, 256);
}

TEST(FusedPoint, SmallShardsAndUnknownRatesTakeTheDefaultTile) {
  const Segment small = parse_segment("ag-gemm m=64 n=5120 k=8192 ranks=4 dtype=bf16");
  const Machine machine = load_machine("h200x8");
  EXPECT_EQ(fused_point(small, machine, 8).tile, default_tile(small, machine.sms - 8));
  const Segment large = parse_segment("ag-gemm m=4096 n=5120 k=8192 ranks=4 dtype=bf16");
  Machine unknown;
  EXPECT_EQ(fused_point(large, unknown, 8).tile, default_tile(large, unknown.sms - 8));
  EXPECT_EQ(fused_point(large, unknown, 8).comm_sms, 8);
}

}  // namespace
}  // namespace stretto
