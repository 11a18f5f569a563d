// Orders of measurements: everybody once a round, and nobody always behind the same one.
#include "measure/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace stretto::runtime {
namespace {

TEST(TurnsOfRound, HaveEverybodyOnce) {
  for (const size_t count : {0u, 1u, 2u, 7u, 30u}) {
    std::vector<size_t> all(count);
    std::iota(all.begin(), all.end(), size_t{0});
    for (int round = 0; round < 5; ++round) {
      EXPECT_THAT(turns_of_round(count, round), testing::UnorderedElementsAreArray(all));
    }
  }
}

TEST(TurnsOfRound, AreTheSameEachTimeTheyAreAskedFor) {
  EXPECT_EQ(turns_of_round(20, 3), turns_of_round(20, 3));
  EXPECT_THAT(turns_of_round(4, 0), testing::ElementsAre(2, 1, 3, 0)) << "on every machine";
}

TEST(TurnsOfRound, PutNobodyAlwaysBehindTheSameOne) {
  constexpr size_t kCount = 6;
  std::vector<std::set<size_t>> before(kCount);
  for (int round = 0; round < 11; ++round) {
    const std::vector<size_t> turns = turns_of_round(kCount, round);
    for (size_t i = 1; i < kCount; ++i) before[turns[i]].insert(turns[i - 1]);
  }
  for (const std::set<size_t>& of : before) EXPECT_GE(of.size(), 3u);
}

TEST(Turns, GoOnUntilSomeoneSaysNo) {
  std::vector<int> taken(3);
  int rounds = 0;
  take_turns(
      taken.size(), 10, [&](size_t who) { ++taken[who]; }, [&] { return ++rounds < 4; });
  EXPECT_THAT(taken, testing::Each(4));
  take_turns(
      taken.size(), 2, [&](size_t who) { ++taken[who]; }, [] { return true; });
  EXPECT_THAT(taken, testing::Each(6));
}

}  // namespace
}  // namespace stretto::runtime
