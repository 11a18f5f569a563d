// Kinds of tasks in the text form: what is read back, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "stretto/error.h"
#include "stretto/plan.h"

namespace stretto {
namespace {

using testing::HasSubstr;

std::string plan_with(std::string_view task, std::string_view lane = "comm") {
  return "stretto-plan 2\noperator gemm-rs m=4 n=8 k=16 ranks=1 dtype=bf16\nsms 2\n"
         "buffer x bf16 4x8 input\nbuffer w bf16 2x8 input\nbuffer y bf16 4x8 output\n\n"
         "lane 0 " +
         std::string(lane) + " 0\n  " + std::string(task) + "\nend\n";
}

struct Text {
  const char* task;
  const char* printed;
};

class KindText : public testing::TestWithParam<Text> {};
INSTANTIATE_TEST_SUITE_P(
    , KindText,
    testing::Values(Text{"swiglu #3 x[0:4,0:4] x[0:4,4:8] -> y[0:4,0:4]",
                         "swiglu #3 x[0:4,0:4] x[0:4,4:8] -> y[0:4,0:4]"},
                    Text{"gelu x[0:4,0:8] -> y[0:4,0:8]", "gelu x[0:4,0:8] -> y[0:4,0:8]"},
                    Text{"silu x[0:4,0:8] -> y[0:3,0:8] y[3:4,0:8]",
                         "silu x[0:4,0:8] -> y[0:3,0:8] y[3:4,0:8]"},
                    Text{"bias x[0:4,0:8] w[1:2,0:8] -> y[0:4,0:8]",
                         "bias x[0:4,0:8] w[1:2,0:8] -> y[0:4,0:8]"},
                    Text{"norm #0   eps=0.00001 x[0:4,0:8] w[0:1,0:8] -> y[0:4,0:8]",
                         "norm #0 eps=1e-05 x[0:4,0:8] w[0:1,0:8] -> y[0:4,0:8]"},
                    Text{"norm eps=1e-06 x[0:1,0:8] w[0:1,0:8] -> y[0:1,0:8]",
                         "norm eps=1e-06 x[0:1,0:8] w[0:1,0:8] -> y[0:1,0:8]"},
                    Text{"restore x[0:2,0:4] x[2:4,0:4]   x[0:2,0:8] -> y[0:1,0:8] y[1:2,0:8]",
                         "restore x[0:2,0:4] x[2:4,0:4] x[0:2,0:8] -> y[0:1,0:8] y[1:2,0:8]"},
                    Text{"restore x[0:1,0:8] -> y[0:1,0:8]", "restore x[0:1,0:8] -> y[0:1,0:8]"},
                    Text{"norm eps=3 x[0:1,0:8] w[0:1,0:8] -> y[0:1,0:8]",
                         "norm eps=3 x[0:1,0:8] w[0:1,0:8] -> y[0:1,0:8]"}));

TEST_P(KindText, IsPrintedAsItIsRead) {
  const Plan plan = parse_plan(plan_with(GetParam().task));
  EXPECT_NO_THROW(validate(plan));
  EXPECT_EQ(print(plan), plan_with(GetParam().printed));
  EXPECT_EQ(print(parse_plan(print(plan))), print(plan));
}

struct Refusal {
  const char* task;
  const char* expected;
};

class KindRefusals : public testing::TestWithParam<Refusal> {};
INSTANTIATE_TEST_SUITE_P(
    , KindRefusals,
    testing::Values(
        Refusal{"swiglu x[0:4,0:8] -> y[0:4,0:8]",
                "plan:9:3: expected two regions, G and U, found 1"},
        Refusal{"swiglu x[0:4,0:4] x[0:4,4:7] -> y[0:4,0:4]",
                "expected regions of one shape, 4x4, found x@0[0:4,4:7] of 4x3"},
        Refusal{"gelu x[0:4,0:8] x[0:4,0:8] -> y[0:4,0:8]", "expected one region, X, found 2"},
        Refusal{"silu -> y[0:4,0:8]", "expected one region, X, found 0"},
        Refusal{"silu x[0:4,0:8] -> y[0:4,0:7]",
                "expected a written region of 8 columns, found y@0[0:4,0:7] of 4x7"},
        Refusal{"silu x[0:4,0:8] -> y[0:3,0:8]",
                "expected written regions that stack to 4 rows, found 3 rows"},
        Refusal{"bias x[0:4,0:8] -> y[0:4,0:8]", "expected two regions, X and B, found 1"},
        Refusal{"bias x[0:4,0:8] w[0:2,0:8] -> y[0:4,0:8]",
                "expected one row of 8 columns, found w@0[0:2,0:8] of 2x8"},
        Refusal{"norm eps=1e-06 x[0:4,0:8] w[0:1,0:7] -> y[0:4,0:8]",
                "expected one row of 8 columns, found w@0[0:1,0:7] of 1x7"},
        Refusal{"norm eps=1e-06 x[0:4,0:8] -> y[0:4,0:8]",
                "expected two regions, X and W, found 1"},
        Refusal{"norm x[0:4,0:8] w[0:1,0:8] -> y[0:4,0:8]",
                "plan:9:8: expected eps=NUMBER, found 'x[0:4,0:8]'"},
        Refusal{"norm eps=0 x[0:4,0:8] w[0:1,0:8] -> y[0:4,0:8]",
                "plan:9:12: expected eps (a number above 0, like 1e-06), found '0'"},
        Refusal{"norm eps=-1 x[0:4,0:8] w[0:1,0:8] -> y[0:4,0:8]",
                "above 0, like 1e-06), found '-1'"},
        Refusal{"norm eps=nan x[0:4,0:8] w[0:1,0:8] -> y[0:4,0:8]", "found 'nan'"},
        Refusal{"norm eps=1e99 x[0:4,0:8] w[0:1,0:8] -> y[0:4,0:8]", "found '1e99'"},
        Refusal{"restore -> y[0:4,0:8]",
                "expected at least one region to put in its place, found none"},
        Refusal{"restore x[0:4,0:8] ->", "expected a written region, found none"},
        Refusal{"restore x[0:4,0:4] x[0:3,4:8] -> y[0:4,0:8]",
                "expected regions of 4 rows, found x@0[0:3,4:8] of 3x4"},
        Refusal{"restore x[0:4,0:4] x[0:4,4:7] -> y[0:4,0:8]",
                "expected regions that are 8 columns wide side by side, found 7 columns"},
        Refusal{"restore x[0:4,0:4] x[0:4,0:8] -> y[0:4,0:8]",
                "expected regions that are 8 columns wide side by side, found 12 columns"},
        Refusal{"restore x[0:4,0:4] x[0:4,4:8] x[0:4,0:4] -> y[0:4,0:8]",
                "expected a region of 8 columns to add, found x@0[0:4,0:4] of 4x4"},
        Refusal{"restore x[0:4,0:8] -> y[0:3,0:8]",
                "expected written regions that stack to 4 rows, found 3 rows"},
        Refusal{"gelu eps=1 x[0:4,0:8] -> y[0:4,0:8]",
                "expected a declared buffer, found 'eps=1'"}));

TEST_P(KindRefusals, NameWhatIsExpected) {
  try {
    parse_plan(plan_with(GetParam().task));
    ADD_FAILURE() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().expected));
  }
}

