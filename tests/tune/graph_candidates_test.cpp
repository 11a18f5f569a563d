// What a sweep measures of operators of several products.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "stretto/tune.h"
#include "tune/product_turns.h"

namespace stretto {
namespace {

TEST(GraphCandidates, AreLegalAndHaveThePresetsAndMixtures) {
  const Operator op = make_operator("mlp", {{"m", 1024}, {"h", 512}, {"f", 1024}}, 2);
  const Machine machine = default_machine(2);
  const auto found = graph_candidates(op, machine, 3);
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.predicted_us < b.predicted_us;
  }));
  bool any_split = false, any_mixed = false, any_library = false;
  for (const GraphCandidate& one : found) {
    EXPECT_TRUE(legal(op, one.schedule, machine).empty()) << to_string(one.schedule);
    EXPECT_LE(one.predicted_us, 2 * found.front().predicted_us);
    any_split = any_split || one.schedule.split > 1;
    any_library = any_library || one.schedule.first().gemm == GemmBy::library;
    const auto& products = one.schedule.products;
    any_mixed = any_mixed || products[0].mover != products[1].mover;
    EXPECT_EQ(std::count_if(found.begin(), found.end(),
                            [&](const auto& other) { return other.schedule == one.schedule; }),
              1);
  }
  EXPECT_TRUE(any_split && any_mixed && any_library);
}

// Products one behind the other: every third one has a weight of its own sort.
Operator chain(int products) {
  std::string text =
      "graph chain m h\ninput x [m, h] rows\ninput w [h, h] whole\ninput v [h, h] rows\n"
      "input u [h, h] cols\n";
  for (int i = 0; i < products; ++i) {
    text += fmt::format("t{} = gemm {} {}\n", i, i == 0 ? "x" : fmt::format("t{}", i - 1),
                        std::string("wvu")[static_cast<size_t>(i % 3)]);
  }
  text += fmt::format("output t{} rows\n", products - 1);
  return make_graph(parse_graph(text), {{"m", 16}, {"h", 64}}, 2, DType::bf16);
}

TEST(ProductTurns, AreOfOneProductEachWhereTheseAreFew) {
  EXPECT_THAT(product_turns(chain(3)),
              testing::ElementsAre(testing::ElementsAre(0u), testing::ElementsAre(1u),
                                   testing::ElementsAre(2u)));
  EXPECT_EQ(product_turns(chain(15)).size(), 15u);
}

TEST(ProductTurns, AreOfThoseThatAreAlikeWhereTheseAreMany) {
  const auto turns = product_turns(chain(30));
  ASSERT_EQ(turns.size(), 3u);
  for (const auto& turn : turns) {
    EXPECT_EQ(turn.size(), 10u);
    for (const size_t product : turn) EXPECT_EQ(product % 3, turn.front() % 3);
  }
  EXPECT_EQ(product_turns(chain(900)).size(), 1u);
}

// One product after the other it would be as many simulations as products, each as much longer.
TEST(AutoSchedules, OfHundredsOfProductsAreChosenInShortTime) {
  const Operator op = chain(900);
  const Machine machine = default_machine(2);
  const AutoSchedules chosen = auto_schedules(op, machine, Tuning());
  EXPECT_TRUE(legal(op, chosen.schedule, machine).empty());
  EXPECT_LT(chosen.reason.size(), 4000u);
}

}  // namespace
}  // namespace stretto
