// Rows that the lanes of tiles take behind these, where the schedule says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lower/plan_of_operator.h"

namespace stretto {
namespace {

constexpr const char* kOp = "gemm-ar-norm m=512 n=512 k=256 ranks=2 dtype=bf16";
const std::string kTiles = "tiles,tile=64x64,mover=epilogue,granularity=tile,comm-sms=0,sync=flag";

// Of the norms of a rank's lanes, in the order of these: rows.
std::vector<std::vector<Region>> normed(const Plan& plan, int rank) {
  std::vector<std::vector<Region>> rows;
  for (const Lane& lane : plan.lanes) {
    if (lane.rank != rank || lane.kind != LaneKind::compute) continue;
    rows.emplace_back();
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::norm) rows.back().push_back(plan.writes(instr)[0]);
    }
  }
  return rows;
}

bool any(const Plan& plan, Opcode op) {
  return std::any_of(plan.lanes.begin(), plan.lanes.end(), [&](const Lane& lane) {
    return std::any_of(lane.instrs.begin(), lane.instrs.end(),
                       [&](const Instr& instr) { return instr.op == op; });
  });
}

TEST(RowsInTurn, AreEachNormedOnceWithoutABoundary) {
  for (const char* reduction : {"two-shot", "one-shot"}) {
    const Plan plan =
        plan_of_operator(kOp, kTiles + ",reduction=" + reduction + "/out:mover=epilogue");
    EXPECT_FALSE(any(plan, Opcode::boundary));
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<int> times(512, 0);
      for (const auto& lane : normed(plan, rank)) {
        for (const Region& rows : lane) {
          EXPECT_EQ(rows.row0 / 64, (rows.row1 - 1) / 64) << "of one row of tiles";
          for (int32_t row = rows.row0; row < rows.row1; ++row) ++times[static_cast<size_t>(row)];
        }
      }
      EXPECT_THAT(times, testing::Each(1));
    }
  }
  EXPECT_TRUE(any(plan_of_operator(kOp, kTiles), Opcode::boundary));
}

// Of 64 tiles of 64 x 64 that 40 lanes compute row by row, the first wave makes five of eight rows
// of tiles.
TEST(RowsInTurn, OfEarlierWavesComeFirst) {
  Machine machine = default_machine(2);
  machine.sms = 40;
  const Operator op = parse_operator(kOp);
  const Plan plan = lower(op,
                          parse_schedules(kTiles + ",reduction=one-shot,order=plain,swizzle=1/"
                                                   "out:mover=epilogue",
                                          op, machine),
                          machine);
  for (const auto& lane : normed(plan, 0)) {
    ASSERT_GE(lane.size(), 2u);
    EXPECT_LT(lane.front().row0, 5 * 64);
    EXPECT_GE(lane.back().row0, 5 * 64);
  }
}

// In one shot who norms rows adds them up: nothing else reads the slots.
TEST(RowsInTurn, SumWhatAllRanksHaveMadeInOneShot) {
  const Plan plan = plan_of_operator(kOp, kTiles + ",reduction=one-shot/out:mover=epilogue");
  for (const Lane& lane : plan.lanes) {
    for (size_t i = 0; i < lane.instrs.size(); ++i) {
      if (lane.instrs[i].op != Opcode::reduce) continue;
      EXPECT_EQ(lane.instrs[i].num_reads, 3) << "both ranks' terms and the residual";
      ASSERT_LT(i + 1, lane.instrs.size());
      EXPECT_EQ(lane.instrs[i + 1].op, Opcode::norm);
      EXPECT_TRUE(lane.instrs[i + 1].fused);
    }
  }
}

}  // namespace
}  // namespace stretto
