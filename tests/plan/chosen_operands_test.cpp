// Collectives that go by ids: their text, and what is wrong with their operands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

#include "stretto/error.h"
#include "stretto/plan.h"

namespace stretto {
namespace {

using testing::HasSubstr;

// Of 3 tokens the first rank has 2.
constexpr const char* kPlan = R"(stretto-plan 2
operator dispatch-combine t=3 h=8 experts=3 k=2 ranks=2 dtype=bf16
collectives low-latency
sms 132
buffer x bf16 2x8 input sharded=3
buffer ids i32 2x2 input sharded=3
buffer weights fp32 2x2 input sharded=3
buffer all bf16 3x8 local
buffer all_ids i32 3x2 local
buffer all_weights fp32 3x2 local
buffer counts i32 2x1 local
buffer y bf16 2x8 output sharded=3

lane 0 nccl 0
  collective dispatch 0 experts=3 x[0:2,0:8] ids[0:2,0:2] weights[0:2,0:2] -> all[0:3,0:8] all_ids[0:3,0:2] all_weights[0:3,0:2] counts[0:2,0:1]
  collective combine 1 experts=3 all_weights[0:3,0:2] all_ids[0:3,0:2] all[0:3,0:8] -> y[0:2,0:8]

lane 1 nccl 0
  collective dispatch 0 experts=3 x[0:1,0:8] ids[0:1,0:2] weights[0:1,0:2] -> all[0:3,0:8] all_ids[0:3,0:2] all_weights[0:3,0:2] counts[0:1,0:1]
  collective combine 1 experts=3 all_weights[0:3,0:2] all_ids[0:3,0:2] all[0:3,0:8] -> y[0:1,0:8]
end
)";

// The same there and back at once.
constexpr const char* kRoundTrip = R"(stretto-plan 2
operator dispatch-combine t=3 h=8 experts=3 k=2 ranks=2 dtype=bf16
collectives low-latency
sms 132
buffer x bf16 2x8 input sharded=3
buffer ids i32 2x2 input sharded=3
buffer weights fp32 2x2 input sharded=3
buffer y bf16 2x8 output sharded=3

lane 0 nccl 0
  collective combine 0 experts=3 weights[0:2,0:2] ids[0:2,0:2] x[0:2,0:8] -> y[0:2,0:8]

lane 1 nccl 0
  collective combine 0 experts=3 weights[0:1,0:2] ids[0:1,0:2] x[0:1,0:8] -> y[0:1,0:8]
end
)";

// Ids and no weights, whose place is ahead of rows.
constexpr const char* kIdsAndRows = R"(stretto-plan 2
operator moe-tp-up t=3 h=8 f=16 experts=3 k=2 ranks=2 dtype=bf16
collectives low-latency
sms 132
buffer x bf16 2x8 input sharded=3
buffer ids i32 2x2 input sharded=3
buffer all bf16 3x8 local
buffer all_ids i32 3x2 local

lane 0 nccl 0
  collective dispatch_all 0 experts=3 x[0:2,0:8] ids[0:2,0:2] -> all_ids[0:3,0:2] all[0:3,0:8]

lane 1 nccl 0
  collective dispatch_all 0 experts=3 x[0:1,0:8] ids[0:1,0:2] -> all_ids[0:3,0:2] all[0:3,0:8]
end
)";

