// Ranks that come late to collectives, or never: they are named about when a wait's deadline is
// over, also by runs of a library's kernels only, and the runner is then as good as new.
//
// Estimates for 2 to 4 GPUs, of which most is NCCL: 2 to 4 s to connect for the first time, with
// each number of SMs, and 1 to 2 s again. Never: 25 s, and as much where kernels must be compiled;
// late: 12 s; low-latency: 10 s; graphs: 10 s, of which 6 s wait for them; a communicator shared:
// 8 s; many runs: 10 s.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu_plans.h"
#include "measure/gpu_check.h"
#include "measure/run_graphs.h"
#include "stall_guard.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kTimeoutNs = 300'000'000;
// To give NCCL up and connect again; 30 deadlines are what nobody shall wait for.
constexpr std::chrono::nanoseconds kSoon(30 * kTimeoutNs);
constexpr const char* kKinds[] = {"ag-gemm", "gemm-rs", "gemm-ar"};

class LateRanksOnGpus : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(ranks_); !why.empty()) STRETTO_SKIP(why);
    if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("NCCL serves one rank a GPU");
  }
  std::string op(const char* kind) const {
    return fmt::format("{} m=1024 n=1024 k=1024 ranks={} dtype=bf16", kind, ranks_);
  }
  fabric::Fabric& fabric() const { return shared_fabric(ranks_); }
  std::string ranks_from(int first) const {
    std::string text = ranks_ - first == 1 ? "rank" : "ranks";
    for (int rank = first; rank < ranks_; ++rank) {
      text += fmt::format("{} {}", rank == first ? "" : ",", rank);
    }
    return text;
  }
  void expect_right(PlanRunner& runner) {
    guard_.at("expect right results");
    const GpuCheckResult result = check_on_gpus(runner, fabric(), {});
    EXPECT_TRUE(result.verified()) << result.fault << result.first_wrong;
  }
  const int ranks_ = GetParam();
  StallGuard guard_;
};

// With kernels of ours besides, these are let go first.
TEST_P(LateRanksOnGpus, OneThatDoesNotComeToNcclIsNamed) {
  struct Planted {
    const char *schedule, *kind;
    int rounds;
  };
  for (const auto& [schedule, kind, rounds] :
       {Planted{"library", "ag-gemm", 1}, Planted{"library", "gemm-rs", 1},
        Planted{"library", "gemm-ar", 2}, Planted{"sequential", "gemm-rs", 1},
        Planted{"sequential", "ag-gemm", 1}, Planted{"waves", "gemm-ar", 2}}) {
    const std::string name = std::string(kind) + " " + schedule;
    SCOPED_TRACE(name);
    guard_.at("make " + name);
    const Plan plan = plan_here(op(kind), schedule);
    PlanRunner runner(plan, fabric(), shared_compiler(), {kTimeoutNs});
    for (int round = 0; round < rounds; ++round) {
      guard_.at(fmt::format("leave a rank of {} out, {}", name, round));
      EXPECT_THAT(error_of(runner, 0, 1, kSoon),
                  AllOf(HasSubstr(" waited 300 ms in a collective of NCCL"),
                        HasSubstr(fmt::format("to which rank {} did not come", ranks_ - 1))));
    }
    expect_right(runner);
  }
}

TEST_P(LateRanksOnGpus, OneThatComesLateToNcclIsNamed) {
  for (const char* kind : kKinds) {
    SCOPED_TRACE(kind);
    guard_.at(std::string("make ") + kind);
    const Plan plan = plan_here(op(kind), "library");
    PlanRunner runner(plan, fabric(), shared_compiler(), {kTimeoutNs});
    guard_.at("come late");
    EXPECT_EQ(
        error_of(runner, 4 * kTimeoutNs, 0, kSoon),
        ranks_from(1) + " waited 300 ms in a collective of NCCL, to which rank 0 did not come");
    expect_right(runner);
  }
}

