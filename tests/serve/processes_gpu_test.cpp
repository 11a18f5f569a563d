// Plans of one process a GPU: right ones, and ones that a rank holds up or differs in.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "measure/operator_bench.h"
#include "run/compile_plans.h"
#include "run/lost_notifies.h"
#include "run/rank_processes.h"
#include "stretto/context.h"

namespace stretto::runtime {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;

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

TEST_F(PlansOfProcesses, ABenchmarkGoesOnBesideARefusedPlan) {
  EXPECT_EQ(launch_ranks("BenchesBesideARefusedPlan"), 0);
}

TEST_F(PlansOfProcesses, AnAlgorithmThatOneRankLacksIsNobodys) {
  EXPECT_EQ(launch_ranks("LacksAnAlgorithmThatItsPeerHas"), 0);
}

TEST_F(PlansOfProcesses, PlansThatDifferAreRefusedOnAll) {
  EXPECT_EQ(launch_ranks("MakesAnotherPlanThanItsPeer"), 0);
}

TEST_F(PlansOfProcesses, TensorsThatDoNotFitAreRefusedBeforeTheRun) {
  EXPECT_EQ(launch_ranks("HasATensorThatDoesNotFit"), 0);
}

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
  const Segment op = parse_segment("gemm-rs m=2048 n=4096 k=1024 ranks=2 dtype=bf16");
  Machine larger = machine_here(2);
  larger.sms *= 4;
  const Plan refused = lower(op, parse_schedule("sequential,tile=64x64", op, larger), larger);
  const Plan good = plan_here(to_string(op), "sequential");
  const PlanToTime plans[] = {{&refused}, {&good}};
  BenchOptions options;
  options.rounds = 3;
  const BenchTimes times = bench_operator(op, nullptr, plans, *fabric_, shared_compiler(), options);
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
    EXPECT_EQ(runner.not_proposed(), std::vector<NotProposed>({{0, 1, 1}}));
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

// Nothing is enqueued then, so nobody waits for the rank.
TEST_F(RankOfPlans, HasATensorThatDoesNotFit) {
  const Plan plan = plan_here("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", "tiles");
  const int rank = fabric_->first_rank();
  fabric_->device(rank).make_current();
  const cuda::DeviceMemory memory(512 * 512 * 2 + 16);
  PlanRunner runner(plan, *fabric_, shared_compiler(), {.tensors_at_calls = true});
  const auto run = [&](GpuAddress a) {
    const CallTensor tensors[] = {
        {"a", a}, {"b", memory.address()}, {"out", memory.address() + 512 * 256 * 2}};
    runner.enqueue(rank, runner.stream(rank).handle(), {}, tensors);
  };
  if (rank == 1) {
    EXPECT_THROW(run(memory.address() + 8), UsageError);
  }
  run(memory.address());
  EXPECT_EQ(finish(runner, 5), "");
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

}  // namespace
}  // namespace stretto::runtime