std::string edited(const std::string& plan, const std::string& from, const std::string& to) {
  std::string text = plan;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& from, const std::string& to,
                    const std::string& plan = kPlan) {
  try {
    parse_plan(edited(plan, from, to));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

TEST(ChosenOperands, AreTextAndBack) {
  for (const char* plan : {kPlan, kRoundTrip, kIdsAndRows})
    EXPECT_EQ(print(parse_plan(plan)), plan);
}

TEST(ChosenOperands, AreRefusedWhereTheyDoNotFit) {
  EXPECT_THAT(refusal("x[0:2,0:8]", "x[0:1,0:8]"),
              HasSubstr("expected own rows of 2x8 bf16, found x@0[0:1,0:8] of 1x8 bf16"));
  EXPECT_THAT(refusal("ids[0:2,0:2]", "weights[0:2,0:2]"), HasSubstr("expected IDS of 2x2 i32"));
  EXPECT_THAT(refusal("counts[0:2,0:1]", "counts[0:1,0:1]"), HasSubstr("expected COUNTS of 2x1"));
  EXPECT_THAT(refusal(" weights[0:2,0:2] ->", " ->"), HasSubstr("found 2 and 4 regions"));
  EXPECT_THAT(refusal(" all_ids[0:3,0:2] all[0:3,0:8] ->", " all_ids[0:3,0:2] all[0:2,0:8] ->"),
              HasSubstr("expected rows of 3x8"));
  EXPECT_THAT(refusal("-> y[0:2,0:8]", "-> y[0:1,0:8]"), HasSubstr("expected own sums of 2x8"));
  EXPECT_THAT(refusal("dispatch 0 experts=3", "dispatch 0"), HasSubstr("experts=NUMBER"));
  EXPECT_THAT(refusal("collectives low-latency\n", ""),
              HasSubstr("in a plan with 'collectives low-latency'"));
}

TEST(ChosenOperands, AreNotMoreThanKernelsCount) {
  std::string wide = kRoundTrip;
  for (const auto& [from, to] : {std::pair("2x2 input", "2x2147483647 input"),
                                 {"0:2] ids", "0:2147483647] ids"},
                                 {"0:2] x", "0:2147483647] x"}}) {
    for (size_t at = 0; (at = wide.find(from, at)) != std::string::npos; at += strlen(to)) {
      wide.replace(at, strlen(from), to);
    }
  }
  EXPECT_THAT(refusal("end", "end", wide),
              HasSubstr("expected at most 1073741824 choices, found 2147483647"));
  EXPECT_THAT(refusal("combine 0 experts=3", "combine 0 experts=2147483647", kRoundTrip),
              HasSubstr("expected at most 1073741824 experts, found 2147483647"));
}

TEST(ChosenOperands, OfARoundTripAreOwnOnes) {
  EXPECT_THAT(refusal("x[0:2,0:8]", "x[0:1,0:8]", kRoundTrip),
              HasSubstr("expected own rows of 2x8 bf16, found x@0[0:1,0:8] of 1x8 bf16"));
  EXPECT_THAT(refusal("ids[0:2,0:2]", "ids[0:1,0:2]", kRoundTrip),
              HasSubstr("expected IDS of 2x2"));
  EXPECT_THAT(refusal("weights[0:2,0:2]", "weights[0:1,0:2]", kRoundTrip),
              HasSubstr("expected WEIGHTS of 2x2"));
  EXPECT_THAT(refusal("-> y[0:2,0:8]", "-> y[0:1,0:8]", kRoundTrip),
              HasSubstr("expected own sums of 2x8"));
}

// Of one choice a token COUNTS may have the shape of IDS, so these stand first.
TEST(ChosenOperands, WithoutWeightsAreIdsAheadOfRows) {
  const auto refused = [](const std::string& from, const std::string& to) {
    return refusal(from, to, kIdsAndRows);
  };
  EXPECT_THAT(
      refused("-> all_ids[0:3,0:2] all[0:3,0:8]", "-> all[0:3,0:8] all_ids[0:3,0:2]"),
      HasSubstr("expected IDS ahead of rows where no WEIGHTS come along, found them behind"));
  EXPECT_THAT(refused("x[0:2,0:8]", "x[0:1,0:8]"), HasSubstr("expected own rows of 2x8 bf16"));
  EXPECT_THAT(refused("ids[0:2,0:2]", "ids[0:1,0:2]"), HasSubstr("expected IDS of 2x2 i32"));
  EXPECT_THAT(refused("all[0:3,0:8]", "all[0:3,0:7]"), HasSubstr("expected rows of 3x8 bf16"));
  EXPECT_THAT(refused("all_ids[0:3,0:2]", "all_ids[0:2,0:2]"),
              HasSubstr("expected IDS of 3x2 i32"));
  EXPECT_THAT(refused("all[0:3,0:8]\n", "all[0:3,0:8] all_ids[0:3,0:1]\n"),
              HasSubstr("found 2 and 3 regions"));
}

}  // namespace
}  // namespace stretto
