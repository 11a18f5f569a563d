#include "lower/wave_groups.h"

#include <gmock/gmock.h>

#include <numeric>

namespace stretto {
namespace {

using testing::ElementsAre;

std::vector<int> given(std::vector<int> groups, int waves) {
  Schedule schedule;
  schedule.groups = std::move(groups);
  return wave_groups(schedule, waves);
}

TEST(WaveGroups, AreTakenAsGiven) { EXPECT_THAT(given({1, 3, 2}, 6), ElementsAre(1, 3, 2)); }

TEST(WaveGroups, EndWithTheWaves) { EXPECT_THAT(given({1, 3, 2}, 3), ElementsAre(1, 2)); }

TEST(WaveGroups, MakeOneMoreOfWavesThatAreLeft) {
  EXPECT_THAT(given({1, 3}, 9), ElementsAre(1, 3, 5));
}

TEST(WaveGroups, ChosenOnesBeginAndEndSmall) {
  EXPECT_THAT(given({}, 1), ElementsAre(1));
  EXPECT_THAT(given({}, 2), ElementsAre(1, 1));
  EXPECT_THAT(given({}, 8), ElementsAre(1, 2, 4, 1));
  EXPECT_THAT(given({}, 17), ElementsAre(2, 4, 8, 1, 2));
}

TEST(WaveGroups, ChosenOnesAreFewAndComplete) {
  for (int waves = 1; waves <= 1000; ++waves) {
    const std::vector<int> groups = given({}, waves);
    ASSERT_LE(groups.size(), 5u) << waves;
    ASSERT_EQ(std::accumulate(groups.begin(), groups.end(), 0), waves);
    ASSERT_GT(*std::min_element(groups.begin(), groups.end()), 0) << waves;
  }
}

}  // namespace
}  // namespace stretto
