// Which plans' runs end only after all ranks have begun them.
#include "check/meets.h"

#include <gtest/gtest.h>

#include "lower/plan_of_operator.h"

namespace stretto {
namespace {

using checker::meets_all_ranks;

TEST(Meets, WhereEachRankAwaitsEachOther) {
  for (const char* schedule : {"tiles", "slices", "decomposed", "tiles,mover=copy-engine",
                               "tiles,mover=comm-blocks,comm-sms=8,reuse=ack"}) {
    for (const char* op : {"ag-gemm m=37 n=384 k=256 ranks=3 dtype=bf16",
                           "gemm-rs m=37 n=384 k=384 ranks=3 dtype=bf16",
                           "gemm-ar m=37 n=384 k=384 ranks=3 dtype=bf16"}) {
      SCOPED_TRACE(std::string(op) + " " + schedule);
      EXPECT_TRUE(meets_all_ranks(plan_of_operator(op, schedule)));
    }
  }
}

TEST(Meets, ManyRanks) {
  EXPECT_TRUE(meets_all_ranks(
      plan_of_operator("ag-gemm m=132 n=4224 k=64 ranks=66 dtype=bf16", "decomposed")));
}

// A rank without rows has nothing that others wait for.
TEST(Meets, NotWhereARankHasNothingToSend) {
  EXPECT_FALSE(
      meets_all_ranks(plan_of_operator("ag-gemm m=2 n=384 k=256 ranks=3 dtype=bf16", "tiles")));
}

TEST(Meets, NotByCollectivesNorAcknowledgementsOfTheRunBefore) {
  const char* op = "ag-gemm m=384 n=384 k=256 ranks=3 dtype=bf16";
  EXPECT_FALSE(meets_all_ranks(plan_of_operator(op, "sequential")));
  Plan plan = plan_of_operator(op, "tiles");
  for (Lane& lane : plan.lanes) {
    for (Instr& instr : lane.instrs) {
      if (instr.op == Opcode::wait) instr.lag = 1;
    }
  }
  EXPECT_FALSE(meets_all_ranks(plan));
}

// Of two who add to a counter one may be enough.
TEST(Meets, NotByAWaitThatOneOfTwoCanEnd) {
  Plan plan = plan_of_operator("ag-gemm m=8 n=8 k=8 ranks=2 dtype=bf16", "tiles");
  plan.signals = {{"both", 1, 1}};
  plan.lanes.clear();
  for (uint16_t rank = 0; rank < 2; ++rank) {
    Lane& lane = plan.lanes.emplace_back();
    lane.rank = rank;
    Instr notify;
    notify.op = Opcode::notify;
    notify.amount = 1;
    for (notify.rank = 0; notify.rank < 2; ++notify.rank) lane.instrs.push_back(notify);
    Instr wait;
    wait.op = Opcode::wait;
    wait.amount = 2;
    lane.instrs.push_back(wait);
  }
  EXPECT_TRUE(meets_all_ranks(plan));
  plan.lanes[1].instrs.back().amount = 1;
  EXPECT_FALSE(meets_all_ranks(plan));
}

}  // namespace
}  // namespace stretto
