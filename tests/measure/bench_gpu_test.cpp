// Benchmarks beside plans that these GPUs refuse, and with all of cuBLAS's algorithms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "measure/operator_bench.h"
#include "run/gpu_plans.h"

namespace stretto::runtime {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kOp = "gemm-rs m=2048 n=4096 k=1024 ranks=2 dtype=bf16";

BenchOptions three_rounds() {
  BenchOptions options;
  options.rounds = 3;
  options.parts = true;
  return options;
}

std::vector<PlanTimes> bench(const std::vector<Plan>& plans,
                             IfNotProposed if_not_proposed = IfNotProposed::refuse,
                             int most_proposals = kMostAlgorithms,
                             const BenchOptions& options = three_rounds()) {
  std::vector<PlanToTime> given;
  for (const Plan& plan : plans) given.push_back({&plan, if_not_proposed, most_proposals});
  return bench_operator(plans.front().op, nullptr, given, shared_fabric(2), shared_compiler(),
                        options)
      .plans;
}

class BenchOnGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(2); !why.empty()) STRETTO_SKIP(why);
    if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("ranks that share GPUs are not timed");
  }
};

TEST_F(BenchOnGpus, WhatIsRefusedTakesNoTurnAndEndsNothing) {
  Machine larger = machine_here(2);
  larger.sms *= 4;
  const Segment op = parse_segment(kOp);
  const Schedule schedule = parse_schedule("sequential,tile=64x64", op, larger);
  const std::vector<PlanTimes> found =
      bench({lower(op, schedule, larger), plan_here(kOp, "sequential")});
  EXPECT_THAT(found[0].refused, HasSubstr("SMs busy"));
  EXPECT_THAT(found[0].problem, IsEmpty());
  EXPECT_FALSE(found[0].timed());
  EXPECT_TRUE(found[1].timed()) << found[1].refused << found[1].problem;
  EXPECT_GT(found[1].times.warm.median, 0);
  EXPECT_TRUE(found[1].parts.has_value());
}

// The time of a run, not of the many that a long turn has.
TEST_F(BenchOnGpus, LongTurnsTakeTheirTimeAndTimeRuns) {
  const std::vector<Plan> plans = {plan_here(kOp, "tiles"), plan_here(kOp, "sequential")};
  const std::vector<PlanTimes> brief = bench(plans);
  BenchOptions options = three_rounds();
  options.turn_us = 40e3;
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<PlanTimes> found =
      bench(plans, IfNotProposed::refuse, kMostAlgorithms, options);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(took.count(), options.rounds * 5 * 0.5 * options.turn_us);  // also of the library path
  for (size_t i = 0; i < plans.size(); ++i) {
    ASSERT_TRUE(found[i].timed()) << found[i].refused << found[i].problem;
    EXPECT_GT(found[i].times.warm.median, brief[i].times.warm.median / 2);
    EXPECT_LT(found[i].times.warm.median, brief[i].times.warm.median * 2);
  }
}

TEST_F(BenchOnGpus, EveryAlgorithmIsRightOrRefused) {
  for (const std::string name : {"library", "low-latency", "decomposed,gemm=library"}) {
    std::vector<Plan> plans;
    for (int algorithm = 0; algorithm < kMostAlgorithms; ++algorithm) {
      plans.push_back(plan_here(kOp, name + ",algorithm=" + std::to_string(algorithm)));
    }
    const std::vector<PlanTimes> found = bench(plans);
    int timed = 0;
    for (const PlanTimes& one : found) {
      EXPECT_THAT(one.problem, IsEmpty()) << name;
      timed += one.timed();
    }
    EXPECT_TRUE(found[0].timed()) << name << found[0].refused;
    EXPECT_GT(timed, 1) << name;
  }
}

// What `auto` chose takes its turn by the first; what was asked for is refused.
TEST_F(BenchOnGpus, AnAlgorithmThatIsNotProposed) {
  for (const std::string name : {"library", "low-latency", "decomposed,gemm=library"}) {
    const std::vector<Plan> plans = {plan_here(kOp, name + ",algorithm=1"),
                                     plan_here(kOp, name + ",algorithm=2"), plan_here(kOp, name)};
    const auto chosen = bench(plans, IfNotProposed::take_first, 2);
    for (const PlanTimes& one : chosen) {
      EXPECT_TRUE(one.timed()) << name << one.refused << one.problem;
    }
    EXPECT_TRUE(chosen[0].not_proposed.empty()) << name;
    EXPECT_EQ(chosen[1].not_proposed, std::vector<NotProposed>({{0, 2, 2}})) << name;
    EXPECT_TRUE(chosen[2].not_proposed.empty()) << name;
    const auto named = bench(plans, IfNotProposed::refuse, 2);
    EXPECT_TRUE(named[0].timed()) << name << named[0].refused << named[0].problem;
    EXPECT_THAT(named[1].refused, HasSubstr("algorithm=2: cuBLAS proposes 2 ")) << name;
    EXPECT_TRUE(named[2].timed()) << name << named[2].refused << named[2].problem;
  }
}

}  // namespace
}  // namespace stretto::runtime
