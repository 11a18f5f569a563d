// Pooled look-ups on GPUs: with bags of every sort, of rows that vectors make up and others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "routing_cases.h"

namespace stretto::runtime {
namespace {

class LookUpsOnGpus : public testing::TestWithParam<RoutingCase> {};

TEST_P(LookUpsOnGpus, AreRightWhateverIsLookedUp) {
  const Plan plan = plan_of(GetParam());
  if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
  PlanRunner runner(plan, shared_fabric(plan.ranks()), shared_compiler());
  for (const RoutingKind routing : kRoutings) {
    SCOPED_TRACE(to_string(routing));
    const GpuCheckResult result = expect_right(runner, {routing});
    EXPECT_EQ(result.bad_ids > 0, routing == RoutingKind::adversarial);
  }
}

std::vector<RoutingCase> cases() {
  std::vector<RoutingCase> all;
  for (const int ranks : {1, 2, 4, 8}) {
    const std::vector<std::string> schedules =
        ranks == 1 ? std::vector<std::string>{"tiles", "sequential,tile=16x256"}
                   : std::vector<std::string>{"tiles", "slices", "tiles,tile=16x512,reuse=ack",
                                              "tiles,mover=comm-blocks,comm-sms=4", "decomposed"};
    for (const std::string& schedule : schedules) {
      for (const char* name : {"embedding-a2a", "embedding-a2a-mean", "embedding-a2a-i64"}) {
        all.push_back(
            {fmt::format("{} bags=203 tables={} rows=1000 dim=128 pool=13", name, 4 * ranks),
             schedule, ranks});
      }
      // Columns of which a warp has several bags, more than a warp has, and no whole vectors.
      for (const int dim : {16, 40, 320, 10}) {
        all.push_back(
            {fmt::format("embedding-a2a bags=61 tables={} rows=77 dim={} pool=5", 2 * ranks, dim),
             schedule, ranks, dim == 40 ? "fp16" : "bf16"});
      }
    }
    if (ranks == 1) continue;
    all.push_back({fmt::format("embedding-a2a bags=3 tables={} rows=9 dim=64 pool=2", ranks),
                   "slices", ranks});
    // The last rank has one table, the others two.
    all.push_back(
        {fmt::format("embedding-a2a bags=47 tables={} rows=33 dim=10 pool=5", 2 * ranks - 1),
         "tiles", ranks});
    all.push_back(
        {fmt::format("embedding-a2a bags=47 tables={} rows=33 dim=64 pool=6", 2 * ranks - 1),
         "sequential", ranks});
    for (const char* parts : {"split=2/tiles", "split=3/sequential"}) {
      all.push_back(
          {fmt::format("embedding-a2a bags=203 tables={} rows=99 dim=64 pool=7", 2 * ranks), parts,
           ranks});
    }
    all.push_back({fmt::format("embedding-a2a bags=90 tables={} rows=99 dim=64 pool=7", 2 * ranks),
                   "sequential", ranks});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, LookUpsOnGpus, testing::ValuesIn(cases_here(cases())),
                         name_of_case<testing::TestParamInfo<RoutingCase>>);

TEST(LookUpPlans, CanRunOnGpus) { expect_all_can_run(cases()); }

// Of indices that come with the run: what is no row of a table, but for -1.
TEST(LookUpsOnAGpu, CountWhatIsNoRow) {
  for (const char* name : {"embedding-a2a", "embedding-a2a-i64"}) {
    SCOPED_TRACE(name);
    const Plan plan =
        plan_of({fmt::format("{} bags=50 tables=2 rows=6 dim=64 pool=2", name), "tiles", 1});
    if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
    PlanRunner runner(plan, shared_fabric(1), shared_compiler());
    EXPECT_EQ(expect_right(runner, routing_with_bad(50, 4, {0, 13, 50, 199})).bad_ids, 4u);
  }
}

}  // namespace
}  // namespace stretto::runtime
