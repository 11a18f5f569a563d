// Plans of one process a GPU: this binary starts itself once a rank.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "compile_plans.h"
#include "fabric/job.h"
#include "fabric/launcher.h"
#include "gpu_plans.h"
#include "lost_notifies.h"
#include "runtime/gpu_check.h"
#include "runtime/operator_bench.h"
#include "stall_guard.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kInside = "STRETTO_TEST_INSIDE";
// For ranks that lose another: the schedule, and the folder for what they say.
constexpr const char* kSchedule = "STRETTO_TEST_SCHEDULE";
constexpr const char* kReports = "STRETTO_TEST_REPORTS";

class PlansOfProcesses : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(2); !why.empty()) STRETTO_SKIP(why);
    if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("processes do not share GPUs");
  }
  static int launch_ranks(const std::string& test, int ranks = 2,
                          const std::vector<std::string>& variables = {}) {
    std::vector<std::string> command = {"/usr/bin/env", std::string(kInside) + "=1"};
    command.insert(command.end(), variables.begin(), variables.end());
    command.push_back("/proc/" + std::to_string(getpid()) + "/exe");
    command.push_back("--gtest_filter=RankOfPlans." + test);
    return fabric::launch(ranks, command);
  }
};

TEST_F(PlansOfProcesses, PresetsAreRight) { EXPECT_EQ(launch_ranks("VerifiesPresets"), 0); }
TEST_F(PlansOfProcesses, AMissingNotifyIsNamedOnAllAndTheNextPlanWorks) {
  EXPECT_EQ(launch_ranks("MissesANotify"), 0);
}
TEST_F(PlansOfProcesses, MissingNotifiesOfEachKindAreNamedOnAll) {
  EXPECT_EQ(launch_ranks("MissesNotifiesOfEachKind"), 0);
}
TEST_F(PlansOfProcesses, ARankWithoutRunsIsNamedOnAll) { EXPECT_EQ(launch_ranks("HasNoRuns"), 0); }
TEST_F(PlansOfProcesses, AProcessThatSleepsIsNamedSoon) {
  EXPECT_EQ(launch_ranks("SleepsBeforeItsRun"), 0);
}
TEST_F(PlansOfProcesses, ABusyGpuIsNamedSoon) { EXPECT_EQ(launch_ranks("IsBusyBeforeItsRun"), 0); }

// The launcher can only return what the dead rank did, so survivors leave what they saw in files:
// the error, and once all that they had is given back, a second line.
class DeadRanksOfProcesses : public PlansOfProcesses {
 protected:
  void SetUp() override {
    PlansOfProcesses::SetUp();
    if (IsSkipped()) return;
    std::string name = (std::filesystem::temp_directory_path() / "stretto_dead_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  void expect_named(const std::string& schedule, int most_ranks, const std::string& own) {
    const int ranks = std::min(most_ranks, cuda::num_devices());
    EXPECT_EQ(launch_ranks("LosesAPeerInsideARun", ranks,
                           {std::string(kSchedule) + "=" + schedule,
                            std::string(kReports) + "=" + folder_.string()}),
              128 + SIGKILL);
    // The first whose wait expires lets the others go, who then have nothing of their own to tell.
    std::vector<std::string> errors;
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == 1) continue;
      SCOPED_TRACE(fmt::format("rank {} of {}", rank, ranks));
      std::ifstream file(folder_ / std::to_string(rank));
      std::string end;
      std::getline(file, errors.emplace_back());
      std::getline(file, end);
      std::cout << "rank " << rank << ": " << errors.back() << "\n";
      EXPECT_THAT(errors.back(), StartsWith("the process of rank 1 (pid "));
      EXPECT_THAT(errors.back(), HasSubstr(") ended before the end of a run"));
      EXPECT_EQ(end, "ended in time");
    }
    EXPECT_THAT(errors,
                Contains(AllOf(HasSubstr("; "), HasSubstr("waited 300 ms"), HasSubstr(own))));
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(DeadRanksOfProcesses, AreNamedByKernelsThatWait) { expect_named("tiles", 2, "for slots."); }
TEST_F(DeadRanksOfProcesses, AreNamedByStreamsThatWait) {
  expect_named("decomposed", 4, "for slots.");
}
TEST_F(DeadRanksOfProcesses, AreNamedInCollectivesOfNccl) {
  expect_named("library", 4, "in a collective of NCCL");
}
TEST_F(DeadRanksOfProcesses, AreNamedInLowLatencyCollectives) {
  expect_named("low-latency", 2, " for rank 1: ");
}

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
    Plan plan = plan_here(kReduction, schedule);
    drop_notify(plan, signal, 1, kind);
    PlanRunner runner(plan, *fabric_, shared_compiler(), {kTimeoutNs});
    enqueue(runner);
    EXPECT_THAT(finish(runner, 4), AllOf(HasSubstr("rank 1 "), HasSubstr("waited 300 ms before"),
                                         HasSubstr("for " + std::string(signal) + ": expected")))
        << schedule;
    expect_right("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", schedule);
  }
}

// By every kind of lane, for every kind.
TEST_F(RankOfPlans, MissesNotifiesOfEachKind) {
  std::vector<Plan> plans;
  for (const LostNotify& lost : kLostNotifies) plans.push_back(plan_of(lost));
  guard_.at("compile");
  compile_plans(plans);
  for (const LostNotify& lost : kLostNotifies) {
    SCOPED_TRACE(lost.name);
    guard_.at(lost.name);
    Plan plan = plan_of(lost);
    drop_notify(plan, lost.signal, lost.to, lost.from);
    PlanRunner runner(plan, *fabric_, shared_compiler(), {kTimeoutNs});
    fabric_->device(fabric_->first_rank()).make_current();
    enqueue_runs(runner, lost, fabric_->first_rank());
    EXPECT_THAT(errors_of(plan, lost, kTimeoutNs), Contains(finish(runner, 4)));
    EXPECT_TRUE(runner.has_met());
  }
  expect_right("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", "tiles");
}

// Rank 1 ends while all others have begun a run and wait in it.
TEST_F(RankOfPlans, LosesAPeerInsideARun) {
  const char *schedule = std::getenv(kSchedule), *reports = std::getenv(kReports);
  ASSERT_TRUE(schedule != nullptr && reports != nullptr);
  const int rank = fabric_->first_rank();
  const Plan plan = plan_here(
      fmt::format("gemm-rs m=1024 n=1024 k=1024 ranks={} dtype=bf16", fabric_->ranks()), schedule);
  std::string error;
  {
    PlanRunner runner(plan, *fabric_, shared_compiler(), {kTimeoutNs});
    if (rank != 1) enqueue(runner);
    fabric_->barrier();
    if (rank == 1) kill(getpid(), SIGKILL);
    guard_.at("finish without rank 1");
    error = finish(runner, 4);
    std::ofstream(std::filesystem::path(reports) / std::to_string(rank)) << error << "\n";
    EXPECT_FALSE(runner.has_met());
    guard_.at("end the runner");
  }
  guard_.at("end the fabric");
  fabric_.reset();
  std::ofstream(std::filesystem::path(reports) / std::to_string(rank), std::ios::app)
      << (HasFailure() ? "failed" : "ended in time") << "\n";
}

}  // namespace
}  // namespace stretto::runtime
