// Rows that choose experts on GPUs: their plans are accepted, and the kernels of their products
// keep everything in registers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/text.h"
#include "gpu/compiler_fixture.h"
#include "lower/plan_of_operator.h"
#include "tables/kernel_set.h"
#include "tables/plan_limits.h"

namespace stretto::cuda {
namespace {

using testing::HasSubstr;

TEST(RoutedPlans, AreAccepted) {
  for (const std::string op :
       {"moe-tp t=203 h=512 f=768 experts=12 k=3 ranks=4 dtype=bf16",
        "moe-ep t=203 h=512 f=192 experts=12 k=3 ranks=4 dtype=bf16",
        "moe-ep t=203 h=512 f=192 experts=11 k=3 ranks=4 dtype=bf16",
        "moe-ep-shared t=203 h=512 f=192 s=256 experts=12 k=3 ranks=4 dtype=bf16",
        "moe-ep-i64 t=203 h=512 f=192 experts=12 k=3 ranks=4 dtype=bf16",
        "moe-tp-i64 t=203 h=512 f=768 experts=12 k=3 ranks=4 dtype=bf16",
        "moe-tp-up t=203 h=512 f=768 experts=12 k=3 ranks=4 dtype=bf16",
        "moe-tp-down t=203 h=512 f=768 experts=12 k=3 ranks=4 dtype=bf16",
        "moe-tp-down-ar t=203 h=512 f=768 experts=12 k=3 ranks=4 dtype=bf16",
        "dispatch t=203 h=512 experts=11 k=3 ranks=4 dtype=bf16",
        "combine t=203 h=512 experts=12 k=3 ranks=4 dtype=bf16",
        "dispatch-combine t=203 h=512 experts=12 k=3 ranks=4 dtype=bf16"}) {
    for (const std::string schedule : {"sequential", "tiles", "tiles,granularity=chunk"}) {
      EXPECT_EQ(join(why_not_on_cuda(plan_of_operator(op, schedule)), "; "), "")
          << op << " " << schedule;
    }
  }
}

TEST(RoutedPlans, OfTokensInPartsAreAccepted) {
  for (const std::string op : {"moe-tp t=203 h=512 f=768 experts=12 k=3 ranks=4 dtype=bf16",
                               "moe-ep t=203 h=512 f=192 experts=12 k=3 ranks=4 dtype=bf16",
                               "moe-tp-up t=203 h=512 f=768 experts=12 k=3 ranks=4 dtype=bf16",
                               "moe-tp-down t=203 h=768 f=512 experts=12 k=3 ranks=4 dtype=bf16",
                               "moe-tp-down-ar t=203 h=768 f=512 experts=12 k=3 ranks=4 "
                               "dtype=bf16"}) {
    EXPECT_EQ(join(why_not_on_cuda(plan_of_operator(op, "split=2/tiles")), "; "), "") << op;
  }
  for (const std::string schedule : {"sequential", "library"}) {
    for (const char* mover : {"", ",mover=copy-engine", ",mover=epilogue"}) {
      const Plan plan =
          plan_of_operator("moe-tp-up t=203 h=512 f=768 experts=12 k=3 ranks=4 dtype=bf16",
                           "split=2/" + schedule + mover);
      EXPECT_EQ(join(why_not_on_cuda(plan), "; "), "") << plan.schedule;
    }
    const Plan plan = plan_of_operator(
        "moe-tp-down t=203 h=768 f=512 experts=12 k=3 ranks=4 dtype=bf16", "split=2/" + schedule);
    EXPECT_EQ(join(why_not_on_cuda(plan), "; "), "") << plan.schedule;
  }
}

// What scatters a tile's rows must know where it has their choices.
TEST(RoutedPlans, HandOverRowsByChoiceOfTheirOwnTablesOnly) {
  const Plan plan =
      plan_of_operator("moe-tp-up t=203 h=512 f=768 experts=12 k=3 ranks=4 dtype=bf16", "tiles");
  const auto first_of = [](Plan& of, Opcode op) {
    for (Lane& lane : of.lanes) {
      for (Instr& instr : lane.instrs) {
        if (instr.op == op) return &instr;
      }
    }
    return static_cast<Instr*>(nullptr);
  };
  Plan shifted = plan;  // other rows of the same partition
  Instr* const swiglu = first_of(shifted, Opcode::swiglu);
  Region& stored = shifted.operands[swiglu->first_operand + swiglu->num_reads];
  const int32_t rows = stored.rows();
  stored.row0 += rows;
  stored.row1 += rows;
  EXPECT_THAT(join(why_not_on_cuda(shifted), "; "), HasSubstr("whose tables are of one partition"));
  Plan unmade = plan;  // nobody writes the tables
  for (Lane& lane : unmade.lanes) {
    std::erase_if(lane.instrs, [](const Instr& instr) { return instr.op == Opcode::route; });
  }
  EXPECT_THAT(join(why_not_on_cuda(unmade), "; "), HasSubstr("whose tables are of one partition"));
  Plan narrow = plan;
  Instr* const last = first_of(narrow, Opcode::swiglu);
  narrow.operands[last->first_operand + last->num_reads].col1 -= 4;
  EXPECT_THAT(join(why_not_on_cuda(narrow), "; "), HasSubstr("a multiple of 8"));
  Plan read = plan;
  Instr* const copied = first_of(read, Opcode::copy);
  read.operands[copied->first_operand] = stored;
  EXPECT_THAT(join(why_not_on_cuda(read), "; "), HasSubstr("so no task reads them"));
}

TEST(RoutedPlans, PermuteRowsByChoiceOfTheirOwnTablesOnly) {
  const Plan plan =
      plan_of_operator("dispatch t=203 h=512 experts=12 k=3 ranks=4 dtype=bf16", "tiles");
  Plan shifted = plan;  // rows of other choices than those that are read
  for (Lane& lane : shifted.lanes) {
    for (Instr& instr : lane.instrs) {
      if (instr.op != Opcode::permute) continue;
      Region& choices = shifted.operands[instr.first_operand];
      const int32_t rows = choices.rows();
      choices.row0 += rows;
      choices.row1 += rows;
    }
  }
  EXPECT_THAT(join(why_not_on_cuda(shifted), "; "), HasSubstr("whose tables are of one partition"));
  Plan unmade = plan;  // nobody writes the tables
  for (Lane& lane : unmade.lanes) {
    std::erase_if(lane.instrs, [](const Instr& instr) { return instr.op == Opcode::route; });
  }
  EXPECT_THAT(join(why_not_on_cuda(unmade), "; "), HasSubstr("whose tables are of one partition"));
}

// Proved, since lanes by themselves come to it; a kernel of partitions ends before tiles begin.
TEST(RoutedPlans, AwaitNoTileAheadOfAPartition) {
  Plan plan = plan_of_operator("moe-ep t=64 h=512 f=256 experts=8 k=2 ranks=1 dtype=bf16", "tiles");
  ASSERT_EQ(join(why_not_on_cuda(plan), "; "), "");
  plan.signals.push_back(plan.signals.front());
  Instr wait, notify;
  wait.op = Opcode::wait;
  notify.op = Opcode::notify;
  wait.signal = notify.signal = {static_cast<uint16_t>(plan.signals.size() - 1), 0};
  wait.amount = notify.amount = 1;
  const auto lane_of = [&](Opcode op) {
    return std::find_if(plan.lanes.begin(), plan.lanes.end(), [&](const Lane& lane) {
      const auto first = std::find_if(lane.instrs.begin(), lane.instrs.end(),
                                      [](const Instr& instr) { return instr.is_task(); });
      return first != lane.instrs.end() && first->op == op;
    });
  };
  std::vector<Instr>& makes = lane_of(Opcode::route)->instrs;
  std::vector<Instr>& multiplies = lane_of(Opcode::gather_gemm)->instrs;
  makes.insert(makes.begin(), wait);
  auto behind = std::find_if(multiplies.begin(), multiplies.end(),
                             [](const Instr& instr) { return instr.is_task(); });
  while ((++behind)->fused) {
  }
  multiplies.insert(behind, notify);
  EXPECT_THAT(join(why_not_on_cuda(plan), "; "), HasSubstr("must not be told behind"));
}

// What the rows of a sum are is looked up by the lanes of a warp.
TEST(RoutedPlans, SumMoreRowsThanAWarpHasLanesByMovers) {
  const auto has = [](int k, const std::string& kernel) {
    const Plan plan = plan_of_operator(
        fmt::format("moe-ep t=64 h=512 f=256 experts=40 k={} ranks=1 dtype=bf16", k), "sequential");
    const std::vector<KernelEntry> kernels = kernels_of(plan, "sm_90a");
    return std::any_of(kernels.begin(), kernels.end(),
                       [&](const KernelEntry& entry) { return entry.name == kernel; });
  };
  EXPECT_TRUE(has(32, "pass of routed rows"));
  EXPECT_FALSE(has(33, "pass of routed rows"));
}

class GpuCompileRouted : public NeedsCompiler {};

TEST_F(GpuCompileRouted, ProductsDoNotSpill) {
  int scattering = 0;
  for (const std::string name : {"moe-ep", "moe-tp-up"}) {
    const std::string op = name + " t=4096 h=512 f=768 experts=8 k=2 ranks=1 dtype=bf16";
    for (const std::string tile : {"tile=64x256", "tile=128x256", "tile=128x128", "tile=256x64"}) {
      if (name == "moe-tp-up" && tile == "tile=128x256") continue;  // of swiglu like the last
      for (const KernelEntry& kernel :
           kernels_of(plan_of_operator(op, "sequential," + tile), "sm_90a")) {
        if (!kernel.name.starts_with("gemm")) continue;
        scattering += kernel.name.find(" scatters") != std::string::npos;
        expect_no_spills_in_time(kernel.name, kernel.source, "sm_90a");
      }
    }
  }
  EXPECT_EQ(scattering, 3);
}

}  // namespace
}  // namespace stretto::cuda
