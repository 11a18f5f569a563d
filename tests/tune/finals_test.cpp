// Who may be the fastest is measured once more, and the others' times follow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "stretto/tune.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Measured measured(const std::string& schedule, double low, double median, double high) {
  return {schedule, median, low, high, {}, {}};
}

std::vector<std::string> names(const std::vector<Measured>& all) {
  std::vector<std::string> names;
  for (const Measured& one : all) names.push_back(one.schedule);
  return names;
}

TEST(Finalists, AreThoseWhoseBestRoundReachesTheFastestMedian) {
  EXPECT_THAT(names(finalists({measured("slow", 101, 120, 130), measured("second", 100, 104, 140),
                               measured("first", 90, 100, 110), measured("lucky", 80, 103, 105)})),
              ElementsAre("first", "lucky", "second"));
}

TEST(Finalists, AreNoneWhereOneStandsAlone) {
  EXPECT_THAT(finalists({measured("first", 99, 100, 101), measured("second", 100.5, 102, 103)}),
              IsEmpty());
  EXPECT_THAT(finalists({measured("only", 99, 100, 101)}), IsEmpty());
  EXPECT_THAT(finalists({}), IsEmpty());
}

TEST(Finalists, AreTheFastestOfMany) {
  std::vector<Measured> many;
  for (int i = 20; i > 0; --i) many.push_back(measured(std::to_string(i), 1, 100 + i, 200));
  const std::vector<std::string> found = names(finalists(many));
  ASSERT_EQ(found.size(), 8u);
  EXPECT_EQ(found.front(), "1");
  EXPECT_EQ(found.back(), "8");
}

testing::Matcher<const Turns&> are(int rounds, double turn_us) {
  return testing::AllOf(testing::Field(&Turns::rounds, rounds),
                        testing::Field(&Turns::turn_us, turn_us));
}

TEST(TurnsOfFinals, AreMoreWhereRoundsDifferByAFewPerCentInTheMean) {
  const std::vector<Measured> steady = {measured("a", 98, 100, 106), measured("b", 99, 100, 100)};
  EXPECT_THAT(turns_of_finals(steady, {11, 0}), are(22, 0));
  EXPECT_THAT(turns_of_finals(steady, {3, 20e3}), are(9, 20e3));
}

TEST(TurnsOfFinals, AreLongWhereRoundsDifferByMore) {
  const std::vector<Measured> changing = {measured("a", 98, 100, 108), measured("b", 99, 100, 100)};
  EXPECT_THAT(turns_of_finals(changing, {11, 0}), are(11, 100e3));
  EXPECT_THAT(turns_of_finals(changing, {3, 20e3}), are(5, 100e3));
  EXPECT_THAT(turns_of_finals(changing, {3, 200e3}), are(5, 200e3));
}

// On GPUs that are warmer by then a finalist is not behind one that was measured on cold ones only.
TEST(WithFinals, ScalesTheOthersAsTheFinalistsChanged) {
  const std::vector<Measured> all =
      with_finals({measured("other", 100, 104, 120), measured("first", 90, 100, 110),
                   measured("second", 95, 102, 110)},
                  {measured("second", 108, 108.12, 109), measured("first", 111, 112.36, 113)});
  ASSERT_THAT(names(all), ElementsAre("other", "first", "second"));
  const double factor = std::sqrt(1.1236 * 1.06);
  EXPECT_DOUBLE_EQ(all[0].time_us, 104 * factor);
  EXPECT_DOUBLE_EQ(all[0].low_us, 100 * factor);
  EXPECT_DOUBLE_EQ(all[0].high_us, 120 * factor);
  EXPECT_EQ(all[1].time_us, 112.36);
  EXPECT_EQ(all[2].low_us, 108);
}

// In the mean finalists changed by 8 %, but the fastest of them by more.
TEST(WithFinals, MakesNobodyElseTheFastest) {
  const std::vector<Measured> all =
      with_finals({measured("other", 100.5, 101, 103), measured("first", 95, 100, 105),
                   measured("second", 99, 110, 115)},
                  {measured("first", 114, 115, 116), measured("second", 111, 112, 113)});
  EXPECT_DOUBLE_EQ(all[0].time_us, 101 * 1.12);
  EXPECT_DOUBLE_EQ(all[0].low_us, 100.5 * 1.12);
}

TEST(WithFinals, LeavesAllWhereThereWereNone) {
  const std::vector<Measured> all = with_finals({measured("a", 1, 2, 3)}, {});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].time_us, 2);
}

}  // namespace
}  // namespace stretto
