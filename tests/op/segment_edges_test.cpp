// Which edges between segments are served, and which are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "stretto/error.h"
#include "stretto/operator.h"

namespace stretto {
namespace {

using testing::HasSubstr;

Operator bound(const char* lines) {
  return make_graph(parse_graph(std::string("graph g m h\n") + lines), {{"m", 8}, {"h", 16}}, 2,
                    DType::bf16);
}

std::string refusal(const char* lines) {
  try {
    bound(lines);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "served";
}

TEST(SegmentEdges, AnAllReduceDrainsItsProductAndNotTheNext) {
  const Operator op = bound(
      "input x [m, h] cols\n"
      "input w [h, h] cols\n"
      "input v [h, h] rows\n"
      "y = gemm x w\n"
      "z = gemm y v\n"
      "output z cols\n");
  ASSERT_EQ(op.segments.size(), 2u);
  EXPECT_EQ(op.segments[0].product->kind, kGemmAr);
  EXPECT_EQ(op.segments[1].product->kind, kColGemm);
}

// Each has a schedule: what brings the input is a segment of its own.
TEST(SegmentEdges, AProductWithAnEdgeOnBothSidesIsTwoSegments) {
  const Operator op = bound(
      "input x [m, h] rows\n"
      "input w [h, h] cols\n"
      "y = gemm x w\n"
      "output y rows\n");
  ASSERT_EQ(op.segments.size(), 2u);
  EXPECT_EQ(op.segments[0].name, "y.in");
  EXPECT_TRUE(op.segments[0].feeds());
  EXPECT_TRUE(op.segments[0].product->only_moves());
  EXPECT_EQ(op.segments[0].product->kind, (ProductKind{Held::rows, Edge::all_to_all, Edge::none}));
  EXPECT_EQ(op.segments[0].result_held, Held::cols);
  EXPECT_EQ(op.segments[1].name, "y");
  EXPECT_TRUE(op.segments[1].is_fed);
  EXPECT_EQ(op.segments[1].product->kind, kGemmRs);
  EXPECT_EQ(op.only_product(), nullptr);
  EXPECT_EQ(flops_per_rank(op), flops_per_rank(*op.segments[1].product));
  // Of the input and of the sums.
  EXPECT_EQ(link_bytes(op), 8 * 16 * 2 / 2 / 2 + 8 * 16 * 2 / 2);
}

TEST(SegmentEdges, RowsOfChoicesAreServedAsTheyWere) {
  EXPECT_THAT(
      refusal("input x [2*m, h] rows\n"
              "input ids [m, 2] rows i32\n"
              "input w [4, h, h] cols\n"
              "input g [m, 2] rows fp32\n"
              "d = grouped x w ids\n"
              "y = weigh d ids g\n"
              "output y rows\n"),
      HasSubstr("y: no schedule serves a product of experts whose weight is held as cols, fed by "
                "all-to-all and drained by reduce-scatter"));
}

std::string refusal_of_file(const std::string& lines) {
  try {
    make_graph(parse_graph("graph g m h\n" + lines, "my.graph"), {{"m", 8}, {"h", 16}}, 2,
               DType::bf16);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "served";
}

// As all faults of a graph: at a stage where its operands stand, at an output where it does, and at
// a tensor where it is made.
TEST(SegmentEdges, RefusalsSayWhereTheyStand) {
  EXPECT_THAT(refusal_of_file("input x [m, h] rows\n"
                              "input w [1, h] rows\n"
                              "y = norm x w eps=1e-5\n"
                              "output y rows\n"),
              HasSubstr("my.graph:4:10: w is gathered for norm: only products and outputs can"));
  EXPECT_THAT(refusal_of_file("input x [m, h] rows\n"
                              "y = silu x\n"
                              "output y whole\n"),
              HasSubstr("my.graph:4:8: output y is gathered before all ranks"));
  EXPECT_THAT(refusal_of_file("input a [2*m, h] cols\n"
                              "input ids [m, 2] rows i32\n"
                              "input w [4, h, h] cols\n"
                              "d = grouped a w ids\n"
                              "output d rows\n"),
              HasSubstr("my.graph:5:1: d has a term of a sum for each choice"));
}

constexpr char kGatheredAtOnce[] =
    "input x [m, h] rows\n"
    "y = silu x\n"
    "output y whole\n";

// Nothing would keep a fast rank from writing into an output that a slow one's caller still reads.
TEST(SegmentEdges, OutputsAreGatheredBehindSomethingThatAllRanksTakePartIn) {
  EXPECT_THAT(refusal(kGatheredAtOnce),
              HasSubstr("output y is gathered before all ranks are known to have begun: output it "
                        "as rows"));
  EXPECT_THAT(refusal("input x [m, h] cols\n"
                      "input w [h, h] cols\n"
                      "y = gemm x w\n"
                      "z = silu y\n"
                      "output z whole\n"),
              "served");
}

// What multiplies all rows, or is added to them, is there before a run begins.
TEST(SegmentEdges, WeightsAreTheCallers) {
  constexpr char kSays[] = "as a weight, which the caller gives, and it is made by a stage";
  for (const char* lines : {"input x [m, h] whole\ny = silu x\nz = gemm x y\noutput z whole\n",
                            "input x [m, h] rows\ninput w [h, h] rows\ninput d [h, h] rows\n"
                            "v = add w d\nz = gemm x v\noutput z cols\n",
                            "input x [m, h] rows\ninput w [1, h] whole\nv = silu w\n"
                            "z = norm x v\noutput z rows\n",
                            "input x [m, h] rows\ninput w [1, h] whole\nv = silu w\n"
                            "z = bias x v\noutput z rows\n"}) {
    EXPECT_THAT(refusal(lines), HasSubstr(kSays)) << lines;
  }
}

TEST(SegmentEdges, NoProductButThoseOfExpertsTakesRowsOfChoices) {
  EXPECT_THAT(refusal("input x [m, h] rows\n"
                      "input ids [m, 2] rows i32\n"
                      "input w [4, h, h] rows\n"
                      "input v [h, h] cols\n"
                      "d = grouped x w ids\n"
                      "y = gemm d v\n"
                      "output y rows\n"),
              HasSubstr("d lies in the order of its experts: "));
}

TEST(SegmentEdges, AWeightIsNoRowsWhereBothAreDealtOtherwise) {
  constexpr char kBoth[] =
      "input x [m, h] whole\n"
      "input w [m+m+1, h] rows\n"
      "y = gemm x w\n"
      "z = silu w\n"
      "output y cols\n"
      "output z rows\n";
  EXPECT_THAT(refusal(kBoth),
              HasSubstr("w is a weight, whose rows are dealt as columns are, and "
                        "has rows besides: give it as two inputs, or 16 or 18 rows"));
}

TEST(SegmentEdges, TermsOfChoicesAreWeighed) {
  EXPECT_THAT(refusal("input a [2*m, h] cols\n"
                      "input ids [m, 2] rows i32\n"
                      "input w [4, h, h] cols\n"
                      "d = grouped a w ids\n"
                      "output d rows\n"),
              HasSubstr("d has a term of a sum for each choice, which nobody adds up: weigh it"));
}

// Rows travel once, for the product and for the caller.
TEST(SegmentEdges, WhatAProductGathersIsHandedOver) {
  const Operator op = bound(
      "input x [m, h] rows\n"
      "input w [h, h] rows\n"
      "all = gather x\n"
      "y = gemm x w\n"
      "output y cols\n"
      "output all whole\n");
  ASSERT_EQ(op.segments.size(), 2u);
  EXPECT_EQ(op.segments[0].product->kind, kAgGemm);
  EXPECT_FALSE(op.segments[1].product);
  EXPECT_EQ(op.segments[1].input, *op.find_tensor("x"));
  EXPECT_EQ(link_bytes(op), link_bytes(*op.segments[0].product));
  EXPECT_EQ(op.only_product(), nullptr);
  const auto refused = [](const char* more) {
    return refusal((std::string("input x [m, h] rows\ninput c [m, h] cols\ninput w [h, h] rows\n"
                                "input v [h, h] cols\nz = gemm c v\noutput z rows\n") +
                    more)
                       .c_str());
  };
  EXPECT_THAT(
      refused("s = silu x\ny = gemm s w\nall = gather x\noutput y cols\noutput all whole\n"),
      HasSubstr("all hands over what a product gathers, and no gemm takes x as its first "
                "operand and gathers it"));
  EXPECT_THAT(
      refused("y = gemm x w\nall = gather x\ns = silu all\noutput y cols\noutput s whole\n"),
      HasSubstr("all is handed over to the caller alone: output it as whole, and let stages "
                "take x"));
  EXPECT_THAT(refused("y = gemm x w\nall = gather c\noutput y cols\noutput all whole\n"),
              HasSubstr("gather takes what ranks have by rows, and c is cols"));
}

// One product multiplies the rows where they were made, the other leaves them somewhere else.
TEST(SegmentEdges, WhatAProductGathersLeavesTheProductBeforeAsItWasMade) {
  const auto made_for = [](const char* users) {
    return refusal((std::string("input x [m, h] rows\ninput w [h, h] whole\ninput v [h, h] rows\n"
                                "y = gemm x w\nz = gemm y v\noutput z cols\n") +
                    users)
                       .c_str());
  };
  EXPECT_EQ(made_for("output y rows\n"), "served");
  EXPECT_THAT(made_for("output y cols\n"),
              HasSubstr("y is needed as rows and as cols, and a product leaves it one way: compute "
                        "it once for each"));
}

TEST(SegmentEdges, WhatEveryRankMakesIsOutputWhole) {
  for (const std::string held : {"rows", "cols"}) {
    const std::string lines =
        "input x [m, h] whole\ninput w [h, h] whole\ny = gemm x w\noutput y " + held + "\n";
    EXPECT_THAT(refusal(lines.c_str()),
                HasSubstr("output y is made whole, on every rank: output it as whole"));
  }
}

// Behind its tiles alone what lies there is known to be in the order of experts.
TEST(SegmentEdges, RowsInTheOrderOfTheirExpertsAreForWhatKnowsIt) {
  EXPECT_THAT(refusal("input x [m, h] rows\n"
                      "input ids [m, 2] rows i32\n"
                      "input r [m*2, h] cols\n"
                      "input v [4, h, h] rows\n"
                      "g = grouped x v ids\n"
                      "a = add g r\n"
                      "output a cols\n"),
              HasSubstr("g lies in the order of its experts"));
}

constexpr char kSumsOverSomeExperts[] =
    "input x [m, h] rows\n"
    "input ids [m, 2] rows i32\n"
    "input weights [m, 2] rows fp32\n"
    "input v [4, h, h] experts\n"
    "input w [4, h, h] experts\n"
    "g = grouped x v ids\n"
    "d = grouped g w ids\n"
    "y = weigh d ids weights\n";

TEST(SegmentEdges, SumsOverSomeExpertsAreCombinedBeforeAnythingIsMadeOfThem) {
  const std::string sums = kSumsOverSomeExperts;
  const Operator op = bound((sums + "z = silu y\noutput z rows\n").c_str());
  EXPECT_EQ(op.tensor(*op.find_tensor("z")).held, Held::rows);
  EXPECT_EQ(op.segments[1].product->kind.out, Edge::combine);
  EXPECT_EQ(op.segments[1].name, "y");
  EXPECT_THAT(refusal((sums + "z = grouped y w ids\noutput z rows\n").c_str()),
              HasSubstr("grouped needs y held as routed, and it is a sum over some experts"));
}

// Every stage takes its operand twice: paths through such a graph are more than can be walked.
TEST(SegmentEdges, AreFoundInLongGraphs) {
  std::string lines = "input x [m, h] rows\nt0 = silu x\n";
  for (int i = 0; i < 1000; ++i) {
    const std::string from = "t" + std::to_string(i), to = "t" + std::to_string(i + 1);
    lines += to + " = add " + from + " " + from + "\n";
  }
  EXPECT_THAT(refusal((lines + "output t1000 whole\n").c_str()), HasSubstr("output it as rows"));
  EXPECT_EQ(refusal((lines + "output t1000 rows\n").c_str()), "served");
}

}  // namespace
}  // namespace stretto
