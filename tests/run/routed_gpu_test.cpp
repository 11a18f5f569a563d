// Operators whose rows choose experts, on GPUs: under every routing, with partitions of all tokens
// and of each source's, and replayed while the routing changes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "emu/shared_reference.h"
#include "measure/run_graphs.h"
#include "routing_cases.h"
#include "stretto/emulate.h"

namespace stretto::runtime {
namespace {

class RoutedOnGpus : public testing::TestWithParam<RoutingCase> {};

TEST_P(RoutedOnGpus, AreRightUnderEveryRouting) {
  const Plan plan = plan_of(GetParam());
  if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
  PlanRunner runner(plan, shared_fabric(plan.ranks()), shared_compiler());
  for (const RoutingKind routing : kRoutings) {
    SCOPED_TRACE(to_string(routing));
    expect_right(runner, {routing});
  }
}

// First halves, whose rows nobody adds up: ids alone come with tokens. Of few and many choices a
// token; fewer tokens than ranks; by our own tiles; and so many choices that a kernel of their own
// makes the partition.
void add_halves_by_ids(int ranks, std::vector<RoutingCase>& all) {
  const auto add = [&](const std::string& name, const char* sizes, int columns,
                       const char* schedule, const char* dtype = "bf16") {
    all.push_back(
        {fmt::format("{} {} f={}", name, sizes, columns * ranks), schedule, ranks, dtype});
  };
  for (const char* k : {"t=77 h=1024 experts=9 k=2", "t=77 h=1024 experts=9 k=8"}) {
    add("moe-tp-up", k, 72, "low-latency");
  }
  add("moe-tp-up-i64", "t=1201 h=1024 experts=9 k=3", 72, "low-latency", "fp16");
  add("moe-tp-up", "t=1 h=512 experts=5 k=1", 64, "low-latency");
  add("moe-tp-up", "t=203 h=512 experts=12 k=3", 96, "low-latency,gemm=tiles,tile=32x64");
  add("moe-tp-up", "t=9001 h=72 experts=9 k=8", 16, "low-latency");
}

std::vector<RoutingCase> cases() {
  std::vector<RoutingCase> all;
  for (const int ranks : {1, 2, 4, 8}) {
    // Ragged, fewer tokens than ranks, and several entries of an expert.
    for (const int tokens : {203, 5, 900}) {
      const auto sizes = [&](int experts) {
        return fmt::format("t={} h=512 f={} experts={} k=3", tokens, 96 * ranks, experts);
      };
      const std::vector<std::string> schedules =
          ranks == 1 ? std::vector<std::string>{"sequential", "sequential,tile=128x64,permute=pass",
                                                "tiles,permute=pass", "library",
                                                "library,tile=24x128,permute=pass"}
                     : std::vector<std::string>{
                           "tiles,comm-sms=4,granularity=whole",
                           "tiles,comm-sms=4,granularity=chunk,tile=64x128,permute=pass",
                           "tiles,comm-sms=4,granularity=whole,permute=pass",
                           "tiles,comm-sms=3,granularity=chunk,reuse=ack"};
      for (const std::string& schedule : schedules) {
        all.push_back({"moe-tp " + sizes(12), schedule, ranks});
        all.push_back({"moe-ep " + sizes(3 * ranks), schedule, ranks});
        all.push_back({"moe-tp-up " + sizes(12), schedule, ranks});
        all.push_back({"moe-tp-down " + sizes(12), schedule, ranks});
        all.push_back({"moe-tp-down-ar " + sizes(12), schedule, ranks});
        if (schedule.starts_with("library") || schedule.find("reuse") != std::string::npos)
          continue;
        for (const char* name : {"dispatch", "combine", "dispatch-combine"}) {
          all.push_back({fmt::format("{} t={} h=512 experts={} k=3", name, tokens, 3 * ranks),
                         schedule, ranks});
        }
      }
    }
    // Columns that are no multiple of a vector of sums, low and odd entries, another type.
    const std::string schedule = ranks == 1 ? "sequential" : "tiles,comm-sms=4";
    all.push_back({fmt::format("moe-tp t=77 h=200 f={} experts=7 k=2", 40 * ranks),
                   schedule + ",tile=24x80", ranks, "fp16"});
    all.push_back({fmt::format("moe-tp-up t=77 h=200 f={} experts=7 k=2", 40 * ranks),
                   schedule + ",tile=24x80", ranks, "fp16"});
    all.push_back({fmt::format("moe-tp-up t=150 h=264 f={} experts=5 k=1", 320 * ranks),
                   schedule + ",tile=256x64", ranks});
    all.push_back({fmt::format("moe-ep t=77 h=328 f=136 experts={} k=1", 2 * ranks),
                   schedule + ",tile=8x64", ranks});
    if (ranks == 1) {
      all.push_back({"moe-tp t=300 h=200 f=328 experts=7 k=2", "library", 1, "fp16"});
      all.push_back({"moe-ep t=2000 h=1024 f=704 experts=5 k=2", "library", 1});
      all.push_back({"moe-tp-i64 t=2000 h=1024 f=704 experts=7 k=3", "library,permute=load", 1});
    }
    // So many choices that blocks make partitions in parts.
    for (const std::string of : {"moe-tp", "moe-ep", "moe-tp-up-i64"}) {
      all.push_back({fmt::format("{} t=4099 h=128 f={} experts={} k=4", of, 64 * ranks, 9 * ranks),
                     schedule, ranks});
    }
    // An expert of every token beside those that tokens choose.
    all.push_back({fmt::format("moe-ep-shared t=203 h=512 f=96 s=136 experts={} k=3", 3 * ranks),
                   schedule, ranks});
    // Ids of 64 bits.
    for (const char* name : {"moe-tp-i64", "moe-ep-i64", "moe-tp-up-i64", "moe-tp-down-i64"}) {
      all.push_back({fmt::format("{} t=203 h=512 f={} experts={} k=3", name, 96 * ranks, 3 * ranks),
                     schedule, ranks});
    }
    // Rows alone: of another type, wider than a warp's piece, of one choice, and of uneven shares.
    all.push_back(
        {fmt::format("dispatch-i64 t=77 h=328 experts={} k=2", ranks == 1 ? 2 : 3 * ranks - 1),
         schedule + ",tile=24x80", ranks, "fp16"});
    all.push_back({fmt::format("dispatch t=130 h=7168 experts={} k=1", 2 * ranks),
                   schedule + ",tile=16x64", ranks});
    all.push_back({fmt::format("combine t=130 h=7168 experts={} k=8", 16 * ranks),
                   schedule + ",tile=16x64", ranks});
    if (ranks > 1) {
      // Parts of the tokens, each with a partition of its own or blocks of one.
      for (const char* name : {"moe-tp", "moe-tp-up", "moe-tp-down", "moe-tp-down-ar"}) {
        all.push_back({fmt::format("{} t=203 h=512 f={} experts=12 k=3", name, 96 * ranks),
                       "split=2/tiles,comm-sms=4", ranks});
      }
      all.push_back({fmt::format("moe-ep t=203 h=512 f=96 experts={} k=3", 3 * ranks),
                     "split=3/tiles,comm-sms=4", ranks});
      // Tokens by copy engines: all ahead of products, or source by source behind the own ones.
      for (const int tokens : {203, 5, 4099}) {
        for (const char* by :
             {"library,granularity=chunk", "library,granularity=chunk,permute=pass", "library",
              "sequential,granularity=chunk"}) {
          const auto sizes = [&](int experts) {
            return fmt::format("t={} h=512 f={} experts={} k=3", tokens, 96 * ranks, experts);
          };
          const std::string of_up = std::string(by) + ",mover=copy-engine";
          const std::string both = of_up + "/y:" + of_up + ",reduction=slots";
          all.push_back({"moe-tp " + sizes(12), both, ranks});
          all.push_back({"moe-ep " + sizes(3 * ranks), both, ranks});
          all.push_back({"moe-tp-up-i64 " + sizes(12), of_up, ranks, "fp16"});
        }
      }
      for (const char* name : {"dispatch", "combine", "dispatch-combine"}) {
        all.push_back({fmt::format("{} t=203 h=512 experts={} k=3", name, 3 * ranks - 1),
                       "low-latency", ranks});
        all.push_back({fmt::format("{} t=7 h=7168 experts={} k=8", name, 4 * ranks), "low-latency",
                       ranks, "fp16"});
        all.push_back({fmt::format("{}-i64 t=130 h=1024 experts={} k=5", name, 5 * ranks),
                       "low-latency", ranks});
      }
      const std::string uneven =
          fmt::format("moe-ep t=203 h=512 f=384 experts={} k=3", 3 * ranks - 1);
      all.push_back({uneven, "low-latency", ranks});
      all.push_back({uneven, "low-latency,gemm=tiles,tile=32x64", ranks, "fp16"});
      // Each rank has a part of every expert: few tokens, and so many that sums have a kernel of
      // their own, of two, four and eight terms at once.
      constexpr int kManyTokens = 1201;  // for two ranks, or more that share two GPUs
      for (const int top_k : {2, 3, 8}) {
        const auto sizes = [&](int tokens) {
          return fmt::format("t={} h=1024 f={} experts=9 k={}", tokens, 72 * ranks, top_k);
        };
        all.push_back({"moe-tp " + sizes(77), "low-latency", ranks});
        all.push_back({"moe-tp " + sizes(kManyTokens), "low-latency", ranks});
        all.push_back({"moe-tp " + sizes(kManyTokens), "a:library,mover=copy-engine/y:low-latency",
                       ranks, "fp16"});
        all.push_back({"moe-tp-down " + sizes(kManyTokens), "low-latency", ranks});
      }
      all.push_back({uneven, "tiles,comm-sms=4,granularity=whole", ranks});
      all.push_back({uneven, "tiles,comm-sms=4,granularity=chunk", ranks});
      all.push_back({fmt::format("moe-tp-down t=130 h=512 f={} experts=9 k=4", 64 * ranks),
                     "tiles,comm-sms=4,partials=fp32", ranks});
      all.push_back(
          {fmt::format("moe-tp t=130 h=512 f={} experts=9 k=4", 64 * ranks), "sequential", ranks});
    }
  }
  for (const int ranks : {2, 4, 8}) add_halves_by_ids(ranks, all);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, RoutedOnGpus, testing::ValuesIn(cases_here(cases())),
                         name_of_case<testing::TestParamInfo<RoutingCase>>);

TEST(RoutedPlans, CanRunOnGpus) { expect_all_can_run(cases()); }

// One graph, a routing a launch: bits are those of eager runs with the same inputs.
class ReplayedRoutings : public testing::TestWithParam<RoutingCase> {
 protected:
  // All of them, or only those that say which experts rows choose.
  void write_inputs(PlanRunner& runner, fabric::Fabric& fabric, const InputData& data,
                    bool only_routing = false) {
    const Operator& op = runner.plan().op;
    for (int rank = 0; rank < op.ranks; ++rank) {
      fabric.device(rank).make_current();
      for (size_t i = 0; i < op.tensors.size(); ++i) {
        if (op.tensors[i].stage >= 0) continue;
        if (only_routing && op.tensors[i].name != "ids" && op.tensors[i].name != "weights")
          continue;
        const auto values = reference_->input(op, data, static_cast<int>(i), rank);
        cuda::copy_to_gpu(runner.buffer(op.tensors[i].name, rank), values->data(), values->size());
      }
    }
  }
  static std::string name_of_output(const Plan& plan) {
    return plan.op.tensor(plan.op.outputs[0].tensor).name;
  }
  static size_t output_bytes(const Plan& plan, int rank) {
    const OperatorOutput& output = plan.op.outputs[0];
    const Slice slice = slice_of(plan.op, output.tensor, output.held, rank);
    return static_cast<size_t>(slice.rows() * slice.cols()) * 2;
  }
  void poison_output(PlanRunner& runner, fabric::Fabric& fabric) {
    const Plan& plan = runner.plan();
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      fabric.device(rank).make_current();
      const std::vector<std::byte> bad(output_bytes(plan, rank), std::byte{0xff});
      if (bad.empty()) continue;
      cuda::copy_to_gpu(runner.buffer(name_of_output(plan), rank), bad.data(), bad.size());
    }
  }
  std::vector<std::byte> outputs(PlanRunner& runner, fabric::Fabric& fabric) {
    const Plan& plan = runner.plan();
    std::vector<std::byte> all;
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      fabric.device(rank).make_current();
      std::vector<std::byte> own(output_bytes(plan, rank));
      if (!own.empty()) {
        cuda::copy_from_gpu(own.data(), runner.buffer(name_of_output(plan), rank), own.size());
      }
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  std::shared_ptr<SharedReference> reference_ = make_shared_reference(0);
};

TEST_P(ReplayedRoutings, HaveTheBitsOfEagerRuns) {
  const int ranks = GetParam().ranks;
  const Plan plan = plan_of(GetParam());
  if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
  fabric::Fabric& fabric = shared_fabric(ranks);
  PlanRunner runner(plan, fabric, shared_compiler());
  const RunGraphs graphs(runner, fabric, runner.runs_per_graph());
  std::vector<std::byte> before;
  for (int launch = 0; launch < 24; ++launch) {
    const InputData data{
        Fill::random, static_cast<uint64_t>(launch + 1), {kRoutings[launch % 4], nullptr}};
    SCOPED_TRACE(fmt::format("launch {}, {}", launch, to_string(data.routing.kind)));
    write_inputs(runner, fabric, data);
    std::vector<std::byte> of[2];
    for (const bool replays : {true, false}) {
      const int runs = replays ? 1 : runner.runs_per_graph();
      poison_output(runner, fabric);
      for (int rank = 0; rank < ranks; ++rank) {
        fabric.device(rank).make_current();
        for (int run = 0; run < runs; ++run) replays ? graphs.launch(rank) : runner.enqueue(rank);
      }
      runner.finish();
      of[replays ? 1 : 0] = outputs(runner, fabric);
    }
    ASSERT_EQ(of[0], of[1]);
    ASSERT_NE(of[1], before) << "another routing, and other tokens";
    before = std::move(of[1]);
  }
}

// A thousand launches of one graph, forty routings in turn, each with the bits that it has eagerly.
TEST_P(ReplayedRoutings, HaveTheBitsOfEagerRunsAThousandTimes) {
  constexpr size_t kLaunches = 1000, kTurn = 40, kStep = 7;  // of no common divisor
  const int ranks = GetParam().ranks;
  const Plan plan = plan_of(GetParam());
  if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
  fabric::Fabric& fabric = shared_fabric(ranks);
  PlanRunner runner(plan, fabric, shared_compiler());
  const RunGraphs graphs(runner, fabric, runner.runs_per_graph());
  const auto choose = [&](size_t which) {
    write_inputs(runner, fabric,
                 {Fill::random, which + 1, {kRoutings[which % std::size(kRoutings)], nullptr}},
                 which != 0);
    poison_output(runner, fabric);
  };
  const auto result_of = [&](bool replays) {
    const int runs = replays ? 1 : runner.runs_per_graph();
    for (int rank = 0; rank < ranks; ++rank) {
      fabric.device(rank).make_current();
      for (int run = 0; run < runs; ++run) replays ? graphs.launch(rank) : runner.enqueue(rank);
    }
    runner.finish();
    return outputs(runner, fabric);
  };
  std::vector<std::vector<std::byte>> eager;
  for (size_t which = 0; which < kTurn; ++which) {
    choose(which);
    eager.push_back(result_of(false));
    ASSERT_TRUE(which == 0 || eager[which] != eager[which - 1]);
  }
  for (size_t launch = 0; launch < kLaunches; ++launch) {
    const size_t which = launch * kStep % kTurn;
    choose(which);
    ASSERT_TRUE(result_of(true) == eager[which]) << "launch " << launch << ", routing " << which;
  }
}

std::vector<RoutingCase> replayed_cases() {
  std::vector<RoutingCase> all;
  for (const int ranks : {2, 4, 8}) {
    all.push_back({fmt::format("moe-ep t=203 h=512 f=96 experts={} k=3", 3 * ranks),
                   "tiles,comm-sms=4", ranks});
    all.push_back({fmt::format("moe-tp-up t=203 h=512 f={} experts=12 k=3", 96 * ranks),
                   "tiles,comm-sms=4", ranks});
  }
  all.push_back({"moe-ep t=203 h=512 f=96 experts=5 k=3", "library", 1});
  for (const int ranks : {2, 4}) {
    for (const char* schedule : {"tiles,comm-sms=4,granularity=chunk", "low-latency"}) {
      all.push_back(
          {fmt::format("dispatch t=203 h=512 experts={} k=3", 3 * ranks), schedule, ranks});
    }
  }
  for (const int ranks : {2, 4}) {
    all.push_back({fmt::format("moe-tp-up t=203 h=512 f={} experts=12 k=3", 96 * ranks),
                   "low-latency", ranks});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, ReplayedRoutings, testing::ValuesIn(replayed_cases()));

TEST(RoutedOnAGpu, CountsIdsThatAreNoExperts) {
  for (const char* name : {"moe-ep", "moe-ep-i64"}) {
    SCOPED_TRACE(name);
    const Plan plan =
        plan_of({fmt::format("{} t=50 h=512 f=96 experts=6 k=2", name), "sequential", 1});
    if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
    PlanRunner runner(plan, shared_fabric(1), shared_compiler());
    EXPECT_EQ(expect_right(runner, routing_with_bad(50, 2, {0, 13, 50, 99})).bad_ids, 4u);
    EXPECT_EQ(runner.bad_ids() % 4, 0u);
  }
}

// A row of the output is nobody's where its id is no expert's, so what lies there stays.
TEST(RoutedOnAGpu, LeavesTheRowsOfNoExpertAlone) {
  for (const char* schedule : {"sequential", "library"}) {
    SCOPED_TRACE(schedule);
    const Plan plan = plan_of({"moe-tp-up t=50 h=512 f=96 experts=6 k=2", schedule, 1});
    if (const std::string why = why_no_case(plan); !why.empty()) STRETTO_SKIP(why);
    PlanRunner runner(plan, shared_fabric(1), shared_compiler());
    const Routing routing = routing_with_bad(50, 2, {2, 13, 99});
    expect_right(runner, routing);
    std::vector<uint16_t> rows(100 * 96);
    cuda::copy_from_gpu(rows.data(), runner.buffer("a", 0), rows.size() * 2);
    for (size_t choice = 0; choice < 100; ++choice) {
      const int32_t id = routing.table->ids[choice];
      for (size_t column = 0; column < 96; ++column) {
        ASSERT_EQ(rows[choice * 96 + column] == 0xffff, id < 0 || id >= 6)
            << choice << " " << column;
      }
    }
  }
}

}  // namespace
}  // namespace stretto::runtime
