// Products that a kernel of few rows sends: who receives them, and what cannot be sent.
#include "launch/sent_products.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/cublas_gemms.h"
#include "launch/library_limits.h"
#include "launch/library_products.h"
#include "launch/rank_program.h"
#include "launch/tile_sums.h"
#include "plan_fixture.h"
#include "tables/plan_limits.h"

namespace stretto::cuda {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kLayer =
    "layer m=22 h=128 f=128 heads=8 kv-heads=4 head-dim=16 ranks=2 dtype=bf16";

Plan lowered(const char* op_text, const char* schedule) {
  const Operator op = parse_operator(op_text);
  const Machine machine = default_machine(op.ranks);
  return lower(op, parse_schedules(schedule, op, machine), machine);
}

TEST(SentProducts, AreReceivedBehindTheirKernelInItsStream) {
  const Plan plan = lowered("gemm-rs m=37 n=72 k=512 ranks=3 dtype=bf16", "few-rows");
  ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
  for (const RankProgram& program : programs_of(plan)) {
    ASSERT_EQ(program.sent.size(), 1u);
    ASSERT_TRUE(program.sent[0].has_value());
    const std::vector<Step>& steps = program.streams.at(0).steps;
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_TRUE(program.needs[0].few_rows);
    EXPECT_EQ(steps[1], *program.sent[0]);
    EXPECT_FALSE(program.receives(steps[0]));
    EXPECT_TRUE(program.receives(steps[1]));
    EXPECT_EQ(products_of(plan, program.gemms[0]).size(), 1u);
  }
  EXPECT_FALSE(takes_cublas(plan));
}

TEST(SentProducts, OfFewerRowsThanRanks) {
  const Plan plan = lowered("gemm-rs m=2 n=72 k=512 ranks=3 dtype=bf16", "few-rows");
  for (const RankProgram& program : programs_of(plan)) EXPECT_TRUE(program.sent.at(0).has_value());
}

// One of two collectives receives; the other is one as ever. All is one stream, so that none waits
// for another's event.
TEST(SentProducts, OfOneOfSeveralProducts) {
  const Plan plan = lowered("mlp m=22 h=128 f=128 ranks=2 dtype=bf16", "low-latency/down:few-rows");
  ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
  const RankProgram program = programs_of(plan)[1];
  EXPECT_EQ(text(plan, program), "0:collective 0:gemm 0 0:move 0 0:gemm 1 0:collective");
  EXPECT_FALSE(program.sent.at(0).has_value());
  const std::vector<Step>& steps = program.streams.at(0).steps;
  EXPECT_FALSE(program.receives(steps.front()));
  EXPECT_TRUE(program.receives(steps.back()));
  EXPECT_TRUE(takes_cublas(plan));
}

// Both of a layer's sums: in its one stream each stands right behind its product.
TEST(SentProducts, OfAWholeLayer) {
  const Plan plan = lowered(kLayer, "few-rows");
  ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
  for (const RankProgram& program : programs_of(plan)) {
    size_t received = 0;
    ASSERT_EQ(program.streams.size(), 1u);
    const std::vector<Step>& steps = program.streams[0].steps;
    for (size_t at = 0; at < steps.size(); ++at) {
      if (!program.receives(steps[at])) continue;
      ++received;
      ASSERT_EQ(steps[at - 1].kind, StepKind::gemm);
      EXPECT_EQ(program.sent.at(steps[at - 1].index), steps[at]);
    }
    EXPECT_EQ(received, 2u);
  }
}

// What is behind a gather, or whose rows a rank has, is stored; activations are its kernel's.
TEST(SentProducts, AreNoneOfWhatOneRankHas) {
  for (const char* op :
       {"mlp m=22 h=128 f=128 ranks=2 dtype=bf16", "mlp-gelu m=22 h=128 f=128 ranks=2 dtype=bf16",
        "mlp-ar m=22 h=128 f=128 ranks=2 dtype=bf16"}) {
    const Plan plan = lowered(op, "few-rows");
    SCOPED_TRACE(op);
    ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
    EXPECT_TRUE(plan.few_rows_gemms);
    const RankProgram program = programs_of(plan)[0];
    const std::string gather = plan.op.name() == "mlp-ar" ? "" : "0:collective ";
    EXPECT_EQ(text(plan, program), gather + "0:gemm 0 0:gemm 1 0:collective");
    EXPECT_TRUE(program.needs.at(0).few_rows);
    EXPECT_FALSE(program.sent.at(0).has_value());
    EXPECT_TRUE(program.sent.at(1).has_value());
    EXPECT_FALSE(takes_cublas(plan));
  }
}

// Its tiles are one product of both weights, which is as wide as either.
TEST(SentProducts, AreFollowedByAGate) {
  const Plan plan = lowered("mlp m=22 h=128 f=256 ranks=2 dtype=bf16", "few-rows,tile=16x32");
  const RankProgram program = programs_of(plan)[1];
  const std::vector<Product> products = products_of(plan, program.gemms.at(0));
  ASSERT_EQ(products.size(), 1u);
  const Product& gated = products.front();
  EXPECT_EQ(gated.activation, Opcode::swiglu);
  EXPECT_EQ(describe(plan, gated.b), "wg@1[0:128,0:128]");
  ASSERT_TRUE(gated.beside.has_value());
  EXPECT_EQ(describe(plan, *gated.beside), "wu@1[0:128,0:128]");
  EXPECT_EQ(describe(plan, gated.c), "up@1[0:22,0:128]");
  const FewRowsShape shape = few_rows_shape(plan, gated);
  EXPECT_EQ(shape.columns, 128);
  EXPECT_EQ(shape.follower, device::Follower::swiglu);
  EXPECT_FALSE(shape.has_bias);
}

// Tiles beside or below one another are one product where they have the same row of bias.
TEST(SentProducts, AreFollowedByOneRowOfBias) {
  const auto why = [](const char* second, const char* kept, const char* bias) {
    const Plan plan = parse_plan(fmt::format(R"(stretto-plan 2
operator gemm-ar m=8 n=64 k=64 ranks=1 dtype=bf16
gemm few-rows
collectives low-latency
sms 132
buffer a bf16 8x64 input
buffer b bf16 64x64 input
buffer c bf16 2x64 input
buffer out bf16 8x64 output
buffer t fp32 8x64 local

lane 0 compute 0
  gemm #0 a[0:4,0:64] b[0:32,0:64] -> t[0:4,0:32]
  bias #0 fused t[0:4,0:32] c[0:1,0:32] -> out[0:4,0:32]
  gemm #1 {0} -> t[{1}]
  bias #1 fused t[{1}] c[{2}] -> out[{1}]
end
)",
                                             second, kept, bias));
    return why_no_products(plan, TileSums(plan));
  };
  const char *beside = "a[0:4,0:64] b[32:64,0:64]", *below = "a[4:8,0:64] b[0:32,0:64]";
  EXPECT_EQ(why(beside, "0:4,32:64", "0:1,32:64"), "");
  EXPECT_EQ(why(below, "4:8,0:32", "0:1,0:32"), "");
  for (const std::string& two :
       {why(beside, "0:4,32:64", "1:2,32:64"), why(below, "4:8,0:32", "1:2,0:32")}) {
    EXPECT_THAT(two, HasSubstr("one product of a kernel, not 2"));
  }
}

