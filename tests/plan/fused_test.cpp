// The word `fused`: which tasks get it, and where it says more than a GPU can do.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <string>

#include "plan/fuse_tasks.h"
#include "refusal.h"
#include "stretto/plan.h"

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr const char* kHead = R"(operator gemm-rs m=128 n=64 k=256 ranks=2 dtype=bf16
sms 132
buffer a bf16 128x128 input
buffer b bf16 64x128 input
buffer c bf16 64x128 input
buffer row bf16 1x64 input
buffer g fp32 128x64 local
buffer u fp32 128x64 local
buffer q fp32 128x64 local
buffer ranges fp32 256x64 local
buffer slots bf16 256x64 symmetric copies=2
buffer out bf16 64x64 output sharded=128
buffer y bf16 128x64 local
buffer z bf16 128x64 local
signals s 4 copies=2
lane 0 compute 0
)";

std::string text_of(int version, const std::string& lanes) {
  return fmt::format("stretto-plan {}\n{}{}end\n", version, kHead, lanes);
}
// The first instruction stands in line 18 of the text.
Plan plan_of(const std::string& lanes) { return parse_plan(text_of(2, lanes)); }
std::string why_not(const std::string& lanes) { return refusal(text_of(2, lanes), "p.txt"); }

// Lanes with every word that they may have, as they are read from a plan of version 1.
void expect_words(const std::string& lanes) {
  std::string without = lanes;
  for (size_t at; (at = without.find(" fused")) != std::string::npos;) without.erase(at, 6);
  Plan plan = parse_plan(text_of(1, without));
  EXPECT_EQ(print(plan), print(plan_of(lanes)));
  EXPECT_THAT(print(plan), testing::StartsWith("stretto-plan 2\n"));
  fuse_tasks(plan);
  EXPECT_EQ(print(plan), print(plan_of(lanes)));
}

const std::string kG = "  gemm #0 a[0:128,0:128] b[0:64,0:128] -> g[0:128,0:64]\n";
const std::string kU = "  gemm #0 fused a[0:128,0:128] c[0:64,0:128] -> u[0:128,0:64]\n";
const std::string kSwiglu = "  swiglu #0 fused g[0:128,0:64] u[0:128,0:64] -> y[0:128,0:64]\n";
const std::string kGelu = "  gelu #0 fused g[0:128,0:64] -> y[0:128,0:64]\n";
const std::string kRanges =
    "  gemm #0 a[0:128,0:64] b[0:64,0:64] -> ranges[0:128,0:64]\n"
    "  gemm #0 fused a[0:128,64:128] b[0:64,64:128] -> ranges[128:256,0:64]\n"
    "  reduce #0 fused ranges[0:128,0:64] ranges[128:256,0:64] -> g[0:128,0:64]\n";
const std::string kTile = "  gemm #0 a[0:64,0:128] b[0:64,0:128] -> slots[0:64,0:64]\n";
const std::string kSum =
    "  wait s.0 >= 1\n"
    "  reduce #0 fused slots[0:64,0:64] slots[64:128,0:64] -> out[0:64,0:64]\n";
const std::string kWithResidual =
    "  wait s.0 >= 1\n"
    "  reduce #0 fused slots[0:64,0:64] slots[64:128,0:64] z[64:128,0:64] -> out[0:64,0:64]\n";
const std::string kNorm =
    "  reduce slots[0:64,0:64] slots[64:128,0:64] -> y[0:64,0:64]\n"
    "  norm fused eps=1e-05 y[0:64,0:64] row[0:1,0:64] -> out[0:64,0:64]\n";

