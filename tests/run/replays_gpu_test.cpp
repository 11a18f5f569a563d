// A thousand replays of a captured graph, ranks apart by random times: the same right bits.
//
// About half a second each, with the reference, and 10 s at most for kernels that no cache has yet.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compile_plans.h"
#include "gpu_plans.h"
#include "measure/gpu_check.h"
#include "stall_guard.h"

namespace stretto::runtime {
namespace {

class ReplaysOnGpus : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(ranks_); !why.empty()) STRETTO_SKIP(why);
  }
  const int ranks_ = GetParam();
  StallGuard guard_;
};

TEST_P(ReplaysOnGpus, OfAThousandAreRight) {
  std::vector<Plan> plans;
  for (const char* kind : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
    for (const char* preset : {"tiles", "decomposed", "low-latency", "waves", "sequential"}) {
      const std::string op =
          fmt::format("{} m=512 n=1024 k=1024 ranks={} dtype=bf16", kind, ranks_);
      if (why_not_here(op, preset).empty()) plans.push_back(plan_here(op, preset));
    }
  }
  for (const char* kind : {"gemm-rs", "gemm-ar"}) {
    const std::string op = fmt::format("{} m=64 n=1024 k=1024 ranks={} dtype=bf16", kind, ranks_);
    plans.push_back(plan_here(op, "few-rows"));
  }
  for (const char* kind : {"mlp", "mlp-ar"}) {
    const Operator op =
        parse_operator(fmt::format("{} m=64 h=512 f=2048 ranks={} dtype=bf16", kind, ranks_));
    const Machine machine = machine_here(ranks_);
    plans.push_back(lower(op, parse_schedules("few-rows", op, machine), machine));
  }
  guard_.at("compile");
  compile_plans(plans);
  for (const Plan& plan : plans) {
    const std::string name = to_string(plan.op) + " " + plan.schedule;
    SCOPED_TRACE(name);
    guard_.at(name);
    PlanRunner runner(plan, shared_fabric(ranks_), shared_compiler());
    GpuCheckOptions options;
    options.fills = {Fill::integers};
    options.runs = 1;
    options.replays = 1000;
    const GpuCheckResult result = check_on_gpus(runner, shared_fabric(ranks_), options);
    EXPECT_TRUE(result.verified()) << result.fault << result.first_wrong;
    const OperatorSchedule schedule = parse_schedules(plan.schedule, plan.op, machine_here(ranks_));
    EXPECT_TRUE(result.reproducible || !is_deterministic(schedule));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ReplaysOnGpus, testing::Values(2, 4, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace stretto::runtime
