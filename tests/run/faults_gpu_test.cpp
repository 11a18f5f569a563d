// A missing notify on GPUs: an error in time that says where, and the next operator works.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu_plans.h"
#include "measure/gpu_check.h"
#include "measure/run_graphs.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kTimeoutNs = 300'000'000;

class FaultsOnGpus : public BrokenRunsOnGpus {
 protected:
  static void expect_works(const std::string& schedule) {
    const Plan plan = plan_here("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", schedule);
    PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler());
    const GpuCheckResult result = check_on_gpus(runner, shared_fabric(kRanks), {});
    EXPECT_EQ(result.fault, "");
    EXPECT_EQ(result.wrong_elements, 0) << result.first_wrong;
  }
};

TEST_F(FaultsOnGpus, KernelsWaitNamesWhoWaitsForWhat) {
  Plan plan = plan_here("gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16", "tiles");
  drop_notify(plan, "slots.0", 1, LaneKind::compute);
  PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler(), {kTimeoutNs});
  const std::string error = error_of(runner);
  EXPECT_THAT(error, AllOf(HasSubstr("rank 1 "), HasSubstr("waited 300 ms before tile"),
                           HasSubstr("for slots.0: expected")));
  // The same runner again: the same answer, so counters were reset.
  EXPECT_EQ(error_of(runner), error);
  expect_works("tiles");
}

// Some block of the GEMM kernel awaits it behind its own tiles, for the lane that the plan names.
TEST_F(FaultsOnGpus, TheMissingTileOfAPeerIsNamedAtTheEndOfTheKernel) {
  Plan plan = plan_here("gemm-ar m=1024 n=1024 k=512 ranks=2 dtype=bf16", "tiles");
  drop_notify(plan, "out.9", 1, LaneKind::compute);
  PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler(), {kTimeoutNs});
  const std::string error = error_of(runner);
  EXPECT_THAT(error, AllOf(HasSubstr("rank 1 compute 0 waited 300 ms before it delivers"),
                           HasSubstr("for out.9: expected 1, seen 0")));
  EXPECT_EQ(error_of(runner), error);
  expect_works("tiles");
}

TEST_F(FaultsOnGpus, StreamsWaitEndsThoughItHasNoDeadlineOfItsOwn) {
  const std::string op = "gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16";
  if (const std::string why = why_not_here(op, "waves"); !why.empty()) STRETTO_SKIP(why);
  Plan plan = plan_here(op, "waves");
  drop_notify(plan, "packed.0", 1, LaneKind::compute);
  for (const bool stream_waits : {true, false}) {
    PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler(), {kTimeoutNs, stream_waits});
    EXPECT_THAT(error_of(runner),
                AllOf(HasSubstr("rank 1 nccl 0 waited 300 ms before collective 0"),
                      HasSubstr("for packed.0: expected")));
    expect_works("waves");
  }
}

// Rank 0 gets no slots, since rank 1 does not begin to copy: the wait of rank 1 is the cause.
TEST_F(FaultsOnGpus, TheWaitThatAnotherRanksFollowsFromIsNamed) {
  Plan plan = plan_here("gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16", "decomposed");
  drop_notify(plan, "part.0", 1, LaneKind::compute);
  for (const bool stream_waits : {true, false}) {
    PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler(), {kTimeoutNs, stream_waits});
    for (int again = 0; again < 3; ++again) {
      EXPECT_THAT(error_of(runner), AllOf(HasSubstr("rank 1 copy 0 waited 300 ms before"),
                                          HasSubstr("for part.0: expected")));
    }
    expect_works("decomposed");
  }
}

// The same where rank 0 is in a collective of the device language, which awaits rank 1's data.
TEST_F(FaultsOnGpus, TheWaitBeforeALowLatencyCollectiveIsNamed) {
  Plan plan = plan_here("gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16",
                        "sequential,collectives=low-latency");
  drop_notify(plan, "part.0", 1, LaneKind::compute);
  for (const bool stream_waits : {true, false}) {
    PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler(), {kTimeoutNs, stream_waits});
    for (int again = 0; again < 3; ++again) {
      EXPECT_THAT(error_of(runner), AllOf(HasSubstr("rank 1 nccl 0 waited 300 ms before"),
                                          HasSubstr("for part.0: expected")));
    }
    expect_works("sequential,collectives=low-latency");
  }
}

