// What rank 0 says of an operator's times travels as text, and is not trusted.
#include <gtest/gtest.h>

#include "serve/learning.h"
#include "stretto/error.h"

namespace stretto {
namespace {

TEST(VerdictOfRank0, PrintsAndParses) {
  EXPECT_EQ(parse_verdict(to_string(Verdict{})).kind, Verdict::Kind::keep);
  Verdict known;
  known.kind = Verdict::Kind::known;
  known.known.emplace();
  known.known->op = parse_segment("gemm-rs m=64 n=512 k=512 ranks=2 dtype=bf16");
  known.known->machine = "h200x8";
  known.known->measured = {{"tiles", 10, 9, 11, {}, {}}};
  EXPECT_EQ(to_string(parse_verdict(to_string(known))), to_string(known));
  Verdict measure;
  measure.kind = Verdict::Kind::measure;
  measure.budget_ms = 62.5;
  measure.schedules = {"tiles,comm-sms=4", "low-latency"};
  const Verdict again = parse_verdict(to_string(measure));
  EXPECT_EQ(again.kind, Verdict::Kind::measure);
  EXPECT_EQ(again.budget_ms, 62.5);
  EXPECT_EQ(again.schedules, measure.schedules);
}

TEST(VerdictOfRank0, WhatIsNoneIsRefused) {
  for (const char* const bad :
       {"", "kept", "known", "known\n{}", "measure", "measure\n100", "measure\nsoon\ntiles",
        "measure\n-1\ntiles", "measure\n1x\ntiles"}) {
    EXPECT_THROW(parse_verdict(bad), SystemError) << bad;
  }
}

TEST(BudgetOfTheEnvironment, IsAWholeNumberOfMilliseconds) {
  EXPECT_FALSE(measure_ms_of(""));
  EXPECT_EQ(measure_ms_of("0"), 0);
  EXPECT_EQ(measure_ms_of("60000"), 60000);
  for (const char* const bad : {"-1", "60001", "fast", "1.5", " 1"}) {
    try {
      measure_ms_of(bad);
      FAIL() << bad;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("STRETTO_MEASURE_MS is "), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace stretto
