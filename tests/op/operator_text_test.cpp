#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "stretto/error.h"
#include "stretto/segment.h"

namespace stretto {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view text) {
  try {
    parse_segment(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(OperatorText, ParsesWhatItPrints) {
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
    for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
      const Segment op{kind, 37, 64, 1024, 16, dtype};
      EXPECT_EQ(parse_segment(to_string(op)), op) << to_string(op);
    }
  }
  EXPECT_EQ(to_string(Segment{kGemmRs, 2048, 1024, 4096, 8, DType::bf16}),
            "gemm-rs m=2048 n=1024 k=4096 ranks=8 dtype=bf16");
}

TEST(OperatorText, TakesKeysInAnyOrderAndExtraBlanks) {
  const Segment op{kAgGemm, 3, 4, 5, 2, DType::fp16};
  EXPECT_EQ(parse_segment("  ag-gemm dtype=fp16  ranks=2 k=5 n=4 m=3 "), op);
}

TEST(OperatorText, MayLeaveOutWhatTheCallerKnows) {
  const SegmentDefaults known{4, DType::fp32};
  EXPECT_EQ(parse_segment("gemm-ar m=3 n=4 k=8", known),
            (Segment{kGemmAr, 3, 4, 8, 4, DType::fp32}));
  EXPECT_EQ(parse_segment("gemm-ar\tm=3 n=4 ranks=2\tk=8 dtype=fp16\r", known),
            (Segment{kGemmAr, 3, 4, 8, 2, DType::fp16}));
  try {
    parse_segment("gemm-ar m=3 n=4 k=8 xranks=2", known);
    FAIL() << "xranks means nothing";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "'xranks=2' is not one of m=, n=, k=, ranks=, dtype=");
  }
}

TEST(OperatorText, NamesEveryBadPartAtOnce) {
  EXPECT_THAT(refusal("gemm-sr m=1 n=1 k=1 ranks=1 dtype=bf16"),
              HasSubstr("unknown operator 'gemm-sr' (did you mean 'gemm-"));
  const std::string what = refusal("gemm-rs m=12x n= k=99999999999999999999 rank=8 dtype=bf61");
  EXPECT_THAT(what, HasSubstr("m='12x' is not a whole number"));
  EXPECT_THAT(what, HasSubstr("n='' is not a whole number"));
  EXPECT_THAT(what, HasSubstr("k='99999999999999999999' is not a whole number"));
  EXPECT_THAT(what, HasSubstr("'rank=8' is not one of m=, n=, k=, ranks=, dtype="));
  EXPECT_THAT(what, HasSubstr("unknown dtype 'bf61'"));
  EXPECT_THAT(what, HasSubstr("ranks= is missing"));
}

TEST(OperatorText, RefusesRepetitionsAndEmptiness) {
  EXPECT_THAT(refusal("gemm-rs m=1 m=2 n=4 k=4 ranks=1"), HasSubstr("m is given twice"));
  EXPECT_THAT(refusal("gemm-rs m=1 n=4 k=4 ranks=1"), HasSubstr("dtype= is missing"));
  EXPECT_THAT(refusal(""), HasSubstr("an empty operator; expected"));
  EXPECT_THAT(refusal("gemm-rs" +
                      [] {
                        std::string words;
                        for (int i = 0; i < 40; ++i) words += " m=1";
                        return words;
                      }()),
              HasSubstr("says more than an operator has"));
}

TEST(OperatorText, RefusesOperatorsThatCannotBeServed) {
  EXPECT_THAT(refusal("gemm-rs m=8 n=8 k=9 ranks=8 dtype=bf16"), HasSubstr("take k = 8 or 16"));
  EXPECT_THAT(refusal("gemm-rs m=8 n=8 k=8 ranks=4294967297 dtype=bf16"),
              HasSubstr("ranks is 4294967297; it must be between 1 and 1024"));
  EXPECT_THAT(refusal("gemm-rs m=-8 n=8 k=8 ranks=8 dtype=bf16"),
              HasSubstr("m is -8; it must be at least 1"));
}

}  // namespace
}  // namespace stretto