TEST_F(FaultsOnGpus, CopyLanesMissingNotifyIsFound) {
  Plan plan = plan_here("gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16", "decomposed");
  drop_notify(plan, "slots.0", 0, LaneKind::copy);
  PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler(), {kTimeoutNs});
  EXPECT_THAT(error_of(runner), AllOf(HasSubstr("rank 0 compute 0 waited 300 ms before boundary"),
                                      HasSubstr("for slots.0: expected 1, seen 0")));
  expect_works("decomposed");
}

// Plain copies wait for the default stream, and for all that wait for it: they would never return.
TEST_F(FaultsOnGpus, AMissingNotifyIsFoundOnStreamsThatCopiesWaitFor) {
  Plan plan = plan_here("gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16", "decomposed");
  drop_notify(plan, "slots.0", 0, LaneKind::copy);
  PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler(), {kTimeoutNs});
  const auto expect_found = [&](const std::vector<cuda::StreamHandle>& streams) {
    const auto enqueue = [&](int rank) {
      runner.enqueue(rank, streams[static_cast<size_t>(rank)]);
      // Like the tables of a plan that is made meanwhile.
      const uint64_t written = 5;
      uint64_t read = 0;
      cuda::copy_to_gpu(runner.buffer("b", rank), &written, sizeof(written));
      cuda::copy_from_gpu(&read, runner.buffer("b", rank), sizeof(read));
      EXPECT_EQ(read, written);
    };
    EXPECT_THAT(error_of(runner, enqueue),
                AllOf(HasSubstr("rank 0 compute 0 waited 300 ms before boundary"),
                      HasSubstr("for slots.0: expected 1, seen 0")));
  };
  expect_found({nullptr, nullptr});
  std::vector<cuda::StreamHandle> blocking(kRanks, nullptr);
  for (int rank = 0; rank < kRanks; ++rank) {
    shared_fabric(kRanks).device(rank).make_current();
    cuda::check(cuda::driver().stream_create(&blocking[static_cast<size_t>(rank)], 0, 0), "make");
  }
  expect_found(blocking);
  for (int rank = 0; rank < kRanks; ++rank) {
    shared_fabric(kRanks).device(rank).make_current();
    cuda::check(cuda::driver().stream_destroy(blocking[static_cast<size_t>(rank)]), "end");
  }
  expect_works("decomposed");
}

TEST_F(FaultsOnGpus, TheMissingPhaseOfATileIsNamed) {
  const std::string schedule = "tiles,tile=128x128,mover=copy-engine,k-phases=4";
  Plan plan = plan_here("ag-gemm m=512 n=128 k=512 ranks=2 dtype=bf16", schedule);
  drop_notify(plan, "ag.2", 1, LaneKind::copy);
  PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler(), {kTimeoutNs});
  const std::string error = error_of(runner);
  EXPECT_THAT(error, AllOf(HasSubstr("rank 1 compute "), HasSubstr("waited 300 ms before tile 0"),
                           HasSubstr("for ag.2: expected 1, seen 0")));
  EXPECT_EQ(error_of(runner), error);
  expect_works("tiles");
}

// Counters start at 0 again, and so do the values that copy engines copy into them.
TEST_F(FaultsOnGpus, CopiedNotifiesAreRightAfterAnAbortedRun) {
  for (const char* schedule : {"decomposed,sync=flag", "decomposed,sync=flag,reuse=double"}) {
    const Plan plan = plan_here("gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16", schedule);
    PlanRunner runner(plan, shared_fabric(kRanks), shared_compiler(), {kTimeoutNs});
    for (int round = 0; round < 2; ++round) {
      GpuCheckOptions options;
      options.runs = 3;
      const GpuCheckResult result = check_on_gpus(runner, shared_fabric(kRanks), options);
      EXPECT_TRUE(result.verified()) << result.fault << result.first_wrong;
      EXPECT_THAT(error_of(runner, 3 * kTimeoutNs), HasSubstr("waited 300 ms"));
    }
  }
}

