// Layers of experts whose rows collectives move by ids: what is refused, by what would be right,
// and what is right of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "op/graph_text.h"
#include "right_plans.h"

namespace stretto {
namespace {

// What collectives that move rows by ids cannot do is among the reasons.
void expect_refused_by_ids(const Operator& op, const Machine& machine, const std::string& why) {
  const OperatorSchedule schedule = schedule_of(find_preset("low-latency"), op, machine, 1);
  const std::vector<std::string> reasons = legal(op, schedule, machine);
  const bool is_said = std::any_of(reasons.begin(), reasons.end(), [&](const std::string& reason) {
    return reason.find(why) != std::string::npos;
  });
  EXPECT_TRUE(is_said) << testing::PrintToString(reasons);
}

// Each rank weighs whole results, of the columns that it has: nothing goes back to who has a token.
TEST(SumsOfOwnColumns, AreRefusedByIds) {
  const auto graph = parse_graph(
      "graph own t h f e k\n"
      "input x [t, h] rows\ninput r [e, h] whole\ninput w [e, f, h] rows\n"
      "s = gemm x r\nids = top_k s k=k\nweights = softmax_gate s ids\n"
      "y = grouped x w ids\nz = weigh y ids weights\noutput z cols\n");
  for (const int64_t k : {1, 2}) {
    const Operator op =
        make_graph(graph, {{"t", 15}, {"h", 80}, {"f", 80}, {"e", 10}, {"k", k}}, 5, DType::fp16);
    expect_refused_by_ids(op, default_machine(5), "sums that each rank makes in its own columns");
  }
}

// Two layers of experts that go by the same ids: collectives send ids once, with the tokens of one
// layer, so what is not refused has those of both.
TEST(LayersOfTheSameIds, AreRefusedByIdsAndRightOtherwise) {
  const auto graph = parse_graph(
      "graph twice t h f experts k\n"
      "input x [t, h] rows\ninput ids [t, k] rows i32\ninput weights [t, k] rows fp32\n"
      "input w [experts, f, h] experts\ninput v [experts, h, f] experts\n"
      "input p [experts, f, h] experts\ninput q [experts, h, f] experts\n"
      "a = grouped x w ids\nb = grouped a v ids\ny = weigh b ids weights\ns = add y x\n"
      "c = grouped s p ids\nd = grouped c q ids\nz = weigh d ids weights\noutput z rows\n");
  const Operator op =
      make_graph(graph, {{"t", 5}, {"h", 80}, {"f", 80}, {"experts", 4}, {"k", 2}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  bool is_any_refused = false;
  for (const Preset& preset : presets()) {
    const OperatorSchedule schedule = schedule_of(preset, op, machine, 1);
    SCOPED_TRACE(to_string(schedule));
    const auto reasons = legal(op, schedule, machine);
    if (!reasons.empty()) {
      is_any_refused |= std::any_of(reasons.begin(), reasons.end(), [](const std::string& why) {
        return why.find("ids that several layers of experts go by: take ids of each") !=
               std::string::npos;
      });
      continue;
    }
    const Plan plan = lower(op, schedule, machine);
    EXPECT_TRUE(check(plan).clean());
    EXPECT_EQ(emulate(plan).first_wrong, "");
  }
  EXPECT_TRUE(is_any_refused);
}

TEST(LayersOfTheSameIds, AreCountedOnce) {
  const auto graph = parse_graph(
      "graph counted t h experts k\n"
      "input x [t, h] rows\ninput ids [t, k] rows i32\ninput weights [t, k] rows fp32\n"
      "d = permute x ids experts=experts\nn = count ids experts=experts\n"
      "m = count ids experts=experts\ny = weigh d ids weights\n"
      "output n rows\noutput m rows\noutput y rows\n");
  const Operator op =
      make_graph(graph, {{"t", 5}, {"h", 80}, {"experts", 4}, {"k", 2}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  expect_refused_by_ids(op, machine, "ids that are counted twice: take one count of them");
}

// What every rank computes of what all have is not in the order of experts.
TEST(LayersByIds, AreRefusedWhereEachRankHasMadeAllTokens) {
  const auto graph = parse_graph(
      "graph whole t h f experts k\n"
      "input x [t, h] whole\ninput ids [t, k] rows i32\ninput weights [t, k] rows fp32\n"
      "input w [experts, f, h] experts\n"
      "s = add x x\na = grouped s w ids\ny = weigh a ids weights\noutput y rows\n");
  const Operator op =
      make_graph(graph, {{"t", 5}, {"h", 80}, {"f", 80}, {"experts", 4}, {"k", 2}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  for (const Preset& preset : presets()) expect_right(op, preset, machine);
  expect_refused_by_ids(
      op, machine,
      "ids of own tokens, beside all tokens: take ids and weights that are held whole");
}

// Nothing has to be brought where ranks have all.
TEST(LayersByIds, BringNothingWhereEachRankHasAllTokens) {
  for (const char* const held : {"experts", "cols"}) {
    const auto graph = parse_graph(std::string("graph whole t h f experts k\n"
                                               "input a [t*k, f] ") +
                                   (held[0] == 'c' ? "cols" : "whole") +
                                   "\ninput ids [t, k] whole i32\n"
                                   "input weights [t, k] whole fp32\ninput w [experts, h, f] " +
                                   held +
                                   "\nd = grouped a w ids\ny = weigh d ids weights\n"
                                   "output y rows\n");
    for (const int ranks : {2, 3, 4, 8}) {
      SCOPED_TRACE(std::string(held) + " " + std::to_string(ranks));
      const Operator op =
          make_graph(graph, {{"t", 37}, {"h", 80}, {"f", 72 * ranks}, {"experts", 8}, {"k", 3}},
                     ranks, DType::bf16);
      const Machine machine = default_machine(ranks);
      const OperatorSchedule schedule = schedule_of(find_preset("low-latency"), op, machine, 1);
      EXPECT_EQ(testing::PrintToString(legal(op, schedule, machine)), "{}");
      expect_right(op, find_preset("low-latency"), machine);
    }
  }
}

// Whoever holds tokens, ids and weights: what is not refused is right, with sums by ids alone too.
TEST(LayersByIds, AreRightHoweverTokensIdsAndWeightsAreHeld) {
  const char* const held[] = {"rows", "whole"};
  int refused = 0, served = 0;
  for (int mix = 0; mix < 8; ++mix) {
    const char *x = held[mix & 1], *ids = held[mix >> 1 & 1], *weights = held[mix >> 2];
    const auto graph = parse_graph(
        std::string("graph held t h f experts k\ninput x [t, h] ") + x + "\ninput ids [t, k] " +
        ids + " i32\ninput weights [t, k] " + weights +
        " fp32\ninput wg [experts, f, h] rows\ninput wu [experts, f, h] rows\n"
        "input wd [experts, h, f] cols\ng = grouped x wg ids\nu = grouped x wu ids\n"
        "a = swiglu g u\nd = grouped a wd ids\ny = weigh d ids weights\noutput y rows\n");
    const Operator op = make_graph(
        graph, {{"t", 13}, {"h", 72}, {"f", 216}, {"experts", 6}, {"k", 2}}, 3, DType::bf16);
    const Machine machine = default_machine(3);
    for (const char* schedule : {"low-latency", "a:library,mover=copy-engine/y:low-latency",
                                 "a:library,mover=epilogue/y:low-latency"}) {
      SCOPED_TRACE(std::string(x) + " " + ids + " " + weights + " " + schedule);
      const OperatorSchedule parsed = parse_schedules(schedule, op, machine);
      if (!legal(op, parsed, machine).empty()) {
        ++refused;
        continue;
      }
      ++served;
      const Plan plan = lower(op, parsed, machine);
      EXPECT_TRUE(check(plan).clean());
      EXPECT_EQ(emulate(plan).first_wrong, "");
    }
    if (std::string_view(x) == "rows" && std::string_view(ids) == "whole") {
      expect_refused_by_ids(op, machine,
                            "ids that each rank has all of, beside its own tokens: take both");
    }
    if (std::string_view(ids) == "rows" && std::string_view(weights) == "whole") {
      expect_refused_by_ids(op, machine, "ids of own tokens");
    }
  }
  EXPECT_GT(served, 8);
  EXPECT_GT(refused, 4);
}

TEST(LayersByIds, AreRefusedWhereWeightsAreRounded) {
  const auto graph = parse_graph(
      "graph rounded t h experts k\n"
      "input x [t, h] rows\ninput ids [t, k] rows i32\ninput weights [t, k] rows\n"
      "d = permute x ids experts=experts\ny = weigh d ids weights\noutput y rows\n");
  const Operator op =
      make_graph(graph, {{"t", 5}, {"h", 80}, {"experts", 4}, {"k", 2}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  for (const Preset& preset : presets()) expect_right(op, preset, machine);
  expect_refused_by_ids(op, machine, "weights of bf16: take weights of fp32");
}

// All ranks have begun where a collective ends, though it is all that any of them did before.
TEST(LayersByIds, AreHeardOfByWhoWritesToAllRanksBehindThem) {
  const auto graph = parse_graph(
      "graph heard t h experts k\n"
      "input x [t, h] rows\ninput ids [t, k] rows i32\ninput weights [t, k] rows fp32\n"
      "d = permute x ids experts=experts\ny = weigh d ids weights\ns = add y x\n"
      "output y rows\noutput s whole\n");
  const Operator op =
      make_graph(graph, {{"t", 15}, {"h", 80}, {"experts", 6}, {"k", 2}}, 3, DType::bf16);
  const Machine machine = default_machine(3);
  const OperatorSchedule schedule = schedule_of(find_preset("low-latency"), op, machine, 1);
  ASSERT_TRUE(legal(op, schedule, machine).empty());
  expect_right(op, find_preset("low-latency"), machine);
}

}  // namespace
}  // namespace stretto
