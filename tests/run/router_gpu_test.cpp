// Routers on GPUs: choices and weights of the emulator's, and what is counted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emu/shared_reference.h"
#include "routing_cases.h"

namespace stretto::runtime {
namespace {

class RouterOnGpus : public testing::TestWithParam<RoutingCase> {};

TEST_P(RouterOnGpus, ChoosesAsTheReferenceDoes) {
  const Plan plan = plan_of(GetParam());
  if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
  PlanRunner runner(plan, shared_fabric(plan.ranks()), shared_compiler());
  EXPECT_EQ(expect_right(runner, {RoutingKind::uniform}).bad_ids, 0u);
}

std::vector<RoutingCase> cases() {
  std::vector<RoutingCase> all;
  for (const int ranks : {1, 2, 4, 8}) {
    const std::vector<std::string> schedules = ranks == 1
                                                   ? std::vector<std::string>{"sequential", "tiles"}
                                                   : std::vector<std::string>{"tiles", "slices"};
    for (const std::string& schedule : schedules) {
      for (const int tokens : {203, 5, 900}) {
        all.push_back(
            {fmt::format("moe-ep-router t={} h=512 f=96 experts={} k=3", tokens, 4 * ranks),
             schedule, ranks});
      }
      all.push_back({fmt::format("moe-tp-router t=203 h=512 f={} experts=12 k=4", 96 * ranks),
                     schedule, ranks});
      all.push_back({fmt::format("moe-ep-router-groups t=203 h=512 f=96 experts={} k=4 groups={} "
                                 "best={}",
                                 8 * ranks, 2 * ranks, ranks),
                     schedule, ranks, ranks == 2 ? "fp16" : "bf16"});
    }
    for (const char* name : {"moe-ep-slices", "moe-ep-slices-i64"}) {
      all.push_back({fmt::format("{} t=203 h=512 f=96 experts={} k=3 slices=2", name, 4 * ranks),
                     schedules.back(), ranks});
    }
    // All experts that there are, and more than a warp has lanes.
    all.push_back({"moe-ep-router t=61 h=256 f=64 experts=8 k=8", schedules[0], ranks});
    all.push_back({"moe-ep-router t=61 h=256 f=64 experts=160 k=6", schedules[0], ranks});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, RouterOnGpus, testing::ValuesIn(cases_here(cases())),
                         name_of_case<testing::TestParamInfo<RoutingCase>>);

TEST(RouterPlans, CanRunOnGpus) { expect_all_can_run(cases()); }

class ChosenOnGpus : public testing::TestWithParam<int> {};

// What it chose and how it weighed it are the caller's, and what ranks send one another.
TEST_P(ChosenOnGpus, IsHandedOver) {
  const int ranks = GetParam();
  for (const char* name : {"moe-ep-router-groups", "moe-tp-router"}) {
    const std::string shipped = print(*find_graph(name));
    const auto graph = parse_graph("graph chosen" + shipped.substr(shipped.find(" t ")) +
                                   "output ids rows\noutput weights rows\n");
    Sizes sizes = {{"t", 203}, {"h", 512}, {"f", 96 * ranks}, {"experts", 8 * ranks}, {"k", 3}};
    if (shipped.find("groups=") != std::string::npos) {
      sizes.insert(sizes.end(), {{"groups", 4}, {"best", 2}});
    }
    const Operator op = make_graph(graph, sizes, ranks, DType::bf16);
    const Machine machine = machine_here(ranks);
    const Plan plan = lower(op, parse_schedules("tiles", op, machine), machine);
    SCOPED_TRACE(to_string(op));
    if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
    PlanRunner runner(plan, shared_fabric(ranks), shared_compiler());
    EXPECT_EQ(expect_right(runner).bad_ids, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, ChosenOnGpus, testing::Values(1, 2, 4),
                         testing::PrintToStringParamName());

// A token with a NaN chooses nothing, its slots are counted, and its sum is zero.
TEST(RouterOnAGpu, CountsTheSlotsOfTokensWithNans) {
  const Plan plan = plan_of({"moe-ep-router t=50 h=512 f=96 experts=8 k=3", "sequential", 1});
  if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
  PlanRunner runner(plan, shared_fabric(1), shared_compiler());
  const Operator& op = plan.op;
  const auto reference = make_shared_reference(0);
  shared_fabric(1).device(0).make_current();
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    if (op.tensors[i].stage >= 0) continue;
    const auto values = reference->input(op, {}, static_cast<int>(i), 0);
    cuda::copy_to_gpu(runner.buffer(op.tensors[i].name, 0), values->data(), values->size());
  }
  constexpr uint16_t kNan = 0x7fc0;
  for (const uint64_t token : {3, 49}) {
    cuda::copy_to_gpu(runner.buffer("x", 0) + token * 512 * 2 + 6, &kNan, sizeof(kNan));
  }
  runner.enqueue(0);
  runner.finish();
  EXPECT_EQ(runner.bad_ids(), 6u);
  std::vector<uint16_t> sums(50 * 512);
  cuda::copy_from_gpu(sums.data(), runner.buffer("y", 0), sums.size() * 2);
  for (size_t token = 0; token < 50; ++token) {
    bool any = false;
    for (size_t column = 0; column < 512; ++column) any = any || sums[token * 512 + column] != 0;
    EXPECT_EQ(any, token != 3 && token != 49) << token;
  }
}

}  // namespace
}  // namespace stretto::runtime
