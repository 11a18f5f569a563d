// Products with an edge on both sides: what comes over one and leaves over the other, under every
// preset and under two, for ranks of whom some have no row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "op/graph_text.h"
#include "own_graph.h"
#include "right_plans.h"
#include "schedule/row_parts.h"
#include "small_plans.h"

namespace stretto {
namespace {

constexpr OwnGraph kGraphs[] = {
    {"OwnRowsToSums",
     "input x [m, f] rows\n"
     "input w [h, f] cols\n"
     "y = gemm x w\n"
     "output y rows\n"},
    {"OwnRowsToSumsForAll",
     "input x [m, f] rows\n"
     "input w [h, f] cols\n"
     "input b [1, f] whole\n"
     "t = bias x b\n"
     "y = gemm t w\n"
     "output y whole\n"},
    {"HeadsToTokensAndBack",
     "input c [m, f] cols\n"
     "input w [h, f] whole\n"
     "y = gemm c w\n"
     "output y cols\n"},
    {"AllRowsToOwnRows",
     "input x [m, h] rows\n"
     "input w [f, h] rows\n"
     "y = gemm x w\n"
     "output y rows\n"},
    {"ColumnsToOwnRows",
     "input x [m, h] whole\n"
     "input w [f, h] rows\n"
     "y = gemm x w\n"
     "output y rows\n"},
    {"AGateOfAllRowsToOwnRows",
     "input x [m, h] rows\n"
     "input v [f, h] rows\n"
     "input u [f, h] rows\n"
     "g = gemm x v\n"
     "s = gemm x u\n"
     "y = swiglu g s\n"
     "output y rows\n"},
    {"ProductsThatFollowOneAnother",
     "input c [m, f] cols\n"
     "input w [h, f] whole\n"
     "input u [f, h] cols\n"
     "input n [1, f] whole\n"
     "input v [f, f] cols\n"
     "a = gemm c w\n"
     "b = gemm a u\n"
     "d = norm b n\n"
     "y = gemm d v\n"
     "output y rows\n"
     "output b rows\n"},
    {"RowsThatAreHandedOverToo",
     "input x [m, h] rows\n"
     "input w [f, h] rows\n"
     "y = gemm x w\n"
     "all = gather x\n"
     "output y rows\n"
     "output all whole\n"},
};

Operator bound(const OwnGraph& graph, int64_t m, int ranks) {
  return make_graph(parse_graph(std::string("graph own m h f\n") + graph.lines),
                    {{"m", m}, {"h", 64}, {"f", 128}}, ranks, DType::bf16);
}

class TwoEdges : public testing::TestWithParam<OwnGraph> {};
INSTANTIATE_TEST_SUITE_P(, TwoEdges, testing::ValuesIn(kGraphs),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(TwoEdges, AreProvedAndRightUnderEveryPreset) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int64_t m : {1, 7, 45}) {
      const Operator op = bound(GetParam(), m, ranks);
      const Machine machine = default_machine(ranks);
      for (const Preset& preset : presets()) expect_right(op, preset, machine);
    }
  }
}

// Most presets are no exceptions: those that are left out above are few.
TEST_P(TwoEdges, AreServedByPresetsOfEveryMover) {
  const Operator op = bound(GetParam(), 45, 4);
  const Machine machine = default_machine(4);
  for (const char* name : {"sequential", "library", "low-latency", "few-rows", "two-chunk",
                           "decomposed", "tiles", "slices"}) {
    const OperatorSchedule schedule = schedule_of(find_preset(name), op, machine);
    EXPECT_EQ(legal(op, schedule, machine), std::vector<std::string>()) << name;
    EXPECT_EQ(parse_schedules(name, op, machine), schedule) << name;
  }
}

// Collectives are of one kind in a plan, and of an all-to-all they are NCCL's.
TEST(TwoEdged, GatherByNcclBesideAnAllToAll) {
  const Machine machine = default_machine(4);
  const auto op_of = [](const char* name) {
    const auto* const found =
        std::find_if(std::begin(kGraphs), std::end(kGraphs),
                     [&](const OwnGraph& one) { return std::string_view(one.name) == name; });
    return bound(*found, 45, 4);
  };
  for (const char* name : {"AllRowsToOwnRows", "AGateOfAllRowsToOwnRows"}) {
    const Operator op = op_of(name);
    const OperatorSchedule library = schedule_of(find_preset("library"), op, machine);
    EXPECT_EQ(parse_schedules("low-latency", op, machine), library) << name;
    EXPECT_EQ(parse_schedules("few-rows,tile=64x64", op, machine).products[1].collectives,
              CollectivesBy::nccl);
    const auto reasons =
        legal(op, parse_schedules("library/y.in:low-latency", op, machine), machine);
    EXPECT_THAT(reasons, testing::ElementsAre(testing::HasSubstr(
                             "take another mover here, or collectives=nccl there")));
  }
  // Who asks for few rows by name gets no other product in silence.
  const auto asked =
      legal(op_of("AllRowsToOwnRows"),
            parse_schedules("few-rows,gemm=few-rows", op_of("AllRowsToOwnRows"), machine), machine);
  EXPECT_THAT(asked, testing::Not(testing::Contains(testing::HasSubstr("gemm=library with"))));
  EXPECT_THAT(asked, testing::Contains(testing::HasSubstr("y: gemm=few-rows with what ranks "
                                                          "exchange by columns")));
  const Operator sums = op_of("OwnRowsToSums");
  EXPECT_EQ(parse_schedules("low-latency", sums, machine).products.back().collectives,
            CollectivesBy::low_latency);
}

