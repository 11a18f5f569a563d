// Graphs of experts that no shipped operator is like.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "op/graph_text.h"
#include "right_plans.h"
#include "stretto/error.h"

namespace stretto {
namespace {

// From attention's result to the next layer's products, experts in between.
constexpr char kLayerOfExperts[] =
    "graph layer-of-experts m h f a e k\n"
    "input c [m, a] cols\n"
    "input x [m, h] rows\n"
    "input wo [h, a] cols\n"
    "input w1 [1, h] whole\n"
    "input wr [e, h] whole\n"
    "input wg [e, f, h] experts\n"
    "input wd [e, h, f] experts\n"
    "input w2 [1, h] whole\n"
    "input wq [a, h] rows\n"
    "o = gemm c wo\n"
    "s = add o x\n"
    "n = norm s w1\n"
    "scores = gemm n wr\n"
    "ids = top_k scores k=k\n"
    "weights = softmax_gate scores ids\n"
    "g = grouped n wg ids\n"
    "b = gelu g\n"
    "d = grouped b wd ids\n"
    "y = weigh d ids weights\n"
    "z = silu y\n"
    "t = norm z w2\n"
    "q = gemm t wq\n"
    "output q cols\n"
    "output z rows\n";

TEST(OwnGraphsOfExperts, HaveProductsBeforeAndBehindThem) {
  const auto graph = parse_graph(kLayerOfExperts);
  for (const int64_t k : {1, 2}) {
    const Operator op = make_graph(
        graph, {{"m", 37}, {"h", 64}, {"f", 32}, {"a", 64}, {"e", 8}, {"k", k}}, 2, DType::bf16);
    const Machine machine = default_machine(2);
    for (const std::string_view preset : {"sequential", "tiles", "slices"}) {
      for (const int split : {1, 2, 3}) expect_right(op, find_preset(preset), machine, split);
    }
  }
}

// Its tiles are no entries of a partition, whatever their size.
TEST(OwnGraphsOfExperts, TakeWhatAProductMakes) {
  const auto graph = parse_graph(
      "graph projected m h f e k\n"
      "input x [m, h] rows\n"
      "input p [h, h] whole\n"
      "input ids [m, k] rows i32\n"
      "input weights [m, k] rows fp32\n"
      "input wg [e, f, h] experts\n"
      "input wd [e, h, f] experts\n"
      "t = gemm x p\n"
      "g = grouped t wg ids\n"
      "b = silu g\n"
      "d = grouped b wd ids\n"
      "y = weigh d ids weights\n"
      "output y rows\n");
  const Operator op =
      make_graph(graph, {{"m", 37}, {"h", 64}, {"f", 32}, {"e", 8}, {"k", 2}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  for (const std::string_view preset : {"sequential", "tiles", "slices"}) {
    EXPECT_EQ(legal(op, schedule_of(find_preset(preset), op, machine), machine).size(), 0u);
    for (const int split : {1, 2}) expect_right(op, find_preset(preset), machine, split);
  }
}

TEST(OwnGraphsOfExperts, HaveGatesBehindWhatTheyGate) {
  const auto graph = parse_graph(
      "graph gated-by-the-second m h f e k\n"
      "input x [m, h] rows\n"
      "input ids [m, k] rows i32\n"
      "input wu [e, f, h] rows\n"
      "input wg [e, f, h] rows\n"
      "u = grouped x wu ids\n"
      "g = grouped x wg ids\n"
      "a = swiglu g u\n"
      "output a cols\n");
  const Machine machine = default_machine(2);
  const Operator op =
      make_graph(graph, {{"m", 37}, {"h", 72}, {"f", 32}, {"e", 4}, {"k", 2}}, 2, DType::bf16);
  for (const std::string_view preset : {"sequential", "library", "tiles"}) {
    EXPECT_EQ(legal(op, schedule_of(find_preset(preset), op, machine), machine).size(), 0u);
    expect_right(op, find_preset(preset), machine);
  }
}

// Tokens that all ranks have, as without sequence parallelism.
TEST(OwnGraphsOfExperts, ChooseOnEveryRank) {
  const auto graph = parse_graph(
      "graph routed-everywhere m h f e k\n"
      "input x [m, h] whole\n"
      "input wr [e, h] whole\n"
      "input wg [e, f, h] rows\n"
      "input wd [e, h, f] cols\n"
      "scores = gemm x wr\n"
      "ids = top_k scores k=k\n"
      "weights = softmax_gate scores ids\n"
      "g = grouped x wg ids\n"
      "b = silu g\n"
      "d = grouped b wd ids\n"
      "y = weigh d ids weights\n"
      "output y whole\n");
  const Operator op =
      make_graph(graph, {{"m", 37}, {"h", 64}, {"f", 32}, {"e", 8}, {"k", 2}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  for (const std::string_view preset : {"sequential", "tiles"}) {
    for (const int split : {1, 2}) expect_right(op, find_preset(preset), machine, split);
  }
}

// Every rank has some columns of what each choice makes, and so of each token's sum.
TEST(OwnGraphsOfExperts, AreWeighedColumnByColumn) {
  const auto graph = parse_graph(
      "graph weighed m h f e k\n"
      "input x [m, h] rows\n"
      "input ids [m, k] rows i32\n"
      "input weights [m, k] rows fp32\n"
      "input w [e, f, h] rows\n"
      "input v [h, f] cols\n"
      "g = grouped x w ids\n"
      "s = weigh g ids weights\n"
      "y = gemm s v\n"
      "p = grouped x w ids\n"
      "q = weigh p ids weights\n"
      "t = gelu q\n"
      "output s cols\n"
      "output t cols\n"
      "output y rows\n");
  for (const int ranks : {1, 2, 3}) {
    const Operator op = make_graph(graph, {{"m", 29}, {"h", 48}, {"f", 96}, {"e", 5}, {"k", 2}},
                                   ranks, DType::bf16);
    const Machine machine = default_machine(ranks);
    int served = 0;
    for (const Preset& preset : presets()) {
      for (const int split : {1, 2}) {
        served += legal(op, schedule_of(preset, op, machine), machine).empty();
        expect_right(op, preset, machine, split);
      }
    }
    EXPECT_GE(served, ranks == 1 ? 2 : 6);
  }
}

// Ranks that have all columns of what they multiply take those of their weights.
TEST(OwnGraphsOfExperts, TakeTheirRangesOfKOfWholeRows) {
  for (const char* rows : {"t", "t*k"}) {
    const auto graph = parse_graph(
        "graph whole t h f e k\n"
        "input a [" +
        std::string(rows) +
        ", f] whole\n"
        "input ids [t, k] rows i32\n"
        "input weights [t, k] rows fp32\n"
        "input wd [e, h, f] cols\n"
        "d = grouped a wd ids\n"
        "y = weigh d ids weights\n"
        "output y rows\n");
    for (const int64_t k : {1, 3}) {
      const Operator op =
          make_graph(graph, {{"t", 21}, {"h", 32}, {"f", 144}, {"e", 5}, {"k", k}}, 3, DType::bf16);
      const Machine machine = default_machine(3);
      for (const std::string_view preset : {"sequential", "tiles", "slices"}) {
        EXPECT_TRUE(legal(op, schedule_of(find_preset(preset), op, machine), machine).empty());
        expect_right(op, find_preset(preset), machine);
      }
    }
  }
}

// The caller's tensor has the rows of all parts, in which those of one are not together.
TEST(OwnGraphsOfExperts, AreSplitBySourceWhereTheyTakeAnOutputThatAllRanksHave) {
  const auto graph = parse_graph(
      "graph kept m h f e k\n"
      "input x [m, h] whole\n"
      "input ids [m, k] rows i32\n"
      "input weights [m, k] rows fp32\n"
      "input w [e, f, h] rows\n"
      "n = silu x\n"
      "g = grouped n w ids\n"
      "s = weigh g ids weights\n"
      "output n whole\n"
      "output s cols\n");
  const Operator op =
      make_graph(graph, {{"m", 40}, {"h", 48}, {"f", 64}, {"e", 4}, {"k", 1}}, 4, DType::bf16);
  const Machine machine = default_machine(4);
  OperatorSchedule schedule = schedule_of(find_preset("sequential"), op, machine);
  expect_right(op, find_preset("sequential"), machine, 1);
  for (const int split : {1, 3}) expect_right(op, find_preset("tiles"), machine, split);
  schedule.split = 3;
  const std::vector<std::string> reasons = legal(op, schedule, machine);
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_NE(reasons.front().find("parts of rows, of which n has all"), std::string::npos)
      << reasons.front();
}

TEST(OwnGraphsOfExperts, HaveStacksOfOneMatrixThatDivide) {
  for (const auto& [held, right] :
       {std::pair{"rows",
                  "40 rows of w are dealt to 3 ranks, and those of a stack must divide: "
                  "take 24 or 48"},
        {"cols",
         "40 columns of w are dealt to 3 ranks, and those of a stack must divide: take 24 "
         "or 48"}}) {
    const auto graph = parse_graph(
        "graph one m h e k\ninput x [m, h] " +
        std::string(held == std::string("rows") ? "rows" : "cols") +
        "\ninput ids [m, k] rows i32\ninput weights [m, k] rows fp32\ninput w [e, h, h] " + held +
        "\ng = grouped x w ids\ns = weigh g ids weights\noutput s " +
        (held == std::string("rows") ? "cols" : "rows") + "\n");
    try {
      make_graph(graph, {{"m", 9}, {"h", 40}, {"e", 1}, {"k", 1}}, 3, DType::bf16);
      ADD_FAILURE() << "accepted";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(right), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace stretto
