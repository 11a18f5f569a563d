// What a sweep measures of operators of several products.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/tune.h"

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

}  // namespace
}  // namespace stretto