TEST_P(TwoEdges, AreRightInPartsOfTheRows) {
  const Operator op = bound(GetParam(), 45, 3);
  if (!why_no_split(op, 2).empty()) GTEST_SKIP() << why_no_split(op, 2);
  const Machine machine = small_machine(3);
  size_t served = 0;
  for (const OperatorSchedule& whole : small_presets(op, machine)) {
    OperatorSchedule parts = whole;
    parts.split = 2;
    if (!legal(op, parts, machine).empty()) continue;
    const Plan plan = lower(op, parts, machine);
    expect_proved(plan);
    expect_right(plan, {.seed = 3, .runs = 3});
    ++served;
  }
  EXPECT_GE(served, 4u);
}

// What one preset says of the edge in front, and another of all else.
TEST_P(TwoEdges, AreRightWhereEachSideHasItsOwnMover) {
  for (const int ranks : {2, 3}) {
    const Operator op = bound(GetParam(), 37, ranks);
    const Machine machine = small_machine(ranks);
    const std::vector<OperatorSchedule> all = small_presets(op, machine);
    size_t served = 0;
    for (const OperatorSchedule& front : all) {
      for (const OperatorSchedule& behind : all) {
        OperatorSchedule mixed = behind;
        for (size_t i = 0; i < mixed.names.size(); ++i) {
          if (mixed.names[i].ends_with(".in")) mixed.products[i] = front.products[i];
        }
        if (!legal(op, mixed, machine).empty()) continue;
        SCOPED_TRACE(to_string(mixed));
        EXPECT_EQ(parse_schedules(to_string(mixed), op, machine), mixed);
        const Plan plan = lower(op, mixed, machine);
        expect_proved(plan);
        expect_right(plan, {.seed = 5, .runs = 3});
        ++served;
      }
    }
    EXPECT_GE(served, all.size());
  }
}

TEST(TwoEdged, AreOfTeamsOfDifferentSizes) {
  const auto graph = parse_graph(
      "graph own m h f\n"
      "team wide 4\n"
      "team tall 2\n"
      "input c [m, f] cols of wide\n"
      "input w [h, f] whole\n"
      "input u [f, h] cols of tall\n"
      "y = gemm c w\n"
      "z = gemm y u\n"
      "output z rows\n");
  const Operator op = make_graph(graph, {{"m", 40}, {"h", 64}, {"f", 128}}, 8, DType::bf16);
  const Machine machine = small_machine(8);
  const std::vector<OperatorSchedule> all = small_presets(op, machine);
  EXPECT_GE(all.size(), 4u);
  for (const OperatorSchedule& schedule : all) {
    const Plan plan = lower(op, schedule, machine);
    expect_proved(plan);
    expect_right(plan, {.seed = 7, .runs = 2});
  }
}

// Experts take what others send and their sums leave behind the one product.
TEST(TwoEdged, AreOfExpertsBetweenDispatchAndCombine) {
  const auto graph = parse_graph(
      "graph own t h f experts k\n"
      "input x [t, h] rows\n"
      "input ids [t, k] rows i32\n"
      "input weights [t, k] rows fp32\n"
      "input w [experts, f, h] experts\n"
      "d = grouped x w ids\n"
      "a = gelu d\n"
      "y = weigh a ids weights\n"
      "output y rows\n");
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (const int64_t t : {1, 7, 40}) {
      const Operator op = make_graph(
          graph, {{"t", t}, {"h", 64}, {"f", 48}, {"experts", 24}, {"k", 2}}, ranks, DType::bf16);
      const Machine machine = small_machine(ranks);
      const std::vector<OperatorSchedule> all = small_presets(op, machine);
      EXPECT_GE(all.size(), 3u);
      for (const OperatorSchedule& schedule : all) {
        const Plan plan = lower(op, schedule, machine);
        expect_proved(plan);
        for (const RoutingKind kind : {RoutingKind::uniform, RoutingKind::zipf}) {
          EmulateOptions options{.seed = 3, .runs = 2};
          options.routing.kind = kind;
          expect_right(plan, options);
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto
