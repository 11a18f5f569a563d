// Partitions and the kinds of tasks that use them, in the text form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/error.h"
#include "stretto/plan.h"

namespace stretto {
namespace {

using testing::HasSubstr;

// Three tokens of two choices among two experts, in entries of two rows.
constexpr std::string_view kPlan =
    "stretto-plan 2\n"
    "operator moe-tp-down t=3 h=8 f=8 experts=2 k=2 ranks=1 dtype=bf16\n"
    "sms 2\n"
    "partition parts 4x2 expected=3\n"
    "buffer a bf16 6x8 input\n"
    "buffer ids i32 3x2 input\n"
    "buffer weights fp32 3x2 input\n"
    "buffer wd bf16 16x8 input\n"
    "buffer choices i32 8x1 local by=parts\n"
    "buffer experts i32 4x1 local\n"
    "buffer rows i32 6x1 local\n"
    "buffer counts i32 3x1 local\n"
    "buffer d bf16 8x8 local by=parts\n"
    "buffer y bf16 3x8 output\n"
    "\n"
    "lane 0 compute 0\n"
    "  route experts=2 ids[0:3,0:2] -> choices[0:8,0:1] experts[0:4,0:1] rows[0:6,0:1] "
    "counts[0:3,0:1]\n"
    "  gather_gemm #0 each=8 per=1 choices[e0,0:1] experts[0:1,0:1] a[0:6,0:8] wd[0:16,0:8] -> "
    "d[e0,0:8]\n"
    "  gather_gemm #1 each=8 per=1 choices[e1,0:1] experts[1:2,0:1] a[0:6,0:8] wd[0:16,0:8] -> "
    "d[e1,0:8]\n"
    "  gather_gemm #2 each=8 per=1 choices[e2,0:1] experts[2:3,0:1] a[0:6,0:8] wd[0:16,0:8] -> "
    "d[e2,0:8]\n"
    "  gather_gemm #3 each=8 per=1 choices[e3,0:1] experts[3:4,0:1] a[0:6,0:8] wd[0:16,0:8] -> "
    "d[e3,0:8]\n"
    "  weigh weights[0:3,0:2] rows[0:6,0:1] d[0:8,0:8] -> y[0:3,0:8]\n"
    "end\n";

TEST(Partitions, ArePrintedAsTheyAreRead) {
  const Plan plan = parse_plan(kPlan);
  EXPECT_NO_THROW(validate(plan));
  EXPECT_EQ(print(plan), kPlan);
  ASSERT_EQ(plan.partitions.size(), 1u);
  EXPECT_EQ(plan.partitions[0].entries_of_block(), 4);
  EXPECT_TRUE(plan.partitions[0].is_expected(5));
  EXPECT_FALSE(plan.partitions[0].is_expected(6));
}

TEST(Partitions, HaveRowsThatMayBeNamedOneByOne) {
  std::string text(kPlan);
  const size_t at = text.find("d[e1,0:8]");
  text.replace(at, 9, "d[2:4,0:8]");
  EXPECT_EQ(print(parse_plan(text)), kPlan);
}

// What a caller has chosen may be of 64 bits; it is copied to such alone.
TEST(Partitions, OfIdsOf64BitsAreRead) {
  std::string text(kPlan);
  text.replace(text.find("moe-tp-down"), 11, "moe-tp-down-i64");
  text.replace(text.find("ids i32"), 7, "ids i64");
  EXPECT_EQ(print(parse_plan(text)), text);
  text.insert(text.find("buffer weights"), "buffer more i64 3x2 local\n");
  text.insert(text.find("  route"), "  copy ids[0:3,0:2] -> more[0:3,0:2]\n");
  EXPECT_EQ(print(parse_plan(text)), text);
  for (const char* other : {"more i32", "more fp32"}) {
    std::string wrong = text;
    wrong.replace(wrong.find("more i64"), 8, other);
    EXPECT_THROW(parse_plan(wrong), UsageError) << other;
    std::string back = wrong;
    back.replace(back.find("copy ids[0:3,0:2] -> more"), 25, "copy more[0:3,0:2] -> ids");
    EXPECT_THROW(parse_plan(back), UsageError) << other;
  }
}

struct Edit {
  const char *from, *to, *message;
};

// Of a plan's text, with an edit.
void expect_refused(std::string_view plan, const Edit& edit) {
  std::string text(plan);
  const size_t at = text.find(edit.from);
  ASSERT_NE(at, std::string::npos) << edit.from;
  text.replace(at, std::string_view(edit.from).size(), edit.to);
  try {
    parse_plan(text);
    ADD_FAILURE() << "accepted: " << edit.to;
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr(edit.message)) << edit.to;
  }
}

TEST(Partitions, OfWrongPlansAreRefused) {
  const Edit edits[] = {
      {"parts 4x2", "parts 0x2", "expected entries (a number from 1 to 2147483647), found '0x2'"},
      {"parts 4x2", "parts 65536x65536", "to have 1 to 2147483647 rows, found 65536x65536"},
      {"parts 4x2", "parts 4x2 blocks=3", "expected blocks of equal parts of 4 entries, found 3"},
      {"expected=3", "expected=5", "expected at most the 4 entries of a block, found 5"},
      {"expected=3", "expect=3", "expected blocks=COUNT, expected=ENTRIES or nothing"},
      {"buffer d bf16 8x8 local by=parts", "buffer d bf16 8x8 local by=part",
       "expected by=PARTITION, one that is declared"},
      {"buffer d bf16 8x8", "buffer d bf16 9x8",
       "expected 8 rows of buffer d, the entries of parts, found 9"},
      {"d[e3,0:8]", "d[e4,0:8]", "expected an entry (a number from 0 to 3), found '4,"},
      {"a[0:6,0:8] wd[0:16,0:8] -> d[e0", "a[e0,0:8] wd[0:16,0:8] -> d[e0",
       "expected a row (a number from 0 to 2147483647), found 'e0,"},
      {"route experts=2", "route", "expected experts=NUMBER, found 'ids[0:3,0:2]'"},
      {"route experts=2", "route experts=0", "found '0'"},
      {"route experts=2", "route experts=3",
       "expected a count for each expert, all 3 or the rank's 3"},
      {"rows[0:6,0:1] counts", "rows[0:5,0:1] counts", "expected a row for each of 6 choices"},
      {"each=8 per=1 choices[e0", "each=7 per=1 choices[e0",
       "expected 8 rows of every 7 of a stack, found wd@0[0:16,0:8]"},
      {"each=8 per=1 choices[e0", "each=8 choices[e0", "expected per=NUMBER, found 'choices[e0"},
      {"experts[0:1,0:1] a", "experts[0:3,0:1] a",
       "expected one column of experts, of entries that 2 rows make up"},
      {"a[0:6,0:8] wd", "a[0:6,0:7] wd", "expected a region of X with the 8 columns of B"},
      {"weigh weights[0:3,0:2] rows[0:6", "weigh weights[0:3,0:2] rows[0:5",
       "expected a row for each of 6 weights"},
      {"choices i32", "choices i64", "expected no table of i64, found choices@0[0:8,0:1] of i64"},
      {"rows i32", "rows i64", "expected no table of i64, found rows@0[0:6,0:1] of i64"},
      {"weights fp32", "weights i64", "expected no table of i64, found weights@0[0:3,0:2] of i64"},
      {"ids i32", "ids fp32", "expected a table of i32, found ids@0[0:3,0:2] of fp32"},
      {"choices i32", "choices bf16", "expected a table of i32, found choices@0[0:8,0:1] of bf16"},
      {"experts i32", "experts bf16", "expected a table of i32, found experts@0[0:4,0:1] of bf16"},
      {"rows i32", "rows fp32", "expected a table of i32, found rows@0[0:6,0:1] of fp32"},
      {"counts i32", "counts fp16", "expected a table of i32, found counts@0[0:3,0:1] of fp16"},
      {"weights fp32", "weights i32",
       "expected no table of whole numbers, found weights@0[0:3,0:2] of i32"},
      {"a bf16", "a i32", "expected no table of whole numbers, found a@0[0:6,0:8] of i32"},
      {"y bf16", "y i32", "expected no table of whole numbers, found y@0[0:3,0:8] of i32"},
      {"-> y[0:3,0:8]", "-> y[0:3,0:7]", "expected a written region of 8 columns"},
  };
  for (const Edit& edit : edits) expect_refused(kPlan, edit);
}

// The same partition, made in two parts of the tokens and two of the entries.
std::string plan_of_parts() {
  std::string text(kPlan);
  text.insert(text.find("buffer d bf16"), "buffer parts2 i32 2x3 local\n");
  const size_t begin = text.find("  route"), end = text.find("  gather_gemm");
  return text.replace(
      begin, end - begin,
      "  count_choices experts=2 ids[0:2,0:2] -> parts2[0:1,0:3]\n"
      "  count_choices experts=2 ids[2:3,0:2] -> parts2[1:2,0:3]\n"
      "  place_choices experts=2 rows=2 ids[0:2,0:2] parts2[0:2,0:3] parts2[0:1,0:3] -> "
      "rows[0:4,0:1]\n"
      "  place_choices experts=2 rows=2 ids[2:3,0:2] parts2[0:2,0:3] parts2[1:2,0:3] -> "
      "rows[4:6,0:1]\n"
      "  fill_entries experts=2 first=0 parts2[0:2,0:3] rows[0:6,0:1] -> choices[0:4,0:1] "
      "experts[0:2,0:1] counts[0:3,0:1]\n"
      "  fill_entries experts=2 first=2 parts2[0:2,0:3] rows[0:6,0:1] -> choices[4:8,0:1] "
      "experts[2:4,0:1]\n");
}

TEST(Partitions, MayBeMadeInParts) {
  const std::string text = plan_of_parts();
  EXPECT_EQ(print(parse_plan(text)), text);
  EXPECT_NO_THROW(validate(parse_plan(text)));
  const Edit edits[] = {
      {"count_choices experts=2", "count_choices experts=3",
       "expected a count for each expert, all 3 or the rank's 3"},
      {"parts2[0:1,0:3]\n", "parts2[0:2,0:3]\n", "expected one row of counts"},
      {"parts2[0:1,0:3]\n", "parts2[0:1,0:2]\n", "expected a count for each expert"},
      {"place_choices experts=2 rows=2", "place_choices experts=2", "expected rows=NUMBER"},
      {"place_choices experts=2 rows=2", "place_choices experts=2 rows=0", "found '0'"},
      {"parts2[0:2,0:3] parts2[0:1,0:3]", "parts2[0:2,0:3] parts2[0:2,0:3]",
       "expected OWN is one of the rows of PARTS"},
      {"-> rows[0:4,0:1]", "-> rows[0:3,0:1]", "expected a row for each of 4 choices"},
      {"fill_entries experts=2 first=0", "fill_entries experts=0 first=0", "experts of at least 1"},
      {"fill_entries experts=2 first=0", "fill_entries experts=2", "expected first=NUMBER"},
      {"counts[0:3,0:1]\n", "counts[0:2,0:1]\n", "expected COUNTS of 3 numbers, as PARTS has"},
      {"choices[4:8,0:1] experts[2:4", "choices[4:7,0:1] experts[2:4",
       "expected as many rows for each of 2 entries"},
      {"parts2 i32", "parts2 i64", "expected no table of i64"},
      {"parts2 i32", "parts2 fp32", "expected a table of i32"},
  };
  for (const Edit& edit : edits) expect_refused(text, edit);
}

TEST(Partitions, MayHaveTheirCountsAddedUp) {
  std::string text(kPlan);
  text.insert(text.find("buffer d bf16"), "buffer sums i32 2x1 local\n");
  text.insert(text.find("  gather_gemm #0"),
              "  sum_counts parts=1 counts[0:3,0:1] -> sums[0:2,0:1]\n");
  EXPECT_EQ(print(parse_plan(text)), text);
  EXPECT_NO_THROW(validate(parse_plan(text)));
  const Edit edits[] = {
      {"sum_counts parts=1", "sum_counts", "expected parts=NUMBER"},
      {"sum_counts parts=1", "sum_counts parts=0", "found '0'"},
      {"sum_counts parts=1", "sum_counts parts=2",
       "expected counts of experts, and one more, 2 times"},
      {"sum_counts parts=1", "sum_counts parts=3",
       "expected counts of experts, and one more, 3 times"},
      {"-> sums[0:2,0:1]", "-> sums[0:1,0:1]", "expected a sum for each of 2 experts"},
      {"-> sums[0:2,0:1]", "-> sums[0:2,0:1] sums[0:2,0:1]", "expected one region, SUMS"},
      {"parts=1 counts[0:3,0:1]", "parts=1 counts[0:3,0:1] counts[0:3,0:1]",
       "expected one region, COUNTS"},
      {"parts=1 counts[0:3,0:1]", "parts=1 ids[0:3,0:2]", "expected one column of counts"},
      {"sums i32", "sums fp32", "expected a table of i32"},
  };
  for (const Edit& edit : edits) expect_refused(text, edit);
}

// Too few entries for what a routing could need.
TEST(Partitions, HaveRoomForEveryRouting) {
  std::string text(kPlan);
  for (const auto& [from, to] : {std::pair{"experts[0:4,0:1] rows", "experts[0:3,0:1] rows"},
                                 std::pair{"choices[0:8,0:1] ex", "choices[0:6,0:1] ex"}}) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, std::string_view(from).size(), to);
  }
  try {
    parse_plan(text);
    ADD_FAILURE() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected at least 4 entries"));
  }
}

}  // namespace
}  // namespace stretto
