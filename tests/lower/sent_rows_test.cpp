// Own rows that every caller gets: who makes them sends them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lower/plan_of_operator.h"

namespace stretto {
namespace {

int64_t count(const Plan& plan, Opcode op) {
  int64_t found = 0;
  for (const Lane& lane : plan.lanes) {
    found += std::count_if(lane.instrs.begin(), lane.instrs.end(),
                           [&](const Instr& instr) { return instr.op == op; });
  }
  return found;
}

TEST(SentRows, GoToAllRanksFromTheirNorm) {
  for (const char* schedule : {"tiles", "decomposed", "sequential", "split=2/tiles"}) {
    const Plan plan =
        plan_of_operator("gemm-rs-norm-ag m=203 n=64 k=96 ranks=3 dtype=bf16", schedule);
    EXPECT_FALSE(plan.find_buffer("out_own")) << schedule;
    std::vector<int64_t> sent(3, 0);
    for (const Lane& lane : plan.lanes) {
      for (const Instr& instr : lane.instrs) {
        if (instr.op != Opcode::norm) continue;
        EXPECT_EQ(plan.writes(instr).size(), 3u) << schedule;
        for (const Region& to : plan.writes(instr)) {
          EXPECT_EQ(plan.buffers[to.buffer].name, "out");
          sent[to.rank] += to.rows();
        }
      }
    }
    EXPECT_THAT(sent, testing::Each(203)) << schedule;
    EXPECT_GE(count(plan, Opcode::deliver), 3) << schedule;
  }
}

// Somebody else takes them too, or sums of tiles make them.
TEST(SentRows, AreCopiedByAKernelOfTheirOwnElsewhere) {
  const std::string head =
      "graph own m h f\n"
      "input x [m, f] cols\n"
      "input w [h, f] cols\n"
      "input r [m, h] rows\n"
      "input g [1, h] whole\n"
      "p = gemm x w\n"
      "s = add p r\n";
  for (const char* rest : {"output s whole\n",
                           "t = norm s g\n"
                           "u = gelu t\n"
                           "output t whole\n"
                           "output u rows\n"}) {
    const bool norms = std::string(rest).find("norm") != std::string::npos;
    std::string text = head + rest;
    if (!norms) text.erase(text.find("input g"), text.find("p = ") - text.find("input g"));
    const Operator op =
        make_graph(parse_graph(text), {{"m", 40}, {"h", 32}, {"f", 48}}, 2, DType::bf16);
    const Machine machine = default_machine(2);
    const Plan plan = lower(op, parse_schedules("tiles", op, machine), machine);
    EXPECT_GT(count(plan, Opcode::copy), 0) << rest;
    EXPECT_TRUE(plan.find_buffer(norms ? "t_own" : "s_own")) << rest;
  }
}

}  // namespace
}  // namespace stretto
