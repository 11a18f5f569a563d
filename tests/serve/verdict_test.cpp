// What rank 0 says of an operator's times travels as text, and is not trusted.
#include "serve/verdict.h"

#include <gtest/gtest.h>

#include "serve/learning.h"
#include "stretto/error.h"

namespace stretto {
namespace {

TEST(VerdictOfRank0, PrintsAndParses) {
  EXPECT_EQ(parse_verdict(to_string(Verdict{})).kind, Verdict::Kind::keep);
  Verdict take;
  take.kind = Verdict::Kind::take;
  take.chosen = {"tiles,comm-sms=4", "the fastest of 4: 10.0 us", {Evidence::near, 0.08}};
  const Verdict taken = parse_verdict(to_string(take));
  EXPECT_EQ(taken.kind, Verdict::Kind::take);
  EXPECT_EQ(taken.chosen.schedule, take.chosen.schedule);
  EXPECT_EQ(taken.chosen.reason, take.chosen.reason);
  EXPECT_EQ(taken.chosen.sureness, take.chosen.sureness);
  Verdict measure;
  measure.kind = Verdict::Kind::measure;
  measure.chosen = take.chosen;
  measure.budget_ms = 62.5;
  measure.chosen_ms = 7;
  measure.schedules = {"tiles,comm-sms=4", "low-latency"};
  const Verdict again = parse_verdict(to_string(measure));
  EXPECT_EQ(again.kind, Verdict::Kind::measure);
  EXPECT_EQ(again.budget_ms, 62.5);
  EXPECT_EQ(again.chosen_ms, 7);
  EXPECT_EQ(again.chosen.schedule, take.chosen.schedule);
  EXPECT_EQ(again.schedules, measure.schedules);
}

TEST(VerdictOfRank0, WhatIsNoneIsRefused) {
  for (const char* const bad :
       {"", "kept", "take", "take\n", "take\n0\n0.1", "take\n0\nsure\ntiles", "take\n0\n-1\ntiles",
        "take\n3\n0.1\ntiles", "take\n0\nnan\ntiles", "measure", "measure\n100",
        "measure\nsoon\n0\n0\n1\ntiles\nwhy\ntiles", "measure\n-1\n0\n0\n1\ntiles\nwhy\ntiles",
        "measure\n1x\n0\n0\n1\ntiles\nwhy\ntiles", "measure\n1\n-1\n0\n1\ntiles\nwhy\ntiles",
        "measure\n1\n0\n0\n1\ntiles\nwhy"}) {
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