TEST_F(FaultsOnGpus, OperatorsAlternateOnOneGroup) {
  fabric::Fabric& fabric = shared_fabric(kRanks);
  const Plan first = plan_here("ag-gemm m=1024 n=1024 k=512 ranks=2 dtype=bf16", "tiles");
  const std::string other = "gemm-rs m=1024 n=512 k=1024 ranks=2 dtype=bf16";
  const Plan second = plan_here(other, why_not_here(other, "waves").empty() ? "waves" : "slices");
  PlanRunner one(first, fabric, shared_compiler()), two(second, fabric, shared_compiler());
  GpuCheckOptions options;
  options.runs = 1;
  options.replays = 2;
  for (uint64_t round = 0; round < 5; ++round) {
    options.seed = options.data_seed = round + 1;
    for (PlanRunner* runner : {&one, &two}) {
      const GpuCheckResult result = check_on_gpus(*runner, fabric, options);
      EXPECT_TRUE(result.verified()) << result.fault << result.first_wrong;
    }
  }
}

TEST_F(FaultsOnGpus, GraphOfTheWrongNumberOfRunsIsAnError) {
  const Plan plan =
      plan_here("gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16", "decomposed,reuse=double");
  fabric::Fabric& fabric = shared_fabric(kRanks);
  PlanRunner runner(plan, fabric, shared_compiler(), {kTimeoutNs});
  ASSERT_EQ(runner.runs_per_graph(), 2);
  const RunGraphs graphs(runner, fabric, 1);
  std::string error;
  try {
    for (int i = 0; i < 2; ++i) graphs.time_us();
  } catch (const SystemError& caught) {
    error = caught.what();
  }
  EXPECT_THAT(error, HasSubstr("capture a multiple of 2 runs"));
}

// Of many ranks: the wait that is told is the one that nothing else explains.
class FaultsOfManyRanksOnGpus : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(ranks_); !why.empty()) STRETTO_SKIP(why);
  }
  std::string op(const char* kind) const {
    return fmt::format("{} m={} n={} k={} ranks={} dtype=bf16", kind, 128 * ranks_, 128 * ranks_,
                       128 * ranks_, ranks_);
  }
  static std::string wrong(PlanRunner& runner) {
    const GpuCheckResult result = check_on_gpus(runner, shared_fabric(runner.plan().ranks()), {});
    return result.verified() ? "" : result.fault + result.first_wrong;
  }
  const int ranks_ = GetParam();
};

TEST_P(FaultsOfManyRanksOnGpus, AMissingNotifyIsNamed) {
  Plan plan = plan_here(op("gemm-rs"), "tiles");
  drop_notify(plan, "slots.0", ranks_ - 1, LaneKind::compute);
  PlanRunner runner(plan, shared_fabric(ranks_), shared_compiler(), {kTimeoutNs});
  const std::string error = error_of(runner);
  EXPECT_THAT(error, AllOf(HasSubstr(fmt::format("rank {} ", ranks_ - 1)),
                           HasSubstr("waited 300 ms before tile"), HasSubstr("for slots.0")));
  EXPECT_EQ(error_of(runner), error);
}

TEST_P(FaultsOfManyRanksOnGpus, ARunnerIsAsGoodAsNewAfterALateRankAndOneThatDoesNotCome) {
  for (const char* schedule : {"tiles", "tiles,comm-sms=4,reuse=ack",
                               "tiles,mover=copy-engine,reuse=ack", "decomposed,reuse=double"}) {
    for (const char* kind : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
      SCOPED_TRACE(std::string(kind) + " " + schedule);
      const Plan plan = plan_here(op(kind), schedule);
      PlanRunner runner(plan, shared_fabric(ranks_), shared_compiler(), {kTimeoutNs});
      EXPECT_EQ(wrong(runner), "");
      EXPECT_THAT(error_of(runner, 3 * kTimeoutNs), HasSubstr("waited 300 ms"));
      EXPECT_EQ(wrong(runner), "");
      EXPECT_THAT(error_of(runner, 0, 1), HasSubstr("waited 300 ms"));
      EXPECT_EQ(wrong(runner), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, FaultsOfManyRanksOnGpus, testing::Values(4, 7, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace stretto::runtime
