// The points that names of systems stand for run on GPUs.
#include "schedule/systems.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "launch/rank_program.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "tables/plan_limits.h"

namespace stretto::cuda {
namespace {

TEST(Systems, HavePlansThatGpusRun) {
  int accepted = 0;
  for (const int ranks : {2, 4}) {
    const Machine machine = default_machine(ranks);
    for (const std::string sizes :
         {"ag-gemm m=203 n=768 k=512", "gemm-rs m=203 n=512 k=768", "gemm-ar m=203 n=512 k=768",
          "gemm-ar-norm m=2048 n=512 k=768", "gemm-a2a m=203 n=768 k=512",
          "embedding-a2a bags=50 tables=12 rows=100 dim=64 pool=5",
          "moe-tp t=203 h=512 f=768 experts=12 k=3", "moe-ep t=203 h=512 f=192 experts=24 k=3",
          "moe-ep-shared t=203 h=512 f=192 s=256 experts=24 k=3",
          "dispatch-combine t=203 h=512 experts=24 k=3"}) {
      const Operator op = parse_operator(fmt::format("{} ranks={} dtype=bf16", sizes, ranks));
      for (const System& system : systems()) {
        OperatorSchedule schedule;
        try {
          schedule = parse_schedules(system.name, op, machine);
        } catch (const UsageError&) {  // it has nothing for these
          continue;
        }
        EXPECT_EQ(join(why_not_on_cuda(lower(op, schedule, machine)), "; "), "")
            << system.name << " " << to_string(op);
        ++accepted;
      }
    }
  }
  EXPECT_GT(accepted, 80);
}

// As its name says, beside the two of MegaMoE.
TEST(Systems, OfMegaMoeHaveFiveLaunches) {
  for (const char* sizes :
       {"t=300 h=512 f=384 experts=24 k=3 ranks=2", "t=64 h=1024 f=512 experts=64 k=8 ranks=4",
        "t=4096 h=1024 f=512 experts=16 k=2 ranks=8"}) {
    const Operator op = parse_operator(fmt::format("moe-ep {} dtype=bf16", sizes));
    const Machine machine = default_machine(op.ranks);
    const NamedSchedule named = read_schedules("megamoe", op, machine);
    EXPECT_THAT(named.reason, testing::HasSubstr("five launches of one graph and not two"));
    const Plan plan = lower(op, named.schedule, machine);
    for (const RankProgram& program : programs_of(plan)) {
      size_t launches = 0;
      for (const StepStream& stream : program.streams) {
        for (const Step& step : stream.steps) {
          launches += step.kind == StepKind::gemm || step.kind == StepKind::move;
        }
      }
      EXPECT_EQ(launches, 5u) << sizes;
    }
  }
}

}  // namespace
}  // namespace stretto::cuda
