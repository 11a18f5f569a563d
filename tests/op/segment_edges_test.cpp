// Which edges between segments are served, and which are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
