// Residuals that sums of products take on: no task of their own goes through all rows for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lower/plan_of_operator.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

bool reads(const Plan& plan, const Instr& instr, const char* buffer) {
  const auto number = plan.find_buffer(buffer);
  const auto regions = plan.reads(instr);
  return number && std::any_of(regions.begin(), regions.end(),
                               [&](const Region& one) { return one.buffer == *number; });
}

// What the reduces with this buffer among their sources read besides, and write: once each.
std::vector<std::string> around(const Plan& plan, const char* buffer) {
  std::vector<std::string> names;
  const auto add = [&](const Region& region) {
    const std::string& name = plan.buffers[region.buffer].name;
    if (name != buffer && std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  };
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::reduce || !reads(plan, instr, buffer)) continue;
      for (const Region& read : plan.reads(instr)) add(read);
      for (const Region& write : plan.writes(instr)) add(write);
    }
  }
  return names;
}

TEST(ResidualSums, AreOneTaskWithTheSumsOfTheirTiles) {
  const Plan plan = plan_of_operator("gemm-rs-norm m=512 n=256 k=256 ranks=2 dtype=bf16", "tiles");
  EXPECT_THAT(around(plan, "r"), ElementsAre("p_slots", "s"));
  EXPECT_FALSE(plan.find_buffer("p"));
  int64_t added = 0;
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::reduce) continue;
      // The ranks' terms in their order, then the residual.
      const auto sources = plan.reads(instr);
      ASSERT_EQ(sources.size(), 3u);
      EXPECT_LT(sources[0].row0, sources[1].row0);
      EXPECT_EQ(plan.buffers[sources[2].buffer].name, "r");
      EXPECT_EQ(sources[2].row0, plan.writes(instr)[0].row0);
      EXPECT_TRUE(instr.fused) << "in the tile's registers";
      added += sources[2].elements();
    }
  }
  EXPECT_EQ(added, 512 * 256);
}

TEST(ResidualSums, OfALayerGoByBothOfItsSums) {
  const Plan plan = plan_of_operator(
      "layer m=512 h=256 f=512 heads=4 kv-heads=4 head-dim=64 ranks=2 dtype=bf16", "tiles");
  EXPECT_THAT(around(plan, "o_slots"), ElementsAre("r", "s"));
  EXPECT_THAT(around(plan, "down_slots"), ElementsAre("s", "v"));
}

// What peers write is no caller's tensor: its rows get there with their norm.
TEST(ResidualSums, ThatPeersWriteAreHandedOverWithTheNorm) {
  const Plan plan = plan_of_operator("gemm-ar-norm m=512 n=256 k=256 ranks=2 dtype=bf16", "tiles");
  EXPECT_THAT(around(plan, "p_slots"), ElementsAre("r", "p"));
  EXPECT_THAT(around(plan, "p"), testing::IsSupersetOf({"s"}));
  for (const Lane& lane : plan.lanes) {
    for (size_t i = 0; i < lane.instrs.size(); ++i) {
      if (lane.instrs[i].op != Opcode::reduce || !reads(plan, lane.instrs[i], "p")) continue;
      EXPECT_EQ(lane.instrs[i].num_reads, 1);
      ASSERT_LT(i + 1, lane.instrs.size());
      EXPECT_EQ(lane.instrs[i + 1].op, Opcode::norm);
      EXPECT_TRUE(lane.instrs[i + 1].fused);
    }
  }
  // In one shot each rank makes all sums, where its caller has them.
  const Plan one_shot = plan_of_operator("gemm-ar-norm m=512 n=256 k=256 ranks=2 dtype=bf16",
                                         "tiles,reduction=one-shot");
  EXPECT_THAT(around(one_shot, "p_slots"), ElementsAre("r", "s"));
}

Plan plan_of_graph(const std::string& lines, const std::string& schedules) {
  const auto graph = parse_graph("graph own m h f\n" + lines);
  const Operator op = make_graph(graph, {{"m", 256}, {"h", 256}, {"f", 256}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  return lower(op, parse_schedules(schedules, op, machine), machine);
}

constexpr const char* kProduct =
    "input x [m, f] cols\n"
    "input w [h, f] cols\n"
    "input r [m, h] rows\n"
    "p = gemm x w\n";

TEST(ResidualSums, WithoutANormLeaveNothingBehindTheTiles) {
  const Plan plan = plan_of_graph(std::string(kProduct) + "s = add r p\noutput s rows\n", "tiles");
  EXPECT_THAT(around(plan, "r"), ElementsAre("p_slots", "s"));
  for (const Lane& lane : plan.lanes) {
    EXPECT_TRUE(std::none_of(lane.instrs.begin(), lane.instrs.end(),
                             [](const Instr& one) { return one.op == Opcode::boundary; }));
  }
}

// Somebody else takes the sum, the residual comes later, or the sums are not the plan's.
TEST(ResidualSums, AreTasksOfTheirOwnElsewhere) {
  const std::string add = "s = add p r\noutput s rows\n";
  const auto slots = [](const std::string& lines, const std::string& schedules) {
    return around(plan_of_graph(lines, schedules), "p_slots");
  };
  EXPECT_THAT(slots(kProduct + add + "output p rows\n", "tiles"), ElementsAre("p"));
  EXPECT_THAT(slots(kProduct + add + "t = gelu p\noutput t rows\n", "tiles"), ElementsAre("p"));
  EXPECT_THAT(slots("input x [m, f] cols\n"
                    "input w [h, f] cols\n"
                    "input v [h, f] cols\n"
                    "p = gemm x w\n"
                    "q = gemm x v\n"
                    "s = add p q\n"
                    "output s rows\n",
                    "tiles"),
              ElementsAre("p"));
  EXPECT_THAT(slots(kProduct + add, "tiles,partials=fp32"), ElementsAre("p"));
  EXPECT_THAT(slots(kProduct + add, "sequential"), IsEmpty());
}

}  // namespace
}  // namespace stretto
