// Pooled look-ups on GPUs: with bags of every sort, of rows that vectors make up and others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gpu_plans.h"
#include "measure/gpu_check.h"
#include "tables/plan_limits.h"

namespace stretto::runtime {
namespace {

struct LookUpCase {
  std::string op, schedule;
  int ranks;
  const char* dtype = "bf16";
  friend void PrintTo(const LookUpCase& c, std::ostream* out) {
    *out << c.op << " " << c.schedule << " " << c.ranks;
  }
};

Plan plan_of(const LookUpCase& c) {
  const Operator op = parse_operator(fmt::format("{} ranks={} dtype={}", c.op, c.ranks, c.dtype));
  const Machine machine = machine_here(c.ranks);
  return lower(op, parse_schedules(c.schedule, op, machine), machine);
}

std::string why_no_case(const Plan& plan) {
  EXPECT_EQ(join(cuda::why_not_on_cuda(plan), "; "), "");
  if (cuda::ranks_a_gpu() > 1) {
    if (std::string why = why_not_shared_here(plan); !why.empty()) return why;
  }
  return why_not_here(plan.ranks());
}

class LookUpsOnGpus : public testing::TestWithParam<LookUpCase> {};

TEST_P(LookUpsOnGpus, AreRightWhateverIsLookedUp) {
  const Plan plan = plan_of(GetParam());
  if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
  fabric::Fabric& fabric = shared_fabric(GetParam().ranks);
  PlanRunner runner(plan, fabric, shared_compiler());
  for (const RoutingKind routing :
       {RoutingKind::uniform, RoutingKind::zipf, RoutingKind::one_hot, RoutingKind::adversarial}) {
    SCOPED_TRACE(to_string(routing));
    GpuCheckOptions options;
    options.routing = {routing, nullptr};
    options.runs = 2;
    options.replays = 5;
    const GpuCheckResult result = check_on_gpus(runner, fabric, options);
    ASSERT_EQ(result.fault, "");
    EXPECT_EQ(result.wrong_elements, 0) << result.first_wrong;
    EXPECT_LT(result.worst_error, 1);
    EXPECT_TRUE(result.reproducible);
    EXPECT_EQ(result.bad_ids > 0, routing == RoutingKind::adversarial);
  }
}

std::vector<LookUpCase> cases() {
  std::vector<LookUpCase> all;
  for (const int ranks : {1, 2, 4, 8}) {
    const std::vector<std::string> schedules =
        ranks == 1 ? std::vector<std::string>{"tiles", "sequential,tile=16x256"}
                   : std::vector<std::string>{"tiles", "slices", "tiles,tile=16x512,reuse=ack",
                                              "tiles,mover=comm-blocks,comm-sms=4", "decomposed"};
    for (const std::string& schedule : schedules) {
      for (const char* name : {"embedding-a2a", "embedding-a2a-mean"}) {
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
    all.push_back({fmt::format("embedding-a2a bags=90 tables={} rows=99 dim=64 pool=7", 2 * ranks),
                   "sequential", ranks});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, LookUpsOnGpus, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name =
      fmt::format("{}_{}_{}_{}", info.index, info.param.op, info.param.schedule, info.param.ranks);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

// Of a file of indices: what is no row of a table, but for -1.
TEST(LookUpsOnAGpu, CountWhatIsNoRow) {
  const Plan plan = plan_of({"embedding-a2a bags=50 tables=2 rows=6 dim=64 pool=2", "tiles", 1});
  if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
  auto table = std::make_shared<RoutingTable>();
  table->top_k = 4;
  for (int slot = 0; slot < 200; ++slot) table->ids.push_back(slot % 7 - 1);
  for (const int bad : {0, 13, 199}) table->ids[static_cast<size_t>(bad)] = 6 + bad * 1000;
  table->ids[50] = -2;
  fabric::Fabric& fabric = shared_fabric(1);
  PlanRunner runner(plan, fabric, shared_compiler());
  GpuCheckOptions options;
  options.routing.table = table;
  options.runs = 2;
  options.replays = 3;
  const GpuCheckResult result = check_on_gpus(runner, fabric, options);
  EXPECT_TRUE(result.verified()) << result.fault << result.first_wrong;
  EXPECT_EQ(result.bad_ids, 4u);
}

}  // namespace
}  // namespace stretto::runtime