TEST(Fused, IsWhatAGpuKeepsInRegisters) {
  expect_words(kG + kGelu);
  expect_words(kG + "  wait s.0 >= 1\n" + kU + kSwiglu);
  expect_words(kG + "  bias #0 fused g[0:128,0:64] row[0:1,0:64] -> q[0:128,0:64]\n" +
               "  silu #0 fused q[0:128,0:64] -> y[0:128,0:64]\n");
  expect_words(kRanges + kGelu);
  expect_words(kRanges + kU + kSwiglu);
  expect_words(kRanges + "  bias #0 fused g[0:128,0:64] row[0:1,0:64] -> q[0:128,0:64]\n" +
               "  gelu #0 fused q[0:128,0:64] -> y[0:128,0:64]\n");
  expect_words(kTile + kSum);
  expect_words(kTile + kWithResidual);
  expect_words("lane 0 comm 0\n" + kNorm);
  // Nothing is kept for another task than the next, or where others look for it.
  expect_words(kG + "  copy a[0:64,0:64] -> z[0:64,0:64]\n  gelu g[0:128,0:64] -> y[0:128,0:64]\n");
  expect_words(kG + "  gelu g[0:128,0:64] -> y[0:128,0:64]\n" +
               "lane 0 comm 0\n  copy g[0:64,0:64] -> z[0:64,0:64]\n");
  // The second product multiplies the rows of all ranges, and the gate is in their sum.
  const std::string kUnfused = "  gemm #0 a[0:128,0:128] c[0:64,0:128] -> u[0:128,0:64]\n";
  expect_words(kRanges + kUnfused + "  swiglu #0 u[0:128,0:64] g[0:128,0:64] -> y[0:128,0:64]\n");
  expect_words(kRanges + "  gemm #0 a[0:128,0:64] c[0:64,0:64] -> u[0:128,0:64]\n" +
               "  swiglu #0 g[0:128,0:64] u[0:128,0:64] -> y[0:128,0:64]\n");
  // A norm goes with a sum, never with a product.
  expect_words(kG + "  norm eps=1e-05 g[0:128,0:64] row[0:1,0:64] -> y[0:128,0:64]\n");
}