// Parts of the rows overlap: their streams stay two.
TEST(SentProducts, OfPartsOfTheRows) {
  const Plan plan =
      lowered("mlp m=64 h=128 f=128 ranks=2 dtype=bf16", "split=2/low-latency/down:few-rows");
  ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
  const RankProgram program = programs_of(plan)[0];
  EXPECT_EQ(program.streams.size(), 2u);
  EXPECT_EQ(std::count_if(program.sent.begin(), program.sent.end(),
                          [](const auto& one) { return one.has_value(); }),
            2);
}

TEST(SentProducts, HaveAllRowsOfAPlan) {
  const Plan plan = lowered("gemm-rs m=32 n=64 k=512 ranks=2 dtype=bf16", "few-rows");
  EXPECT_THAT(why_not_on_cuda(plan, TileSums(plan), true),
              Contains(HasSubstr("sends all rows of a plan: take rows=fixed")));
}

// A product of rank 0, with a collective that takes it and something else that may.
struct Edited {
  const char* gemm = "a[0:8,0:64] b[0:64,0:64] -> part[0:8,0:64]";
  const char* collective = "all_reduce 0 part[0:8,0:64] -> out[0:8,0:64]";
  const char* behind = "";
  const char* rows = "8";
};

// Why it is refused, or stored.
std::string refusal(const Edited& edited) {
  const Plan plan =
      parse_plan(fmt::format(R"(stretto-plan 2
operator gemm-ar m={3} n=64 k=64 ranks=1 dtype=bf16
gemm few-rows
collectives low-latency
sms 132
buffer a bf16 {3}x64 input
buffer b bf16 64x64 input
buffer out bf16 {3}x64 output
buffer part bf16 {3}x64 local
signals part 1

lane 0 compute 0
  gemm #0 {0}
  boundary 0
  notify part.0@0 += 1{2}

lane 0 nccl 0
  wait part.0 >= 1
  collective {1}
end
)",
                             edited.gemm, edited.collective, edited.behind, edited.rows));
  const std::string why = why_no_products(plan, TileSums(plan));
  if (!why.empty()) return why;
  const RankProgram program = programs_of(plan)[0];
  const std::string why_stored =
      SentProducts(plan).why_not(products_of(plan, program.gemms[0]).front());
  EXPECT_EQ(program.sent[0].has_value(), why_stored.empty());
  return why_stored;
}

