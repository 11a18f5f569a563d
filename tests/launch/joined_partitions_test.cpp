// Partitions that the kernel of a dispatch makes: where, and where not.
#include "launch/joined_partitions.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan_fixture.h"

namespace stretto::cuda {
namespace {

Plan plan_of(const std::string& operator_text, const std::string& schedule) {
  const Operator op = parse_operator(operator_text);
  const Machine machine = default_machine(op.ranks);
  return lower(op, parse_schedules(schedule, op, machine), machine);
}

TEST(JoinedPartitions, AreMadeByTheKernelThatBringsTheirIds) {
  for (const int ranks : {2, 3, 8}) {
    const Plan plan =
        plan_of("moe-ep t=40 h=80 f=96 experts=16 k=3 dtype=bf16 ranks=" + std::to_string(ranks),
                "low-latency");
    for (const RankProgram& program : programs_of(plan)) {
      EXPECT_EQ(text(plan, program), "0:collective 0:route 0:gemm 0 0:gemm 1 0:collective");
      EXPECT_TRUE(program.moves.empty());
      const std::map<int32_t, InstrRef> joined = joined_partitions(plan, program);
      ASSERT_EQ(joined.size(), 1u);
      const InstrRef at = joined.begin()->second;
      EXPECT_EQ(plan.lanes[at.lane].instrs[at.pos].op, Opcode::route);
    }
  }
}

// Nothing stands behind products whose rows nobody adds up.
TEST(JoinedPartitions, AreMadeWhereNoWeightsComeAlong) {
  for (const int ranks : {2, 8}) {
    const Plan plan = plan_of(
        "moe-tp-up t=40 h=80 f=192 experts=16 k=1 dtype=bf16 ranks=" + std::to_string(ranks),
        "low-latency");
    for (const RankProgram& program : programs_of(plan)) {
      EXPECT_EQ(text(plan, program), "0:collective 0:route 0:gemm 0");
      EXPECT_EQ(joined_partitions(plan, program).size(), 1u);
    }
  }
}

// A cluster makes what one block has no room for.
TEST(JoinedPartitions, FitABlock) {
  const Plan plan =
      plan_of("moe-ep t=24000 h=80 f=96 experts=8 k=3 ranks=2 dtype=bf16", "low-latency");
  for (const RankProgram& program : programs_of(plan)) {
    EXPECT_EQ(text(plan, program), "0:collective 0:move 0 0:gemm 0 0:gemm 1 0:collective");
    EXPECT_TRUE(joined_partitions(plan, program).empty());
  }
}

// What NCCL brings is put in order by a kernel of its own.
TEST(JoinedPartitions, NeedAKernelOfOursThatBringsIds) {
  for (const auto& [op, schedule] :
       {std::pair("moe-ep t=40 h=80 f=96 experts=16 k=3 ranks=2 dtype=bf16", "library"),
        std::pair("moe-tp t=40 h=80 f=192 experts=16 k=3 ranks=2 dtype=bf16", "library"),
        std::pair("dispatch-combine t=40 h=64 experts=16 k=3 ranks=2 dtype=bf16", "low-latency")}) {
    const Plan plan = plan_of(op, schedule);
    for (const RankProgram& program : programs_of(plan)) {
      EXPECT_TRUE(joined_partitions(plan, program).empty()) << op << ' ' << schedule;
    }
  }
}

}  // namespace
}  // namespace stretto::cuda
