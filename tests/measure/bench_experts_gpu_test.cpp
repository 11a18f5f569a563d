// Benchmarks of operators whose rows choose experts: plans are verified by rows of the reference,
// beside cuBLAS an expert at a time and NCCL; and by ranks that share a GPU, which NCCL refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "measure/bench_tensors.h"
#include "measure/expert_rows.h"
#include "measure/library_plan.h"
#include "measure/operator_bench.h"
#include "run/routing_cases.h"

namespace stretto::runtime {
namespace {

class BenchOfExperts : public testing::TestWithParam<const char*> {};

TEST_P(BenchOfExperts, VerifiesAndTimesPlansBesideTheLibraryPath) {
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const RoutingCase tested{GetParam(), ranks == 1 ? "sequential" : "tiles,comm-sms=4", ranks};
    const Plan plan = plan_of(tested);
    if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
    BenchOptions options;
    options.rounds = 2;
    options.parts = true;
    if (takes_routing(plan.op)) options.routing.kind = RoutingKind::zipf;
    const bool has_nccl = cuda::ranks_a_gpu() == 1;
    const LibraryPlan library = library_plan(plan.op, machine_here(ranks));
    const std::vector<PlanToTime> plans = {{&plan}};
    const BenchTimes times =
        bench_operator(plan.op, has_nccl || ranks == 1 ? library.plan.get() : nullptr, plans,
                       shared_fabric(ranks), shared_compiler(), options);
    ASSERT_TRUE(times.plans[0].timed()) << times.plans[0].refused << times.plans[0].problem;
    EXPECT_GT(times.plans[0].error, 0);
    EXPECT_LT(times.plans[0].error, 1);
    EXPECT_GT(times.plans[0].times.warm.median, 0);
    ASSERT_TRUE(times.library.gemm.has_value());
    EXPECT_GT(times.library.gemm->warm.median, 0);
    EXPECT_EQ(times.library.collective.has_value(), has_nccl && ranks > 1);
    EXPECT_EQ(times.library.sequential.has_value(), has_nccl || ranks == 1)
        << times.library.problem;
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, BenchOfExperts,
                         testing::Values("moe-tp t=203 h=512 f=384 experts=12 k=3",
                                         "moe-tp-up t=203 h=512 f=384 experts=12 k=3",
                                         "moe-tp-down t=203 h=512 f=384 experts=12 k=3",
                                         "moe-tp-down-ar t=203 h=512 f=384 experts=12 k=3",
                                         "moe-ep t=203 h=512 f=192 experts=12 k=3",
                                         "moe-ep-shared t=203 h=512 f=192 s=256 experts=12 k=3",
                                         "moe-ep-slices t=203 h=512 f=96 experts=12 k=3 slices=2",
                                         "moe-ep-router t=203 h=512 f=192 experts=12 k=3",
                                         "moe-tp-router t=203 h=512 f=384 experts=12 k=3"));

// What is only moved has no products, and rows that are copied no error.
class BenchOfMovedRows : public testing::TestWithParam<const char*> {};

TEST_P(BenchOfMovedRows, VerifiesAndTimesPlansBesideTheLibraryPath) {
  for (const int ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    const RoutingCase tested{GetParam(), ranks == 1 ? "sequential" : "low-latency", ranks};
    const Plan plan = plan_of(tested);
    if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
    BenchOptions options;
    options.rounds = 2;
    options.routing.kind = RoutingKind::zipf;
    const bool has_nccl = cuda::ranks_a_gpu() == 1;
    const LibraryPlan library = library_plan(plan.op, machine_here(ranks));
    const std::vector<PlanToTime> plans = {{&plan}};
    const BenchTimes times =
        bench_operator(plan.op, has_nccl || ranks == 1 ? library.plan.get() : nullptr, plans,
                       shared_fabric(ranks), shared_compiler(), options);
    ASSERT_TRUE(times.plans[0].timed()) << times.plans[0].refused << times.plans[0].problem;
    EXPECT_LT(times.plans[0].error, 1);
    EXPECT_GT(times.plans[0].times.warm.median, 0);
    EXPECT_FALSE(times.library.gemm.has_value());
    EXPECT_EQ(times.library.collective.has_value(), has_nccl && ranks > 1);
    EXPECT_EQ(times.library.sequential.has_value(), has_nccl || ranks == 1)
        << times.library.problem;
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, BenchOfMovedRows,
                         testing::Values("dispatch t=203 h=512 experts=12 k=3",
                                         "combine t=203 h=512 experts=12 k=3",
                                         "dispatch-combine t=203 h=512 experts=12 k=3"));

// A slip of one plan is seen, whatever else is timed.
TEST(BenchOfAnExpert, FindsWrongRows) {
  const Plan plan = plan_of({"moe-ep t=64 h=512 f=192 experts=6 k=2", "sequential", 1});
  if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
  fabric::Fabric& fabric = shared_fabric(1);
  const BenchTensors tensors(plan.op, fabric, shared_compiler());
  PlanRunner runner(plan, fabric, shared_compiler());
  tensors.copy_inputs(runner);
  fabric.device(0).make_current();
  runner.enqueue(0);
  runner.finish();
  EXPECT_EQ(tensors.verdict_of(runner).problem, "");
  EXPECT_NE(tensors.verdict_of(runner).problem, "") << "looked at twice: it is poison then";
}

}  // namespace
}  // namespace stretto::runtime
