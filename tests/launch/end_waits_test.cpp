// What compute lanes await behind their last task, as ends of kernels and of mover tables.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launch/rank_program.h"
#include "plan_fixture.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// (lane, position) of each wait that some block makes at its end; how often.
using Places = std::map<std::pair<uint32_t, uint32_t>, int>;

Places at_ends(const RankProgram& program) {
  Places places;
  for (const auto* kernels : {&program.gemms, &program.moves}) {
    for (const auto& blocks : *kernels) {
      for (const BlockPart& part : blocks) {
        for (const Step& wait : part.at_end) ++places[{wait.lane, wait.position}];
      }
    }
  }
  return places;
}

// The waits of a rank's compute lanes that no task of theirs follows.
Places behind_tasks(const Plan& plan, int rank) {
  Places places;
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    if (lane.rank != rank || lane.kind != LaneKind::compute) continue;
    for (size_t i = lane.instrs.size(); i-- > 0;) {
      const Instr& instr = lane.instrs[i];
      if (instr.op == Opcode::wait) places[{l, static_cast<uint32_t>(i)}] = 1;
      if (instr.op != Opcode::wait && instr.op != Opcode::deliver) break;
    }
  }
  return places;
}

RankTables tables_of(const Plan& plan, int rank) {
  const auto programs = programs_of(plan);
  return tables_for(plan, rank, programs[static_cast<size_t>(rank)], places_of(plan),
                    SignalLayout(plan, programs, true));
}

TEST(EndWaits, AnAllReducesRunIsOneKernel) {
  for (const char* schedule :
       {"tiles", "tiles,reuse=ack", "tiles,rows=bucket", "tiles,tile=128x128,split-k=2"}) {
    const Plan plan = plan_of("gemm-ar m=512 n=1024 k=4096 ranks=4 dtype=bf16", schedule);
    for (int rank = 0; rank < 4; ++rank) {
      const RankProgram program = programs_of(plan)[static_cast<size_t>(rank)];
      EXPECT_EQ(text(plan, program), "0:gemm 0") << schedule;
      EXPECT_EQ(at_ends(program), behind_tasks(plan, rank)) << schedule;
    }
  }
}

TEST(EndWaits, BlocksShareTheWaitsEvenly) {
  const Plan plan = plan_of("gemm-ar m=2048 n=8192 k=512 ranks=2 dtype=bf16", "tiles");
  const RankTables tables = tables_of(plan, 1);
  const GemmTable& table = tables.gemms[0].table;
  ASSERT_EQ(table.end_waits.size(), table.blocks.size());
  size_t fewest = SIZE_MAX, most = 0, all = 0;
  for (const auto& waits : table.end_waits) {
    fewest = std::min(fewest, waits.size());
    most = std::max(most, waits.size());
    all += waits.size();
  }
  EXPECT_LE(most - fewest, 1u);
  EXPECT_EQ(all, behind_tasks(plan, 1).size());
  EXPECT_GE(all, table.blocks.size());
}

TEST(EndWaits, KernelsThatNothingFollowsHaveNone) {
  const Plan plan = plan_of("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", "tiles");
  EXPECT_THAT(tables_of(plan, 0).gemms[0].table.end_waits, IsEmpty());
}

// A kernel that stays on all SMs would hold up the small kernels of other lanes.
TEST(EndWaits, BesideCopyLanesTheyStayBehindTheKernel) {
  const Plan plan =
      plan_of("gemm-ar m=512 n=1024 k=512 ranks=2 dtype=bf16", "tiles,mover=copy-engine");
  const RankProgram program = programs_of(plan)[0];
  EXPECT_THAT(at_ends(program), IsEmpty());
  const auto& steps = program.streams[0].steps;
  EXPECT_TRUE(std::any_of(steps.begin(), steps.end(),
                          [](const Step& step) { return step.kind == StepKind::wait; }));
}

// Two lanes with a tile each, whatever follows it, and a wait that both have.
Plan two_lanes(const std::string& behind_the_first) {
  return parse_plan(fmt::format(R"(stretto-plan 1
operator ag-gemm m=256 n=64 k=128 ranks=1 dtype=bf16
sms 132
buffer a bf16 256x128 input
buffer b bf16 64x128 input
buffer out bf16 256x64 output
buffer copied bf16 256x64 local
signals done 2
lane 0 compute 0
  gemm #0 a[0:128,0:128] b[0:64,0:128] -> out[0:128,0:64]
  notify done.0@0 += 1
{}  wait done.0 >= 2
  wait done.1 >= 1
lane 0 compute 1
  gemm #1 a[128:256,0:128] b[0:64,0:128] -> out[128:256,0:64]
  notify done.0@0 += 1
  notify done.1@0 += 1
  wait done.0 >= 1
end
)",
                                behind_the_first));
}

TEST(EndWaits, WhatLanesHaveInCommonIsAwaitedOnceForTheMost) {
  const Plan plan = two_lanes("");
  const RankProgram program = programs_of(plan)[0];
  EXPECT_EQ(text(plan, program), "0:gemm 0");
  EXPECT_EQ(at_ends(program), (Places{{{0, 2}, 1}, {{0, 3}, 1}}));
  const RankTables tables = tables_of(plan, 0);
  ASSERT_THAT(tables.gemms[0].table.end_waits, ElementsAre(SizeIs(1), SizeIs(1)));
  EXPECT_EQ(tables.gemms[0].table.end_waits[0][0].amount, 2u);
  EXPECT_EQ(tables.gemms[0].table.end_waits[1][0].amount, 1u);
}

// The mover runs behind the GEMM, and peers may need what it does: it waits, not the GEMM.
TEST(EndWaits, TheLastKernelBeforeThemMakesThem) {
  const Plan plan = two_lanes("  copy #0 out[0:128,0:64] -> copied[0:128,0:64]\n");
  const RankProgram program = programs_of(plan)[0];
  EXPECT_EQ(text(plan, program), "0:gemm 0 0:move 0");
  const RankTables tables = tables_of(plan, 0);
  EXPECT_THAT(tables.gemms[0].table.end_waits, IsEmpty());
  const MoverTable& table = tables.moves[0];
  ASSERT_THAT(table.blocks, ElementsAre(SizeIs(2)));
  const device::MoverTask& last = table.blocks[0].back();
  EXPECT_EQ(last.tile, device::kAtEnd);
  EXPECT_EQ(last.num_waits, 2);
  EXPECT_EQ(last.num_destinations, 0);
  EXPECT_EQ(table.waits[last.first_wait].amount, 2u);
}

TEST(EndWaits, EveryStretchBetweenBoundariesHasItsOwn) {
  const Plan plan = two_lanes(R"(  wait done.1 >= 1
  boundary 0
  copy #0 out[0:128,0:64] -> copied[0:128,0:64]
)");
  const RankProgram program = programs_of(plan)[0];
  EXPECT_EQ(text(plan, program), "0:gemm 0 0:move 0");
  ASSERT_THAT(program.gemms[0], SizeIs(2));
  EXPECT_THAT(program.gemms[0][0].at_end, ElementsAre(Step{StepKind::wait, 0, 1, 3}));
  EXPECT_THAT(program.gemms[0][1].at_end, ElementsAre(Step{StepKind::wait, 0, 0, 2}));
  EXPECT_THAT(program.moves[0][0].at_end, SizeIs(2));
}

}  // namespace
}  // namespace stretto::cuda
