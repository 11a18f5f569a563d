// A notify that is never made, by every kind of lane and for every kind: the error names who waits
// for it, its peers are let go, and the next operator on the same fabric is right.
//
// About a second each, and 10 s at most for kernels that no cache has yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile_plans.h"
#include "lost_notifies.h"
#include "runtime/gpu_check.h"
#include "stall_guard.h"

namespace stretto::runtime {
namespace {

using testing::Contains;

constexpr uint64_t kTimeoutNs = 300'000'000;
constexpr int kRanks = 2;

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
  Plan plan = plan_of(lost);
  drop_notify(plan, lost.signal, lost.to, lost.from);
  {
    PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler(), {kTimeoutNs});
    const std::string error = error_of(runner, [&](int rank) { enqueue_runs(runner, lost, rank); });
    std::cout << error << "\n";
    EXPECT_THAT(errors_of(plan, lost, kTimeoutNs), Contains(error));
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