// What is found on rank 0 alone: the sums that both ranks keep, unless another rank reads them.
TEST(Fused, IsTheSameWhereRanksAreAlike) {
  const auto lanes_with = [](const std::string& more_of_0, const std::string& more_of_1) {
    const std::string tile = "  gemm #0 a[0:64,0:128] b[0:64,0:128] -> slots[0:64,0:64]\n";
    const std::string sum = "  reduce #0 slots[0:64,0:64] slots[64:128,0:64] -> out[0:64,0:64]\n";
    return tile + sum + "lane 0 comm 0\n" + more_of_0 + "lane 1 compute 0\n" + tile + sum +
           "lane 1 comm 0\n" + more_of_1;
  };
  const auto words_of = [](const std::string& lanes) {
    Plan plan = parse_plan(text_of(2, lanes)), all = plan;
    fuse_tasks_of_alike_ranks(plan);
    fuse_tasks(all);
    EXPECT_EQ(print(plan), print(all));
    const std::string text = print(plan);
    size_t count = 0;
    for (size_t at = 0; (at = text.find(" fused", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  const std::string copy = "  copy a[0:64,0:64] -> z[0:64,0:64]\n";
  EXPECT_EQ(words_of(lanes_with(copy, copy)), 2u);
  EXPECT_EQ(words_of(lanes_with("  copy slots@1[0:64,0:64] -> z[0:64,0:64]\n",
                                "  copy slots@0[0:64,0:64] -> z[0:64,0:64]\n")),
            0u);
  // Not alike: what rank 0 can keep, rank 1 cannot.
  Plan plan = parse_plan(text_of(2, lanes_with(copy, copy))), all = plan;
  for (Plan* const one : {&plan, &all}) {
    Instr& sum = one->lanes[2].instrs[1];
    one->operands[sum.first_operand + 1].col1 = 32;
  }
  fuse_tasks_of_alike_ranks(plan);
  fuse_tasks(all);
  EXPECT_EQ(print(plan), print(all));
  EXPECT_TRUE(plan.lanes[0].instrs[1].fused);
  EXPECT_FALSE(plan.lanes[2].instrs[1].fused);
}

// Of many ranges of K in a row a sum takes the last two. To try all rows from each would take
// minutes.
TEST(Fused, LongRowsOfRangesAreReadOnce) {
  constexpr int kGemms = 20000;
  std::string text = fmt::format(
      "stretto-plan 1\noperator gemm-rs m=128 n=64 k=256 ranks=1 dtype=bf16\nsms 132\n"
      "buffer a bf16 128x{0} input\nbuffer b bf16 64x{0} input\n"
      "buffer ranges fp32 256x64 local\nbuffer out bf16 128x64 output\nlane 0 compute 0\n",
      kGemms * 64);
  for (int i = 0; i < kGemms; ++i) {
    const int k = i * 64, row = i % 2 * 128;
    text += fmt::format("  gemm a[0:128,{0}:{1}] b[0:64,{0}:{1}] -> ranges[{2}:{3},0:64]\n", k,
                        k + 64, row, row + 128);
  }
  text += "  reduce ranges[0:128,0:64] ranges[128:256,0:64] -> out[0:128,0:64]\nend\n";
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Instr> instrs = parse_plan(text).lanes[0].instrs;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  for (int i = 0; i <= kGemms; ++i) {
    EXPECT_EQ(instrs[static_cast<size_t>(i)].fused, i >= kGemms - 1) << i;
  }
}

TEST(Fused, TasksOfALibraryAreNot) {
  const std::string text = text_of(1, kG + "  gelu g[0:128,0:64] -> y[0:128,0:64]\n");
  std::string library = text;
  library.insert(library.find("sms"), "gemm library\n");
  EXPECT_THAT(print(parse_plan(text)), HasSubstr("gelu fused"));
  EXPECT_THAT(print(parse_plan(library)), testing::Not(HasSubstr("fused")));
}

TEST(Fused, IsNoWordOfVersionOne) {
  EXPECT_THAT(refusal(text_of(1, kG + kGelu), "p.txt"), HasSubstr("p.txt:19:11: expected a"));
}

TEST(Fused, FollowsWhatLeavesSomethingInRegisters) {
  EXPECT_THAT(why_not(kG + "  boundary 0\n" + kGelu),
              HasSubstr("p.txt:20:3: expected a fused task"));
  EXPECT_THAT(why_not("  copy fused a[0:64,0:64] -> z[0:64,0:64]\n"), HasSubstr("p.txt:18:"));
  EXPECT_THAT(why_not(kG + "  copy fused g[0:64,0:64] -> q[0:64,0:64]\n"),
              HasSubstr("expected a task that goes on with a tile in registers"));
  EXPECT_THAT(why_not(kG + "  notify s.0@0 += 1\n" + kGelu), HasSubstr("directly before it"));
  EXPECT_THAT(why_not(kTile + kSum +
                      "  norm fused eps=1e-05 out[0:64,0:64] row[0:1,0:64] -> "
                      "y[0:64,0:64]\n"),
              HasSubstr("p.txt:21:3: expected a fused norm directly behind the reduce"));
  // What is in registers must be taken.
  EXPECT_THAT(why_not(kG + kU), HasSubstr("p.txt:19:3: expected a fused task behind it"));
  EXPECT_THAT(why_not(kG + "  gemm #0 fused a[0:128,0:128] c[0:64,0:128] -> y[0:128,0:64]\n"),
              HasSubstr("another product of the same rows of A"));
}

TEST(Fused, SumsAddWhatTheirTilesHave) {
  std::string other = kRanges;
  other.replace(other.find("ranges[0:128,0:64] ranges"), 18, "ranges[128:256,0:64]");
  EXPECT_THAT(why_not(other), HasSubstr("in their order"));
  std::string early = kRanges;
  early.erase(early.find(" fused"), 6);
  EXPECT_THAT(why_not(early), HasSubstr("p.txt:20:3: expected to add first the ranges"));
  std::string wide = kTile + kSum;
  wide.replace(wide.find("slots[64:128"), 12, "slots[32:96,");
  wide.replace(wide.find(",,"), 2, ",");
  EXPECT_THAT(why_not(wide), HasSubstr("at equal distances"));
  EXPECT_THAT(why_not(kTile + "  notify s.0@0 += 1\n" + kSum), HasSubstr("expected no notify"));
}

// The last source alone, of the tile's type and shape, in vectors, and of the rank.
TEST(Fused, SumsOfRanksTakeOnOneResidualBehindThem) {
  const auto changed = [](const char* from, const char* to) {
    std::string text = kTile + kWithResidual;
    text.replace(text.find(from), std::string(from).size(), to);
    return why_not(text);
  };
  const char* const expected = "at most one of another behind them";
  EXPECT_THAT(changed("slots[64:128,0:64] z[64:128,0:64]", "z[64:128,0:64] slots[64:128,0:64]"),
              HasSubstr(expected));
  EXPECT_THAT(changed("z[64:128,0:64]", "z[64:128,0:64] y[64:128,0:64]"), HasSubstr(expected));
  EXPECT_THAT(changed("z[64:128,0:64]", "g[64:128,0:64]"), HasSubstr(expected));
  EXPECT_THAT(changed("slots[64:128,0:64] z[64:128,0:64]", "z[64:128,0:64]"), HasSubstr(expected));
}

// As behind an all-to-all, where a rank begins with what it has of K, in a matrix of its own.
TEST(Fused, RangesGoOnBehindTheEndOfK) {
  const auto ranges = [](const char* first, const char* second) {
    return fmt::format(
        "  gemm #0 {} -> ranges[0:128,0:64]\n"
        "  gemm #0 fused {} -> ranges[128:256,0:64]\n"
        "  reduce #0 fused ranges[0:128,0:64] ranges[128:256,0:64] -> y[0:128,0:64]\n",
        first, second);
  };
  const char *own = "z[0:128,0:64] b[0:64,64:128]", *other = "a[0:128,0:64] b[0:64,0:64]";
  expect_words(ranges(own, other));
  expect_words(ranges("a[0:128,64:128] b[0:64,64:128]", other));
  expect_words(ranges("z[0:128,0:64] b[0:64,0:64]", "a[0:128,64:128] b[0:64,64:128]"));
  const char* const expected = "or at the end of K";
  EXPECT_THAT(why_not(ranges(own, "a[0:128,0:128] b[0:64,0:128]")), HasSubstr(expected));
  EXPECT_THAT(why_not(ranges("z[0:128,0:64] b[0:64,0:64]", other)), HasSubstr(expected));
  EXPECT_THAT(why_not(ranges("z[0:128,0:64] b[0:64,0:64]", "a[0:128,0:64] b[0:64,64:128]")),
              HasSubstr(expected));
  EXPECT_THAT(why_not(ranges("a[0:128,64:128] b[0:64,0:64]", "z[0:128,0:64] b[0:64,64:128]")),
              HasSubstr(expected));
}

TEST(Fused, NobodyElseTouchesWhatStaysInRegisters) {
  const std::string comm = "lane 0 comm 0\n";
  EXPECT_THAT(
      why_not(kTile + kSum + comm + "  copy slots[63:127,0:64] -> z[0:64,0:64]\n"),
      HasSubstr("p.txt:20:3: expected nobody else to read slots@0[0:64,0:64], which stays in "
                "registers, found rank 0 comm 0 instruction 0 (copy"));
  EXPECT_THAT(why_not(kG + kGelu + comm + "  copy g[64:128,0:64] -> z[0:64,0:64]\n"),
              HasSubstr("p.txt:19:3: expected g to hold nothing but what stays in registers"));
  EXPECT_THAT(why_not(kRanges + kGelu + comm + "  copy a[0:64,0:64] -> ranges[0:64,0:64]\n"),
              HasSubstr("expected ranges to hold nothing but ranges of K"));
  // A notify that comes behind the sum in fact.
  std::string told = kRanges + kGelu;
  told.insert(told.find("  gemm #0 fused"), "  notify s.1@0 += 1\n");
  EXPECT_NO_THROW(plan_of(told));
  EXPECT_THAT(why_not(told + comm + "  wait s.1 >= 1\n"),
              HasSubstr("p.txt:21:3: expected no lane to await"));
  EXPECT_NO_THROW(plan_of(told + comm + "  wait s.1 >= 1 lag 1\n"));
}

// The reader and validate() say the same.
TEST(Fused, AWordTooManyIsNoPlan) {
  Plan plan = plan_of(kG + kGelu);
  EXPECT_NO_THROW(validate(plan));
  plan.lanes[0].instrs[1].fused = false;
  EXPECT_NO_THROW(validate(plan));
  plan.lanes[0].instrs[0].fused = true;
  EXPECT_THROW(validate(plan), UsageError);
}

}  // namespace
}  // namespace stretto
