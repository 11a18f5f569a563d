// What too many clocks end with, and that a few do not.
#include "order/clock_budget.h"

#include <gtest/gtest.h>

#include "stretto/error.h"

namespace stretto {
namespace {

// Lanes of as many ranks that tell each other everything, round by round.
int events_until_refused(ClockBudget& budget, int ranks, int rounds) {
  std::vector<uint16_t> rank_of_lane;
  for (int rank = 0; rank < ranks; ++rank) rank_of_lane.push_back(static_cast<uint16_t>(rank));
  LaneClocks clocks(rank_of_lane, ranks);
  int events = 0;
  for (int round = 0; round < rounds; ++round) {
    for (uint32_t lane = 0; lane < rank_of_lane.size(); ++lane) {
      std::vector<Event> causes;
      for (uint32_t other = 0; other < lane; ++other) causes.push_back(clocks.last(other));
      budget.spend(clocks);
      clocks.append(lane, causes);
      ++events;
    }
  }
  return events;
}

TEST(ClockBudget, EndsWhatTakesMoreMemory) {
  ClockBudget budget("make", 1 << 20);
  try {
    events_until_refused(budget, 64, 1000);
    FAIL() << "64000 events of 64 lanes fit into 1 MiB";
  } catch (const UsageError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "the plan is too large to make: its lanes know too much of each other; fewer ranks, or "
        "larger chunks, slices or tiles make fewer events");
  }
}

TEST(ClockBudget, LeavesWhatFits) {
  ClockBudget budget("check", size_t{1} << 30);
  EXPECT_EQ(events_until_refused(budget, 64, 200), 64 * 200);
}

TEST(ClockBudget, IsAPartOfThisMachinesMemory) {
  EXPECT_GT(third_of_memory(), size_t{64} << 20);
  EXPECT_LT(third_of_memory(), size_t{1} << 46);
}

}  // namespace
}  // namespace stretto