TEST(SentProducts, NobodyButOneSumTakesThemAndAllOfThem) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({.behind = "\n  copy part[0:1,0:64] -> out[0:1,0:64]"}),
            "nothing but one collective reads part, where the product would lie");
  EXPECT_EQ(refusal({.gemm = "a[0:8,0:64] b[0:64,0:64] -> out[0:8,0:64]"}),
            "nothing but one collective reads out, where the product would lie");
  EXPECT_EQ(refusal({.collective = "all_gather 0 part[0:8,0:64] -> out[0:8,0:64]"}),
            "a sum of all ranks takes part, on its own rank");
  EXPECT_EQ(refusal({.gemm = "a[0:4,0:64] b[0:64,0:64] -> part[0:4,0:64]"}),
            "the collective that takes part adds up nothing else");
  EXPECT_EQ(refusal({.gemm = "a[0:8,0:64] b[0:32,0:64] -> part[0:8,0:32]"}),
            "the product has all columns of part");
  EXPECT_EQ(refusal({.collective = "all_reduce 0 part[0:4,0:64] -> out[0:4,0:64]"}),
            "the collective takes all of part");
  EXPECT_EQ(refusal({.collective = "all_reduce 0 part[0:8,0:64] -> a[0:8,0:64]"}),
            "the collective that takes part writes nothing that the product reads");
}

TEST(SentProducts, OfWhatTheKernelDoesNotMultiplyAreRefused) {
  const auto of_few_rows = [](std::string_view why) {
    return HasSubstr(
        fmt::format("of gemms that a library or the kernel of few rows multiplies: {}", why));
  };
  EXPECT_THAT(refusal({.gemm = "a[0:8,0:60] b[0:64,0:60] -> part[0:8,0:64]"}),
              of_few_rows("few rows have a K that 8 divides, not 60"));
  EXPECT_THAT(refusal({.gemm = "a[0:520,0:64] b[0:64,0:64] -> part[0:520,0:64]",
                       .collective = "all_reduce 0 part[0:520,0:64] -> out[0:520,0:64]",
                       .rows = "520"}),
              of_few_rows("520 rows are not few: at most 512"));
  EXPECT_THAT(refusal({.gemm = "a[0:8,0:64] b[0:64,0:64] -> part[0:8,0:64]\n"
                               "  gemm #1 a[0:8,0:64] b[0:64,0:64] -> out[0:8,0:64]"}),
              of_few_rows("those of few rows are one product of a kernel, not 2"));
}

}  // namespace
}  // namespace stretto::cuda