TEST(KindRefusal, IsAlsoThatOfPlansInMemory) {
  for (const float eps : {0.0f, -1.0f, INFINITY, NAN}) {
    Plan plan = parse_plan(plan_with("norm eps=1 x[0:4,0:8] w[0:1,0:8] -> y[0:4,0:8]"));
    plan.lanes[0].instrs[0].set_attribute(eps);
    EXPECT_THROW(validate(plan), UsageError) << eps;
  }
}

// Tables of whole numbers are moved from one to another, never rounded, added or multiplied.
TEST(KindRefusal, IsThatOfTablesWhereValuesAreMeant) {
  const auto lane_of = [](std::string_view lane, std::string_view line) {
    return "stretto-plan 2\noperator gemm-rs m=4 n=8 k=16 ranks=1 dtype=bf16\nsms 2\n"
           "buffer t i32 4x8 input\nbuffer u i32 4x8 local\nbuffer x bf16 4x8 input\n"
           "buffer y bf16 4x8 output\n\nlane 0 " +
           std::string(lane) + " 0\n  " + std::string(line) + "\nend\n";
  };
  EXPECT_NO_THROW(parse_plan(lane_of("comm", "copy t[0:4,0:8] -> u[0:4,0:8]")));
  EXPECT_NO_THROW(parse_plan(lane_of("nccl", "collective all_gather 0 t[0:4,0:8] -> u[0:4,0:8]")));
  for (const auto& [lane, line] :
       {std::pair{"comm", "copy t[0:4,0:8] -> y[0:4,0:8]"},
        std::pair{"comm", "copy x[0:4,0:8] -> u[0:4,0:8]"},
        std::pair{"comm", "reduce t[0:4,0:8] -> u[0:4,0:8]"},
        std::pair{"comm", "gelu t[0:4,0:8] -> y[0:4,0:8]"},
        std::pair{"compute", "gemm t[0:4,0:8] x[0:4,0:8] -> y[0:4,0:4]"},
        std::pair{"nccl", "collective all_gather 0 t[0:4,0:8] -> y[0:4,0:8]"},
        std::pair{"nccl", "collective all_reduce 0 t[0:4,0:8] -> u[0:4,0:8]"}}) {
    try {
      parse_plan(lane_of(lane, line));
      ADD_FAILURE() << "accepted: " << line;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("table of ")) << line;
    }
  }
}

// Only copies move by themselves, and only the GEMM kernel multiplies.
TEST(KindRefusal, IsThatOfLanesThatCannotDoIt) {
  const char* const silu = "silu x[0:4,0:8] -> y[0:4,0:8]";
  EXPECT_NO_THROW(parse_plan(plan_with(silu, "compute")));
  for (const char* lane : {"copy", "nccl"}) {
    EXPECT_THROW(parse_plan(plan_with(silu, lane)), UsageError) << lane;
  }
}

}  // namespace
}  // namespace stretto
