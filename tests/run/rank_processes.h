// Plans of one process a GPU: a test starts this binary once a rank, for another of its tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabric/job.h"
#include "fabric/launcher.h"
#include "gpu_plans.h"
#include "measure/gpu_check.h"
#include "stall_guard.h"
#include "stretto/error.h"

namespace stretto::runtime {

inline constexpr const char* kInside = "STRETTO_TEST_INSIDE";

// Starts the ranks.
class PlansOfProcesses : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(2); !why.empty()) STRETTO_SKIP(why);
    if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("processes do not share GPUs");
  }
  // `said` hears what the launcher says of the ranks.
  static int launch_ranks(
      const std::string& test, int ranks = 2, const std::vector<std::string>& variables = {},
      const std::function<void(const std::string&)>& said = [](const std::string& line) {
        ADD_FAILURE() << line;
      }) {
    std::vector<std::string> command = {"/usr/bin/env", std::string(kInside) + "=1"};
    command.insert(command.end(), variables.begin(), variables.end());
    command.push_back("/proc/" + std::to_string(getpid()) + "/exe");
    command.push_back("--gtest_filter=RankOfPlans." + test);
    return fabric::launch(ranks, command, said);
  }
};

// One of them; its tests are skipped where nobody started them so.
class RankOfPlans : public testing::Test {
 protected:
  static constexpr uint64_t kTimeoutNs = 300'000'000;  // after which it gives up a wait
  void SetUp() override {
    if (std::getenv(kInside) == nullptr) GTEST_SKIP() << "a part of PlansOfProcesses";
    const char* ranks = std::getenv("STRETTO_RANKS");
    fabric_ = fabric::open_fabric(ranks == nullptr ? 2 : std::atoi(ranks));
  }
  void expect_right(const std::string& op, const std::string& schedule) {
    guard_.at(op + " " + schedule);
    const Plan plan = plan_here(op, schedule);
    PlanRunner runner(plan, *fabric_, shared_compiler());
    const GpuCheckResult result = check_on_gpus(runner, *fabric_, {});
    EXPECT_EQ(result.fault, "") << op << " " << schedule;
    EXPECT_EQ(result.wrong_elements, 0) << result.first_wrong;
    if (is_deterministic(parse_schedules(schedule, plan.op, machine_here(2)))) {
      EXPECT_TRUE(result.reproducible) << op << " " << schedule;
    }
  }
  // What finish() says, and within how many seconds.
  static std::string finish(PlanRunner& runner, double most_s) {
    const auto start = std::chrono::steady_clock::now();
    std::string error;
    try {
      runner.finish();
    } catch (const SystemError& caught) {
      error = caught.what();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::duration<double>(most_s));
    return error;
  }
  void enqueue(PlanRunner& runner) const {
    fabric_->device(fabric_->first_rank()).make_current();
    runner.enqueue(fabric_->first_rank());
  }
  // Once all have come, finish() returns, and the runner is as good as new.
  void expect_right_after_meeting(PlanRunner& runner) const {
    EXPECT_FALSE(runner.has_met());
    EXPECT_THROW(enqueue(runner), SystemError);
    for (int tries = 0; !runner.has_met() && tries < 50; ++tries) finish(runner, 10);
    ASSERT_TRUE(runner.has_met());
    const GpuCheckResult result = check_on_gpus(runner, *fabric_, {});
    EXPECT_TRUE(result.verified()) << result.fault << result.first_wrong;
  }
  std::unique_ptr<fabric::Fabric> fabric_;
  // Longer than the job's own 60 s for a rank to come; `at` where there is more than one step.
  StallGuard guard_{std::chrono::seconds(150)};
};

}  // namespace stretto::runtime