TEST_P(LateRanksOnGpus, OneThatDoesNotComeToALowLatencyCollectiveIsNamed) {
  for (const char* kind : kKinds) {
    SCOPED_TRACE(kind);
    guard_.at(std::string("make ") + kind);
    const Plan plan = plan_here(op(kind), "low-latency");
    PlanRunner runner(plan, fabric(), shared_compiler(), {kTimeoutNs});
    guard_.at("leave a rank out");
    const std::string expected = fmt::format(" waited 300 ms for rank {}: ", ranks_ - 1);
    EXPECT_THAT(error_of(runner, 0, 1), HasSubstr(expected));
    expect_right(runner);
    EXPECT_THAT(error_of(runner, 0, 1), HasSubstr(expected));
    expect_right(runner);
  }
}

// Launches of graphs are not seen; that a rank has nothing more to do is. As long as there are
// graphs NCCL is not connected again.
TEST_P(LateRanksOnGpus, OneThatDoesNotLaunchItsGraphIsNamed) {
  const Plan plan = plan_here(op("gemm-ar"), "library");
  PlanRunner runner(plan, fabric(), shared_compiler(), {kTimeoutNs});
  {
    guard_.at("capture graphs");
    const RunGraphs graphs(runner, fabric(), 2);
    const auto launch = [&](int rank) { graphs.launch(rank); };
    guard_.at("launch them all");
    EXPECT_NO_THROW(graphs.time_us());
    guard_.at("leave a graph out");
    EXPECT_THAT(error_of(runner, launch, 1, kSoon),
                AllOf(HasSubstr(fmt::format("to which rank {} did not come", ranks_ - 1)),
                      HasSubstr("then: graphs that were captured")));
    EXPECT_FALSE(runner.has_met());
    guard_.at("run beside the graphs");
    EXPECT_THAT(error_of(runner), HasSubstr("call it again"));
    const auto nothing = [](int) {};
    EXPECT_THAT(error_of(runner, nothing, 0, kSoon), StartsWith("graphs that were captured"));
    guard_.at("end the graphs");
  }
  runner.finish();
  EXPECT_TRUE(runner.has_met());
  expect_right(runner);
}

// Another plan has the same communicator: it says so instead of going on with useless results.
TEST_P(LateRanksOnGpus, PlansThatShareACommunicatorConnectAgain) {
  const Plan plan = plan_here(op("gemm-ar"), "library");
  const Plan other_plan = plan_here(op("gemm-rs"), "library");
  PlanRunner runner(plan, fabric(), shared_compiler(), {kTimeoutNs});
  PlanRunner other(other_plan, fabric(), shared_compiler(), {kTimeoutNs});
  guard_.at("leave a rank out");
  EXPECT_THAT(error_of(runner, 0, 1, kSoon), HasSubstr("did not come"));
  guard_.at("run the other plan");
  EXPECT_THAT(error_of(other), HasSubstr("finish() connects them again"));
  const auto nothing = [](int) {};
  EXPECT_THAT(error_of(other, nothing, 0, kSoon), HasSubstr("were given up with another plan's"));
  expect_right(other);
  expect_right(runner);
}

TEST_P(LateRanksOnGpus, ManyRunsAreNoLateRank) {
  constexpr uint64_t kShortNs = 50'000'000;
  constexpr int kRuns = 400;
  for (const char* schedule : {"library", "low-latency"}) {
    SCOPED_TRACE(schedule);
    const Plan plan = plan_here(
        fmt::format("gemm-rs m=8192 n=8192 k={} ranks={} dtype=bf16", 8192 * ranks_, ranks_),
        schedule);
    guard_.at(std::string("make ") + schedule);
    PlanRunner runner(plan, fabric(), shared_compiler(), {kShortNs});
    const auto enqueue_all = [&] {
      for (int run = 0; run < kRuns; ++run) {
        for (int rank = 0; rank < ranks_; ++rank) {
          fabric().device(rank).make_current();
          runner.enqueue(rank);
        }
      }
    };
    guard_.at("many runs");
    const auto start = std::chrono::steady_clock::now();
    enqueue_all();
    EXPECT_NO_THROW(runner.finish());
    EXPECT_GT(std::chrono::steady_clock::now() - start, 4 * std::chrono::nanoseconds(kShortNs));
    guard_.at("many runs in graphs");
    const RunGraphs graphs(runner, fabric(), kRuns / 4);
    EXPECT_NO_THROW(graphs.time_us());
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, LateRanksOnGpus, testing::Values(2, 4, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace stretto::runtime
