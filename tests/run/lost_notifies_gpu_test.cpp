// A notify that is never made, by every kind of lane and for every kind: the error names who waits
// for it and where that stands in the plan's text, its peers are let go, and the next operator on
// the same fabric is right.
//
// About a second each, and 10 s at most for kernels that no cache has yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "compile_plans.h"
#include "lost_notifies.h"
#include "measure/gpu_check.h"
#include "stall_guard.h"

namespace stretto::runtime {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kTimeoutNs = 300'000'000;
constexpr int kRanks = 2;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines(1);  // the first is 1
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class LostNotifiesOnGpus : public testing::TestWithParam<LostNotify> {
 protected:
  static void SetUpTestSuite() {
    if (!why_not_here(kRanks).empty()) return;
    std::vector<Plan> plans;
    for (const LostNotify& lost : kLostNotifies) {
      if (why_not_here(lost.op, lost.schedule).empty()) plans.push_back(plan_of(lost));
    }
    compile_plans(plans);
  }
  void SetUp() override {
    const LostNotify& lost = GetParam();
    if (const std::string why = why_not_here(lost.op, lost.schedule); !why.empty()) {
      STRETTO_SKIP(why);
    }
  }
  StallGuard guard_;
};

TEST_P(LostNotifiesOnGpus, AreNamed) {
  const LostNotify& lost = GetParam();
  Plan lowered = plan_of(lost);
  drop_notify(lowered, lost.signal, lost.to, lost.from);
  const std::string text = print(lowered);
  PlanLines lines;
  const Plan plan = parse_plan(text, "p.txt", &lines);
  {
    PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler(), {kTimeoutNs});
    const auto fault = run_fault(runner, [&](int rank) { enqueue_runs(runner, lost, rank); });
    ASSERT_TRUE(fault.has_value());
    ASSERT_TRUE(fault->where().has_value()) << fault->what();
    const uint32_t line = lines.of(*fault->where());
    std::cout << "p.txt:" << line << ": " << fault->what() << "\n";
    EXPECT_THAT(errors_of(plan, lost, kTimeoutNs), Contains(fault->what()));
    const Lane& lane = plan.lanes[fault->where()->lane];
    const Instr& wait = lane.instrs[fault->where()->pos];
    EXPECT_THAT(lines_of(text).at(line), HasSubstr("wait " + describe(plan, wait.signal) + " >= "));
    EXPECT_THAT(fault->what(), AllOf(StartsWith(describe(lane) + " waited "),
                                     HasSubstr(" for " + describe(plan, wait.signal) + ": ")));
    EXPECT_TRUE(runner.has_met());
  }
  const Plan whole = plan_of(lost);
  PlanRunner next(whole, shared_fabric(kRanks), shared_compiler());
  GpuCheckOptions options;
  options.fills = {Fill::integers};
  options.runs = 2;
  options.replays = 4;
  const GpuCheckResult result = check_on_gpus(next, shared_fabric(kRanks), options);
  EXPECT_TRUE(result.verified()) << result.fault << result.first_wrong;
}

INSTANTIATE_TEST_SUITE_P(Gpu, LostNotifiesOnGpus, testing::ValuesIn(kLostNotifies),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace stretto::runtime
