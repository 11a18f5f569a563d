// Plans of one process a GPU: this binary starts itself once a rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "fabric/job.h"
#include "fabric/launcher.h"
#include "gpu_plans.h"
#include "runtime/gpu_check.h"
#include "runtime/operator_bench.h"
#include "stall_guard.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

constexpr const char* kInside = "STRETTO_TEST_INSIDE";

class PlansOfProcesses : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(2); !why.empty()) STRETTO_SKIP(why);
    if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("processes do not share GPUs");
  }
  static int launch_ranks(const std::string& test) {
    return fabric::launch(
        2, {"/usr/bin/env", std::string(kInside) + "=1",
            "/proc/" + std::to_string(getpid()) + "/exe", "--gtest_filter=RankOfPlans." + test});
  }
};

TEST_F(PlansOfProcesses, PresetsAreRight) { EXPECT_EQ(launch_ranks("VerifiesPresets"), 0); }
TEST_F(PlansOfProcesses, AMissingNotifyIsNamedOnAllAndTheNextPlanWorks) {
  EXPECT_EQ(launch_ranks("MissesANotify"), 0);
}
TEST_F(PlansOfProcesses, ARankWithoutRunsIsNamedOnAll) { EXPECT_EQ(launch_ranks("HasNoRuns"), 0); }
TEST_F(PlansOfProcesses, AProcessThatSleepsIsNamedSoon) {
  EXPECT_EQ(launch_ranks("SleepsBeforeItsRun"), 0);
}
TEST_F(PlansOfProcesses, ABusyGpuIsNamedSoon) { EXPECT_EQ(launch_ranks("IsBusyBeforeItsRun"), 0); }

TEST_F(PlansOfProcesses, ABenchmarkGoesOnBesideARefusedPlan) {
  EXPECT_EQ(launch_ranks("BenchesBesideARefusedPlan"), 0);
}

TEST_F(PlansOfProcesses, AnAlgorithmThatOneRankLacksIsNobodys) {
  EXPECT_EQ(launch_ranks("LacksAnAlgorithmThatItsPeerHas"), 0);
}

TEST_F(PlansOfProcesses, PlansThatDifferAreRefusedOnAll) {
  EXPECT_EQ(launch_ranks("MakesAnotherPlanThanItsPeer"), 0);
}

