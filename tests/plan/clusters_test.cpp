// A plan says of its clusters what a kernel takes for granted, or it is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "plan/refusal.h"
#include "stretto/check.h"
#include "stretto/error.h"
#include "stretto/lower.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kPlan = R"(stretto-plan 2
operator ag-gemm m=32 n=16 k=128 ranks=1 dtype=bf16
cluster 2
sms 132
buffer a bf16 32x128 input
buffer b bf16 16x128 input
buffer out bf16 32x16 output
buffer here bf16 32x128 local
buffer ranges fp32 64x16 local
signals here 2

lane 0 compute 0
  wait here.0 >= 1
  gemm #0 here[0:16,0:64] b[0:16,0:64] -> ranges[0:16,0:16]
  wait here.1 >= 1
  gemm #0 here[0:16,64:128] b[0:16,64:128] -> ranges[32:48,0:16]
  reduce #0 ranges[0:16,0:16] ranges[32:48,0:16] -> out[0:16,0:16]

lane 0 compute 1
  wait here.0 >= 1
  gemm #1 here[16:32,0:64] b[0:16,0:64] -> ranges[16:32,0:16]
  wait here.1 >= 1
  gemm #1 here[16:32,64:128] b[0:16,64:128] -> ranges[48:64,0:16]
  reduce #1 ranges[16:32,0:16] ranges[48:64,0:16] -> out[16:32,0:16]

lane 0 comm 0
  copy #0 a[0:32,0:64] -> here[0:32,0:64]
  notify here.0@0 += 1
  copy #0 a[0:32,64:128] -> here[0:32,64:128]
  notify here.1@0 += 1
end
)";

// The plan with the last place of some text changed.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = kPlan;
  const size_t at = text.rfind(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Clusters, AreReadAndPrinted) {
  const Plan plan = parse_plan(kPlan);
  EXPECT_EQ(plan.cluster, 2);
  EXPECT_EQ(print(plan), kPlan);
  EXPECT_NO_THROW(validate(plan));
  EXPECT_TRUE(check(plan).clean());
}

// A part of an operator that is split ends at a boundary.
TEST(Clusters, PassBoundariesTogether) {
  const std::string tile = "out[0:16,0:16]\n", partner = "out[16:32,0:16]\n";
  std::string text = kPlan;
  for (const std::string& end : {tile, partner}) {
    text.insert(text.find(end) + end.size(), "  boundary 0\n");
  }
  EXPECT_EQ(print(parse_plan(text)), text);
  text.erase(text.find("  boundary 0\n"), 13);
  EXPECT_THAT(refusal(text), HasSubstr("found its end in rank 0 compute 0 and 'boundary 0'"));
}

TEST(Clusters, OfLanesThatDoNotWaitAlikeAreRefused) {
  EXPECT_THAT(
      refusal(changed("  wait here.1 >= 1\n", "")),
      AllOf(StartsWith("plan:22:3: "),
            HasSubstr("expected lanes of a cluster to multiply the same columns of B and to "
                      "wait alike, found 'wait here.1 >= 1' in rank 0 compute 0 and 'gemm "
                      "#1 here[16:32,64:128] b[0:16,64:128] -> ranges[48:64,0:16]' in rank "
                      "0 compute 1")));
  EXPECT_THAT(refusal(changed("wait here.1 >= 1", "wait here.1 >= 2")), HasSubstr("wait alike"));
  EXPECT_THAT(refusal(changed("wait here.1 >= 1", "wait here.1 >= 1 lag 1")),
              HasSubstr("wait alike"));
  EXPECT_THAT(refusal(changed("wait here.1 >= 1", "wait here.0 >= 1")), HasSubstr("wait alike"));
  EXPECT_THAT(refusal(changed("out[16:32,0:16]\n", "out[16:32,0:16]\n  wait here.1 >= 1\n")),
              AllOf(StartsWith("plan:25:3: "),
                    HasSubstr("found its end in rank 0 compute 0 and 'wait here.1 >= 1' in")));
  // Notifies follow from a lane's own work.
  EXPECT_EQ(refusal(changed("out[16:32,0:16]\n", "out[16:32,0:16]\n  notify here.1@0 += 1\n")),
            "accepted");
}

// The second lane ends early; comments and empty lines between.
TEST(Clusters, ThatDifferAreReportedWhereTheLaneGoesOn) {
  std::string text =
      changed("  reduce #1 ranges[16:32,0:16] ranges[48:64,0:16] -> out[16:32,0:16]\n", "");
  const std::string notes = "  ; a comment\n\n";
  text.insert(text.find("  reduce #0"), notes);
  EXPECT_THAT(refusal(text), AllOf(StartsWith("plan:19:3: "), HasSubstr("found 'reduce #0")));
}

TEST(Clusters, OfLanesThatMultiplyOtherColumnsAreRefused) {
  EXPECT_THAT(refusal(changed("b[0:16,64:128]", "a[0:16,64:128]")), HasSubstr("columns of B"));
  std::string text = changed("here[16:32,64:128] b[0:16,64:128]", "here[16:32,0:64] b[0:16,0:64]");
  EXPECT_THAT(refusal(text), HasSubstr("columns of B"));
  EXPECT_THAT(refusal(changed("here[16:32,64:128]", "here[16:24,64:128] here[24:32,64:128]")),
              HasSubstr("gemms of one region of A and their sums, found 'gemm #1"));
  text = changed("here[16:32,64:128]", "here[16:32,0:64]");
  EXPECT_THAT(refusal(text), HasSubstr("columns of B"));
}

TEST(Clusters, OfOtherInstructionsOrSingleLanesAreRefused) {
  EXPECT_THAT(refusal(changed("out[16:32,0:16]\n", "out[16:32,0:16]\n  boundary 0\n")),
              AllOf(StartsWith("plan:25:3: "),
                    HasSubstr("found its end in rank 0 compute 0 and 'boundary 0' in rank 0 "
                              "compute 1")));
  EXPECT_THAT(refusal(changed("out[16:32,0:16]\n",
                              "out[16:32,0:16]\n\nlane 0 compute 2\n  wait here.1 >= 1\n")),
              AllOf(StartsWith("plan:26:1: "),
                    HasSubstr("expected pairs of compute lanes in a plan with clusters, found "
                              "rank 0 compute 2 alone")));
  EXPECT_THAT(
      refusal(changed("lane 0 compute 1\n", "lane 0 compute 2\n")),
      HasSubstr("expected a cluster to be compute lanes 2i and 2i + 1 of a rank, found rank "
                "0 compute 0 and rank 0 compute 2"));
  EXPECT_THAT(refusal(changed("cluster 2\n", "gemm library\ncluster 2\n")),
              AllOf(StartsWith("plan:4:1: "), HasSubstr("found both")));
}

// As the text is, so is what was made in memory.
TEST(Clusters, AreValidatedInMemoryToo) {
  Plan plan = parse_plan(kPlan);
  plan.cluster = 3;
  EXPECT_THROW(validate(plan), UsageError);
  plan.cluster = 2;
  plan.lanes[1].instrs.erase(plan.lanes[1].instrs.begin());
  EXPECT_THROW(validate(plan), UsageError);
  plan.cluster = 1;
  EXPECT_NO_THROW(validate(plan));
}

}  // namespace
}  // namespace stretto
