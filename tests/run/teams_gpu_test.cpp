// Operators whose tensors are dealt to teams, on GPUs: under every preset, and beside cuBLAS and
// NCCL, which has communicators of teams.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "gpu_plans.h"
#include "measure/gpu_check.h"
#include "measure/library_plan.h"
#include "measure/operator_bench.h"
#include "tables/plan_limits.h"
#include "team_graphs.h"

namespace stretto::runtime {
namespace {

struct Teams {
  const TeamGraph* graph;
  int64_t team;
  int ranks;
};

void PrintTo(const Teams& teams, std::ostream* out) {
  *out << teams.graph->name << " in teams of " << teams.team << " of " << teams.ranks;
}

class TeamsOfPlansOnGpus : public testing::TestWithParam<Teams> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(GetParam().ranks); !why.empty()) STRETTO_SKIP(why);
  }
  // Those that run here.
  std::vector<OperatorSchedule> schedules(const Operator& op, const Machine& machine) const {
    std::vector<OperatorSchedule> all;
    for (const Preset& preset : presets()) {
      const OperatorSchedule schedule = schedule_of(preset, op, machine);
      if (!legal(op, schedule, machine).empty()) continue;
      const Plan plan = lower(op, schedule, machine);
      if (!cuda::why_not_on_cuda(plan).empty()) continue;
      if (cuda::ranks_a_gpu() > 1 && !why_not_shared_here(plan).empty()) continue;
      all.push_back(schedule);
    }
    return all;
  }
};

TEST_P(TeamsOfPlansOnGpus, AreRightUnderEveryPreset) {
  const auto& [graph, team, ranks] = GetParam();
  const Operator op = op_of_teams(*graph, team, ranks);
  const Machine machine = machine_here(ranks);
  const std::vector<OperatorSchedule> served = schedules(op, machine);
  ASSERT_FALSE(served.empty());
  for (const OperatorSchedule& schedule : served) {
    SCOPED_TRACE(to_string(schedule));
    const Plan plan = lower(op, schedule, machine);
    PlanRunner runner(plan, shared_fabric(ranks), shared_compiler());
    const GpuCheckResult result = check_on_gpus(runner, shared_fabric(ranks), {});
    EXPECT_EQ(result.fault, "");
    EXPECT_EQ(result.wrong_elements, 0) << result.first_wrong;
    EXPECT_LT(result.worst_error, 1);
    EXPECT_TRUE(result.reproducible || !is_deterministic(schedule));
  }
}

TEST_P(TeamsOfPlansOnGpus, AreTimedBesideTheLibraryPath) {
  if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("NCCL serves one rank a GPU");
  const auto& [graph, team, ranks] = GetParam();
  const Operator op = op_of_teams(*graph, team, ranks);
  const Machine machine = machine_here(ranks);
  const Plan plan = lower(op, schedule_of(find_preset("tiles"), op, machine), machine);
  const LibraryPlan library = library_plan(op, machine);
  ASSERT_TRUE(library.plan != nullptr) << library.refused.front();
  BenchOptions options;
  options.rounds = 2;
  const std::vector<PlanToTime> plans = {{&plan}};
  const BenchTimes times = bench_operator(op, library.plan.get(), plans, shared_fabric(ranks),
                                          shared_compiler(), options);
  ASSERT_TRUE(times.plans[0].timed()) << times.plans[0].refused << times.plans[0].problem;
  EXPECT_TRUE(times.library.collective.has_value());
  EXPECT_TRUE(times.library.sequential.has_value()) << times.library.problem;
}

std::vector<Teams> cases() {
  std::vector<Teams> all;
  for (const TeamGraph& graph : kTeamGraphs) {
    for (const auto& [team, ranks] : {std::pair{2, 4}, {2, 8}, {4, 8}}) {
      all.push_back({&graph, team, ranks});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, TeamsOfPlansOnGpus, testing::ValuesIn(cases()),
                         [](const auto& tested) {
                           return fmt::format("{}_{}_of_{}", tested.param.graph->name,
                                              tested.param.team, tested.param.ranks);
                         });

}  // namespace
}  // namespace stretto::runtime
