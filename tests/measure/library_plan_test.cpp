// What stands for cuBLAS and NCCL where rows choose: there is a plan, and who multiplies and moves
// in it.
#include "measure/library_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/text.h"

namespace stretto::runtime {
namespace {

class LibraryPlanOf : public testing::TestWithParam<const char*> {};

TEST_P(LibraryPlanOf, ExpertsMovesByNcclAlone) {
  for (const int ranks : {1, 2, 8}) {
    const Operator op = parse_operator(fmt::format("{} ranks={} dtype=bf16", GetParam(), ranks));
    const LibraryPlan made = library_plan(op, default_machine(ranks));
    ASSERT_NE(made.plan, nullptr) << join(made.refused, "; ");
    std::set<LaneKind> kinds;
    bool sends = false;
    for (const Lane& lane : made.plan->lanes) {
      for (const Instr& instr : lane.instrs) {
        kinds.insert(lane.kind);
        for (const Region& to : made.plan->writes(instr)) {
          sends = sends || (to.rank != lane.rank && instr.op != Opcode::collective);
        }
      }
    }
    EXPECT_FALSE(sends) << ranks;
    EXPECT_EQ(kinds.count(LaneKind::nccl), ranks > 1 ? 1u : 0u) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Experts, LibraryPlanOf,
    testing::Values(
        "moe-tp t=512 h=256 f=1024 experts=8 k=2", "moe-tp-up t=512 h=256 f=1024 experts=8 k=2",
        "moe-tp-down t=512 h=256 f=1024 experts=8 k=2",
        "moe-tp-down-ar t=512 h=256 f=1024 experts=8 k=2", "moe-ep t=512 h=256 f=256 experts=8 k=2",
        "moe-ep-shared t=512 h=256 f=256 s=512 experts=8 k=2",
        "moe-ep-slices t=512 h=256 f=256 experts=8 k=2 slices=2",
        "moe-ep-router t=512 h=256 f=256 experts=8 k=2",
        "moe-ep-router-groups t=512 h=256 f=256 experts=16 k=2 groups=4 best=2",
        "moe-tp-router t=512 h=256 f=1024 experts=8 k=2", "dispatch t=512 h=256 experts=8 k=2",
        "combine t=512 h=256 experts=8 k=2", "dispatch-combine t=512 h=256 experts=8 k=2"));

TEST(LibraryPlanOfTeams, MovesWithinThem) {
  const auto graph = parse_graph(
      "graph own m h f\nteam tp 4\ninput x [m, h] rows\ninput w [f, h] rows of tp\n"
      "input v [h, f] cols of tp\na = gemm x w\ny = gemm a v\noutput y rows\n");
  const Operator op = make_graph(graph, {{"m", 512}, {"h", 256}, {"f", 1024}}, 8, DType::bf16);
  const LibraryPlan made = library_plan(op, default_machine(8));
  ASSERT_NE(made.plan, nullptr) << join(made.refused, "; ");
  size_t joined = 0;
  for (const Lane& lane : made.plan->lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::collective) continue;
      EXPECT_EQ(instr.team, 4);
      ++joined;
    }
  }
  EXPECT_EQ(joined, 16u);  // a gather and a reduce-scatter on each rank
}

}  // namespace
}  // namespace stretto::runtime
