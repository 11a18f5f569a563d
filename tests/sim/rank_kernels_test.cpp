// What simulations take from programs: as many streams, kernels and blocks as these have.
#include "sim/rank_kernels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "launch/passes.h"
#include "launch/rank_program.h"
#include "lower/plan_of_operator.h"
#include "sim/calibration.h"
#include "sim/costs.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

using cuda::RankProgram;
using cuda::Step;
using cuda::StepKind;

constexpr const char* kOps[] = {
    "ag-gemm m=300 n=512 k=256 ranks=2 dtype=bf16",
    "ag-gemm m=300 n=500 k=258 ranks=4 dtype=bf16",
    "gemm-rs m=300 n=512 k=256 ranks=4 dtype=bf16",
    "gemm-ar-norm m=300 n=512 k=256 ranks=2 dtype=bf16",
    "a2a-gemm m=300 n=500 k=520 ranks=2 dtype=bf16",
    "mlp m=300 h=256 f=512 ranks=2 dtype=bf16",
    "moe-ep t=37 h=256 f=256 experts=8 k=2 ranks=2 dtype=bf16",
    "moe-tp-up t=37 h=256 f=256 experts=8 k=2 ranks=2 dtype=bf16",
    "dispatch-combine t=64 h=256 experts=8 k=2 ranks=2 dtype=bf16",
    "embedding-a2a bags=64 tables=8 rows=100 dim=32 pool=4 ranks=2 dtype=bf16",
};

template <typename Visit>
void for_each_plan(const Visit& visit) {
  for (const char* text : kOps) {
    const Operator op = parse_operator(text);
    const Machine machine = default_machine(op.ranks);
    for (const Preset& preset : presets()) {
      const OperatorSchedule schedule = schedule_of(preset, op, machine);
      if (!legal(op, schedule, machine).empty()) continue;
      SCOPED_TRACE(fmt::format("{} {}", text, preset.name));
      visit(lower(op, schedule, machine));
    }
  }
}

// A kernel of ours that starts early, if there is any.
bool is_of_ours(const RankProgram& program, const Step& step) {
  if (step.kind == StepKind::gemm) return !program.needs[step.index].library;
  return step.kind == StepKind::move || step.kind == StepKind::wait ||
         step.kind == StepKind::notify;
}

TEST(RankKernels, AreOneStreamWhereProgramsAre) {
  int one = 0, several = 0;
  for_each_plan([&](const Plan& plan) {
    const sim::RankKernels kernels(plan);
    bool any_movers = false;
    for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
      any_movers = any_movers || !kernels.ends(lane).empty();
    }
    const std::vector<RankProgram> programs = cuda::programs_of(plan);
    const bool is_one =
        std::all_of(programs.begin(), programs.end(), [&](const RankProgram& program) {
          const std::vector<Step>& steps = program.streams.front().steps;
          return program.streams.size() == 1 &&
                 std::all_of(steps.begin(), steps.end(),
                             [&](const Step& step) { return is_of_ours(program, step); });
        });
    EXPECT_EQ(kernels.is_one_stream(), is_one && !any_movers);
    ++(is_one ? one : several);
  });
  EXPECT_GT(one, 5);
  EXPECT_GT(several, 20);
}

// Blocks of the GEMM kernel copy vectors of 16 bytes; what is none has movers beside it, so that
// nothing starts early.
TEST(RankKernels, AreTwoStreamsWhereCopiesAreNoVectors) {
  const Plan whole = plan_of_operator("a2a-gemm m=304 n=512 k=512 ranks=2 dtype=bf16", "tiles");
  const Plan odd = plan_of_operator("a2a-gemm m=304 n=512 k=504 ranks=2 dtype=bf16", "tiles");
  EXPECT_TRUE(sim::RankKernels(whole).is_one_stream());
  EXPECT_FALSE(sim::RankKernels(odd).is_one_stream());
  EXPECT_TRUE(sim::RankKernels(odd).has_stream(LaneKind::comm));
  const Machine machine = default_machine(2);
  EXPECT_EQ(sim::Costs(whole, machine).launch_us(), machine.chained_launch_us);
  EXPECT_EQ(sim::Costs(odd, machine).launch_us(), machine.launch_us);
}

// A lane that makes tables and has no tiles does that ahead of all tiles, and awaits none for it.
TEST(RankKernels, MakeTablesAheadOfTiles) {
  const std::string up = "moe-tp-up t=512 h=2048 f=1024 experts=32 k=4 ranks=8 dtype=bf16";
  const Plan alone = plan_of_operator(up, "tiles");
  const Plan added =
      plan_of_operator("moe-ep t=37 h=256 f=256 experts=8 k=2 ranks=2 dtype=bf16", "tiles");
  const sim::RankKernels of_alone(alone), of_added(added);
  int lanes = 0;
  for (const auto& [plan, kernels] : {std::pair(&alone, &of_alone), std::pair(&added, &of_added)}) {
    for (uint32_t l = 0; l < plan->lanes.size(); ++l) {
      const std::vector<Instr>& instrs = plan->lanes[l].instrs;
      const auto route = std::find_if(instrs.begin(), instrs.end(),
                                      [](const Instr& instr) { return instr.op == Opcode::route; });
      if (route == instrs.end()) continue;
      ++lanes;
      for (const uint32_t end : kernels->ends(l)) EXPECT_GT(end, route - instrs.begin());
    }
  }
  EXPECT_GT(lanes, 8);
  for (uint32_t l = 0; l < alone.lanes.size(); ++l) EXPECT_TRUE(of_alone.ends(l).empty());
}

// Those of kernels of partitions, and those that the kernel of a dispatch makes.
TEST(RankKernels, KnowTheBlocksOfPartitions) {
  int by_blocks = 0, by_movers = 0, with_dispatch = 0;
  for_each_plan([&](const Plan& plan) {
    const sim::RankKernels kernels(plan);
    for (const RankProgram& program : cuda::programs_of(plan)) {
      for (const std::vector<cuda::BlockPart>& blocks : program.moves) {
        const int of_each = cuda::partition_blocks(plan, blocks);
        for (const cuda::BlockPart& part : blocks) {
          for (uint32_t at = part.begin; at < part.end; ++at) {
            const Instr& instr = plan.lanes[part.lane].instrs[at];
            if (instr.op != Opcode::route) continue;
            const int* const found = kernels.partition_blocks(instr);
            EXPECT_EQ(found != nullptr ? *found : 0, of_each);
            ++(of_each > 0 ? by_blocks : by_movers);
          }
        }
      }
      for (const Step& step : program.streams.front().steps) {
        if (step.kind != StepKind::route) continue;
        EXPECT_NE(kernels.partition_blocks(step.instr(plan)), nullptr);
        ++with_dispatch;
      }
    }
  });
  EXPECT_GT(by_blocks, 0);
  EXPECT_GT(by_movers, 0);
  EXPECT_GT(with_dispatch, 0);
}

}  // namespace
}  // namespace stretto
