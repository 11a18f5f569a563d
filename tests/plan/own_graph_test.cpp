// A plan of an operator that is not shipped carries its graph, and reads back alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/plan.h"

namespace stretto {
namespace {

TEST(OwnGraph, StandsAboveTheOperatorAndReadsBack) {
  const auto graph = parse_graph(
      "graph a-projection-of-my-own m h f  # a comment\n"
      "input tokens [m, h] rows\n"
      "input weight_of_the_projection [f, h] rows\n"
      "projected = gemm tokens weight_of_the_projection\n"
      "output projected cols\n");
  Plan plan;
  plan.op = make_graph(graph, {{"m", 8}, {"h", 16}, {"f", 32}}, 2, DType::bf16);
  plan.sms = 4;
  const std::string text = print(plan);
  EXPECT_THAT(text, testing::HasSubstr(
                        "stretto-plan 2\n"
                        "| graph a-projection-of-my-own m h f\n"
                        "| input tokens [m, h] rows\n"
                        "| input weight_of_the_projection [f, h] rows\n"
                        "| projected = gemm tokens weight_of_the_projection\n"
                        "| output projected cols\n"
                        "operator a-projection-of-my-own m=8 h=16 f=32 ranks=2 dtype=bf16\n"));
  const Plan read = parse_plan(text);
  EXPECT_EQ(read.op, plan.op);
  EXPECT_EQ(print(read), text);
}

TEST(OwnGraph, IsLeftOutOfShippedOperators) {
  Plan plan;
  plan.op = make_operator("mlp", {{"m", 8}, {"h", 16}, {"f", 32}}, 2);
  plan.sms = 4;
  EXPECT_THAT(print(plan), testing::StartsWith("stretto-plan 2\noperator mlp m=8 h=16 f=32 "));
}

}  // namespace
}  // namespace stretto
