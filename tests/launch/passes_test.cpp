// Which kernels of movers are passes, and what these may await.
#include "launch/passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan_fixture.h"

namespace stretto::cuda {
namespace {

bool has(const Plan& plan, const std::vector<BlockPart>& parts, Opcode op) {
  return std::any_of(parts.begin(), parts.end(), [&](const BlockPart& part) {
    const std::vector<Instr>& instrs = plan.lanes[part.lane].instrs;
    return std::any_of(instrs.begin() + part.begin, instrs.begin() + part.end,
                       [&](const Instr& instr) { return instr.op == op; });
  });
}

// Of all ranks' kernels of movers that are none in a GEMM's.
struct Counts {
  int passes = 0, that_await = 0, movers_that_await = 0;
};
Counts counts_of(const std::string& operator_text, const std::string& schedule) {
  const Operator op = parse_operator(operator_text);
  const Machine machine = default_machine(op.ranks);
  const Plan plan = lower(op, parse_schedules(schedule, op, machine), machine);
  Counts counts;
  for (const RankProgram& program : programs_of(plan)) {
    for (size_t i = 0; i < program.moves.size(); ++i) {
      if (program.is_in_gemm(i)) continue;
      const std::vector<BlockPart>& parts = program.moves[i];
      const bool awaits = has(plan, parts, Opcode::wait);
      if (!is_pass(plan, program, parts)) {
        counts.movers_that_await += awaits;
        continue;
      }
      ++counts.passes;
      counts.that_await += awaits;
      EXPECT_FALSE(has(plan, parts, Opcode::notify)) << operator_text << ' ' << schedule;
      if (awaits) EXPECT_EQ(program.streams.size(), 1u) << operator_text << ' ' << schedule;
    }
  }
  return counts;
}

TEST(Passes, AwaitPeersWhereTheirRankHasNoOtherStream) {
  const Counts alone = counts_of("gemm-ar-norm m=512 n=1024 k=512 ranks=4 dtype=bf16", "tiles");
  EXPECT_EQ(alone.passes, 4);
  EXPECT_EQ(alone.that_await, 4);
  const Counts own_rows = counts_of("gemm-rs-norm m=512 n=1024 k=512 ranks=4 dtype=bf16", "tiles");
  EXPECT_EQ(own_rows.passes, 4);
  EXPECT_EQ(own_rows.that_await, 0);
  const Counts beside =
      counts_of("gemm-ar-norm m=512 n=1024 k=512 ranks=4 dtype=bf16", "tiles,mover=copy-engine");
  EXPECT_EQ(beside.passes, 0);
  EXPECT_GT(beside.movers_that_await, 0);
}

TEST(Passes, AwaitPeersForOneTaskABlock) {
  const Counts counts = counts_of("gemm-a2a m=512 n=1024 k=512 ranks=4 dtype=bf16", "tiles");
  EXPECT_EQ(counts.passes, 0);
  EXPECT_EQ(counts.movers_that_await, 4);
}

TEST(Passes, AwaitNothingBehindTheirTask) {
  const Operator op = parse_operator("gemm-ar-norm m=512 n=1024 k=512 ranks=2 dtype=bf16");
  const Machine machine = default_machine(2);
  const Plan plan = lower(op, parse_schedules("tiles", op, machine), machine);
  const RankProgram program = programs_of(plan)[0];
  std::vector<BlockPart> parts = program.moves.at(0);
  ASSERT_TRUE(is_pass(plan, program, parts));
  BlockPart& last = parts.back();
  const std::vector<Instr>& instrs = plan.lanes[last.lane].instrs;
  while (instrs[last.end - 1].op != Opcode::wait) --last.end;
  ASSERT_LT(last.begin, last.end);
  EXPECT_FALSE(is_pass(plan, program, parts));
}

TEST(Passes, NotifyNobody) {
  for (const char* schedule : {"tiles", "slices", "sequential", "split=2/tiles", "low-latency"}) {
    for (const char* op :
         {"gemm-ar-norm m=300 n=512 k=256 ranks=3 dtype=bf16",
          "gemm-a2a m=300 n=512 k=256 ranks=2 dtype=bf16",
          "layer m=64 h=256 f=512 heads=4 kv-heads=2 head-dim=64 ranks=2 dtype=bf16"}) {
      counts_of(op, schedule);
    }
  }
}

}  // namespace
}  // namespace stretto::cuda
