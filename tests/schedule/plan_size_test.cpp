// How large the plans of whole graphs may get: each product is small enough, and all together are
// not.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "op/graph_text.h"
#include "schedule/cases.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Products behind one another, of columns and of terms in turn.
Operator chain(int products, int64_t rows, int64_t cols = 8192) {
  std::string text = "graph chain m h\ninput t0 [m, h] rows\n";
  for (int i = 0; i < products; ++i) {
    text += fmt::format("input w{} [h, h] {}\n", i, i % 2 == 0 ? "rows" : "cols");
  }
  for (int i = 0; i < products; ++i) text += fmt::format("t{} = gemm t{} w{}\n", i + 1, i, i);
  text += fmt::format("output t{} {}\n", products, products % 2 == 0 ? "rows" : "cols");
  return make_graph(parse_graph(text), {{"m", rows}, {"h", cols}}, 8, DType::bf16);
}

std::vector<std::string> reasons_of(const Operator& op, const std::string& schedule) {
  return legal(op, parse_schedules(schedule, op, machine_of()), machine_of());
}

TEST(PlanSize, IsThatOfAllProductsTogether) {
  EXPECT_THAT(reasons_of(chain(2, 8192), "tiles,tile=16x16"), IsEmpty());
  EXPECT_THAT(
      reasons_of(chain(4, 8192), "tiles,tile=16x16"),
      ElementsAre("a plan of about 22 million instructions for 4 products; at most 20 million are "
                  "served: take larger tiles, or cut the graph into several"));
  EXPECT_THAT(
      reasons_of(chain(1000, 8192), "tiles,tile=128x128"),
      ElementsAre("a plan of about 89 million instructions for 1000 products; at most 20 million "
                  "are served: take larger tiles, or cut the graph into several"));
  EXPECT_THAT(reasons_of(chain(1000, 64, 64), "tiles"), IsEmpty());
}

TEST(PlanSize, IsThatOfAllPartsTogether) {
  EXPECT_THAT(reasons_of(chain(400, 1000), "tiles,tile=128x128"), IsEmpty());
  EXPECT_THAT(
      reasons_of(chain(400, 1000), "split=8/tiles,tile=128x128"),
      ElementsAre(HasSubstr("instructions for 400 products in 8 parts of the rows; at most 20 "
                            "million are served: take split=1, larger tiles, or cut the graph")));
}

TEST(PlanSize, CountsStagesThatNoProductTakes) {
  std::string text = "graph rows m h\ninput t0 [m, h] rows\n";
  constexpr int kStages = 4096;
  for (int i = 0; i < kStages; ++i) text += fmt::format("t{} = silu t{}\n", i + 1, i);
  text += fmt::format("output t{} rows\n", kStages);
  const auto graph = parse_graph(text);
  const auto of_ranks = [&](int ranks) {
    const Operator op = make_graph(graph, {{"m", 1 << 16}, {"h", 8}}, ranks, DType::bf16);
    return legal(op, {}, machine_of(ranks / 8));
  };
  EXPECT_THAT(of_ranks(8), IsEmpty());
  EXPECT_THAT(legal(make_graph(graph, {{"m", 64}, {"h", 8}}, 9, DType::bf16), {}, machine_of()),
              ElementsAre("9 ranks on test8, which has 8: take fewer or a larger machine"));
  EXPECT_THAT(of_ranks(64),
              ElementsAre("a plan of about 35 million instructions; at most 20 million are served: "
                          "take fewer ranks or chunks, or cut the graph into several"));
}

}  // namespace
}  // namespace stretto