class RankOfPlans : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv(kInside) == nullptr) GTEST_SKIP() << "a part of PlansOfProcesses";
    fabric_ = fabric::open_fabric(2);
  }
  void expect_right(const std::string& op, const std::string& schedule) {
    guard_.at(op + " " + schedule);
    const Plan plan = plan_here(op, schedule);
    PlanRunner runner(plan, *fabric_, shared_compiler());
    const GpuCheckResult result = check_on_gpus(runner, *fabric_, {});
    EXPECT_EQ(result.fault, "") << op << " " << schedule;
    EXPECT_EQ(result.wrong_elements, 0) << result.first_wrong;
    if (is_deterministic(parse_schedule(schedule, plan.op, machine_here(2)))) {
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

constexpr uint64_t kTimeoutNs = 300'000'000;
constexpr const char* kReduction = "gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16";

TEST_F(RankOfPlans, HasNoRuns) {
  struct Expected {
    const char *schedule, *error;
  };
  for (const auto& [schedule, expected] :
       {Expected{"library", "rank 0 waited 300 ms in a collective of NCCL, to which rank 1 did"},
        Expected{"waves", "rank 0 waited 300 ms in a collective of NCCL, to which rank 1 did"},
        Expected{"low-latency", " waited 300 ms for rank 1: "}, Expected{"tiles", "rank 0 "}}) {
    SCOPED_TRACE(schedule);
    guard_.at(schedule);
    const Plan plan = plan_here(kReduction, schedule);
    PlanRunner runner(plan, *fabric_, shared_compiler(), {kTimeoutNs});
    if (fabric_->first_rank() == 0) enqueue(runner);
    EXPECT_THAT(finish(runner, 5), HasSubstr(expected));
    EXPECT_TRUE(runner.has_met());
    const GpuCheckResult result = check_on_gpus(runner, *fabric_, {});
    EXPECT_TRUE(result.verified()) << result.fault << result.first_wrong;
  }
}

TEST_F(RankOfPlans, SleepsBeforeItsRun) {
  for (const char* schedule : {"library", "waves", "low-latency", "tiles"}) {
    SCOPED_TRACE(schedule);
    guard_.at(schedule);
    const Plan plan = plan_here(kReduction, schedule);
    PlanRunner runner(plan, *fabric_, shared_compiler(), {kTimeoutNs});
    if (fabric_->first_rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(10));
    enqueue(runner);
    EXPECT_THAT(finish(runner, 8), HasSubstr("rank 1 did not come to the end of a run"));
    expect_right_after_meeting(runner);
  }
}

// Behind other work on the same stream, for longer than others wait.
TEST_F(RankOfPlans, IsBusyBeforeItsRun) {
  for (const char* schedule : {"low-latency", "tiles"}) {
    SCOPED_TRACE(schedule);
    guard_.at(schedule);
    const Plan plan = plan_here(kReduction, schedule);
    PlanRunner runner(plan, *fabric_, shared_compiler(), {kTimeoutNs});
    fabric_->device(fabric_->first_rank()).make_current();
    if (fabric_->first_rank() == 1) runner.delay(1, 10'000'000'000);
    enqueue(runner);
    EXPECT_THAT(finish(runner, 8), AnyOf(HasSubstr("rank 1 does not come to the end of its runs"),
                                         HasSubstr("rank 1 did not come to the end of a run")));
    expect_right_after_meeting(runner);
  }
}

TEST_F(RankOfPlans, VerifiesPresets) {
  for (const char* kind : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
    for (const Preset& preset : presets()) {
      expect_right(std::string(kind) + " m=517 n=960 k=576 ranks=2 dtype=bf16",
                   std::string(preset.name));
    }
  }
}

TEST_F(RankOfPlans, BenchesBesideARefusedPlan) {
  const Operator op = parse_operator("gemm-rs m=2048 n=4096 k=1024 ranks=2 dtype=bf16");
  Machine larger = machine_here(2);
  larger.sms *= 4;
  const Plan refused = lower(op, parse_schedule("sequential,tile=64x64", op, larger), larger);
  const Plan good = plan_here(to_string(op), "sequential");
  const PlanToTime plans[] = {{&refused}, {&good}};
  BenchOptions options;
  options.rounds = 3;
  const BenchTimes times = bench_operator(op, plans, *fabric_, shared_compiler(), options);
  EXPECT_THAT(times.plans[0].refused, HasSubstr("SMs busy"));
  EXPECT_TRUE(times.plans[1].timed()) << times.plans[1].refused << times.plans[1].problem;
}

TEST_F(RankOfPlans, LacksAnAlgorithmThatItsPeerHas) {
  constexpr const char* kOp = "gemm-rs m=2048 n=4096 k=1024 ranks=2 dtype=bf16";
  RunnerOptions options;
  if (fabric_->first_rank() == 1) options.most_proposals = 1;
  for (const char* schedule : {"library,algorithm=1", "low-latency,algorithm=1"}) {
    SCOPED_TRACE(schedule);
    guard_.at(schedule);
    const Plan plan = plan_here(kOp, schedule);
    options.if_not_proposed = IfNotProposed::refuse;
    std::string error;
    try {
      PlanRunner(plan, *fabric_, shared_compiler(), options);
    } catch (const UsageError& caught) {
      error = caught.what();
    }
    EXPECT_THAT(error, HasSubstr("algorithm=1: cuBLAS proposes 1 "));
    options.if_not_proposed = IfNotProposed::take_first;
    PlanRunner runner(plan, *fabric_, shared_compiler(), options);
    EXPECT_EQ(runner.too_few_proposed(), 1);
    const GpuCheckResult result = check_on_gpus(runner, *fabric_, {});
    EXPECT_TRUE(result.verified()) << result.fault << result.first_wrong;
  }
}

// Of the same buffers and signals, so that nothing else would tell.
TEST_F(RankOfPlans, MakesAnotherPlanThanItsPeer) {
  constexpr const char* kOp = "gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16";
  const bool is_first = fabric_->first_rank() == 0;
  const Plan plan = plan_here(kOp, is_first ? "tiles,swizzle=8" : "tiles,swizzle=1");
  std::string error;
  try {
    PlanRunner(plan, *fabric_, shared_compiler());
  } catch (const UsageError& caught) {
    error = caught.what();
  }
  EXPECT_THAT(error, AllOf(HasSubstr("ranks disagree on a plan"), HasSubstr("swizzle=8"),
                           HasSubstr("swizzle=1")));
  expect_right(kOp, "tiles");
}

TEST_F(RankOfPlans, MissesANotify) {
  struct Planted {
    const char *schedule, *signal;
    LaneKind kind;
  };
  for (const auto& [schedule, signal, kind] : {Planted{"tiles", "slots.0", LaneKind::compute},
                                               Planted{"waves", "packed.0", LaneKind::compute},
                                               Planted{"decomposed", "slots.0", LaneKind::copy}}) {
    Plan plan = plan_here("gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16", schedule);
    drop_notify(plan, signal, 1, kind);
    PlanRunner runner(plan, *fabric_, shared_compiler(), {300'000'000});
    std::string error;
    try {
      fabric_->device(fabric_->first_rank()).make_current();
      runner.enqueue(fabric_->first_rank());
      runner.finish();
    } catch (const SystemError& caught) {
      error = caught.what();
    }
    EXPECT_THAT(error, AllOf(HasSubstr("rank 1 "), HasSubstr("waited 300 ms before"),
                             HasSubstr("for " + std::string(signal) + ": expected")))
        << schedule;
    expect_right("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", schedule);
  }
}

}  // namespace
}  // namespace stretto::runtime
