// What splitting K is predicted to bring: much where few tiles leave SMs idle, nothing where tiles
// fill them.
#include <gtest/gtest.h>

#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

double total_us(const Segment& op, const std::string& schedule) {
  const Machine machine = default_machine(op.ranks);
  const Simulation simulation =
      simulate(lower(op, parse_schedule(schedule, op, machine), machine), machine);
  EXPECT_GE(simulation.total_us, simulation.compute_us * (1 - 1e-9));
  EXPECT_GT(simulation.communication_us, 0);
  return simulation.total_us;
}

TEST(SplitK, FewTilesWithALongKGain) {
  const Segment gather{kAgGemm, 512, 10240, 8192, 8, DType::bf16};  // 40 tiles a rank
  EXPECT_LT(total_us(gather, "tiles,tile=128x128,comm-sms=8,split-k=3"),
            0.75 * total_us(gather, "tiles,tile=128x128,comm-sms=8"));
  const Segment scatter{kGemmRs, 1024, 1024, 65536, 8, DType::bf16};  // 64 tiles
  EXPECT_LT(total_us(scatter, "tiles,tile=128x128,comm-sms=0,split-k=2"),
            0.85 * total_us(scatter, "tiles,tile=128x128,comm-sms=0"));
  const Segment reduce{kGemmAr, 128, 4096, 65536, 8, DType::bf16};  // 32 tiles
  EXPECT_LT(total_us(reduce, "tiles,tile=128x128,comm-sms=0,split-k=4"),
            0.85 * total_us(reduce, "tiles,tile=128x128,comm-sms=0"));
}

TEST(SplitK, TilesThatFillTheSmsDoNot) {
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
    const Segment op{kind, 4096, kind == kAgGemm ? 16896 * 2 : 8448, 4096, 8, DType::bf16};
    EXPECT_GT(total_us(op, "tiles,tile=128x256,split-k=2"), total_us(op, "tiles,tile=128x256"));
  }
}

TEST(SplitK, EveryRangeMoreIsStoredAndAdded) {
  const Segment op{kGemmRs, 128, 128, 4096, 2, DType::bf16};  // one tile, 32 steps
  const auto compute_us = [&](int splits) {
    const Machine machine = default_machine(2);
    return simulate(lower(op,
                          parse_schedule(
                              "tiles,tile=128x128,comm-sms=0,split-k=" + std::to_string(splits), op,
                              machine),
                          machine),
                    machine)
        .total_us;
  };
  // Two steps a range hide less than the sums cost.
  EXPECT_GT(compute_us(16), compute_us(4));
}

}  // namespace
}  // namespace stretto
