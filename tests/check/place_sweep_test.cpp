// Cutting a buffer into the rectangles that its accesses distinguish.
#include "check/place_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "check/random_plans.h"
#include "stretto/error.h"

namespace stretto::checker {
namespace {

Access access(int row0, int row1, int col0, int col1) {
  Access a;
  a.region = {row0, row1, col0, col1, 0, 0};
  return a;
}

// What covers each element, as the sweep says it; every element at most once.
std::map<std::pair<int, int>, std::vector<uint32_t>> sweep(const std::vector<Access>& accesses,
                                                           int rows, int cols) {
  std::map<std::pair<int, int>, std::vector<uint32_t>> covers;
  const AccessGroups groups(accesses);
  PlaceSweep places(groups, rows, cols);
  places.for_each([&](const Region& place, std::span<const uint32_t> of_groups) {
    EXPECT_TRUE(std::is_sorted(of_groups.begin(), of_groups.end()));
    std::vector<uint32_t> here;
    for (const uint32_t group : of_groups) {
      here.insert(here.end(), groups.of(group).begin(), groups.of(group).end());
    }
    std::sort(here.begin(), here.end());
    for (int row = place.row0; row < place.row1; ++row) {
      for (int col = place.col0; col < place.col1; ++col) {
        if (here.empty() && (row < 0 || row >= rows || col < 0 || col >= cols)) continue;
        EXPECT_TRUE(covers.try_emplace({row, col}, here).second) << row << "," << col;
      }
    }
    return true;
  });
  return covers;
}

TEST(PlaceSweep, EveryElementMeetsExactlyTheAccessesThatCoverIt) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Access> accesses;
    for (int i = pick(random, 9); i > 0; --i) {
      const int row = pick(random, 10), col = pick(random, 10);
      accesses.push_back(access(row, row + 1 + pick(random, 5), col, col + 1 + pick(random, 5)));
    }
    const int rows = pick(random, 2) * 12, cols = 12;
    std::map<std::pair<int, int>, std::vector<uint32_t>> expected;
    for (int row = 0; row < 16; ++row) {
      for (int col = 0; col < 16; ++col) {
        std::vector<uint32_t> here;
        for (uint32_t i = 0; i < accesses.size(); ++i) {
          const Region& r = accesses[i].region;
          if (r.row0 <= row && row < r.row1 && r.col0 <= col && col < r.col1) here.push_back(i);
        }
        if (!here.empty() || (row < rows && col < cols)) expected[{row, col}] = here;
      }
    }
    EXPECT_EQ(sweep(accesses, rows, cols), expected);
  }
}

TEST(AccessGroups, HaveTheAccessesOfARegionInTheirOrder) {
  std::vector<Access> accesses{access(0, 4, 0, 4), access(0, 2, 0, 4), access(0, 4, 0, 4),
                               access(0, 2, 0, 4), access(0, 4, 0, 2), access(0, 4, 0, 4)};
  accesses[3].is_write = true;
  const AccessGroups groups(accesses);
  ASSERT_EQ(groups.count(), 3u);
  EXPECT_THAT(groups.of(0), testing::ElementsAre(0, 2, 5));
  EXPECT_THAT(groups.of(1), testing::ElementsAre(1, 3));
  EXPECT_THAT(groups.of(2), testing::ElementsAre(4));
  EXPECT_EQ(groups.region(1), accesses[1].region);
  EXPECT_TRUE(groups.only_reads(0));
  EXPECT_FALSE(groups.only_reads(1));
}

// Bands of so many columns that they are cut anew, not from those of the band before.
TEST(PlaceSweep, CutsManyColumnsFromOneBandToTheNext) {
  std::vector<Access> accesses;
  for (int row = 0; row < 3; ++row) {
    for (int i = 0; i < 600; ++i) accesses.push_back(access(row, row + 1, 3 * i + row, 3 * i + 3));
  }
  size_t elements = 0;
  for (const auto& [place, here] : sweep(accesses, 0, 0)) elements += here.size();
  EXPECT_EQ(elements, 600u * (3 + 2 + 1));
}

TEST(PlaceSweep, StopsWhenToldTo) {
  const std::vector<Access> accesses{access(0, 1, 0, 1), access(1, 2, 0, 1), access(2, 3, 0, 1)};
  int visits = 0;
  const AccessGroups groups(accesses);
  PlaceSweep(groups, 0, 0).for_each([&](const Region&, std::span<const uint32_t>) {
    return ++visits < 2;
  });
  EXPECT_EQ(visits, 2);
}

TEST(PlaceSweep, RefusesWhatWouldTakeForever) {
  std::vector<Access> accesses;
  for (int i = 0; i < 20000; ++i) accesses.push_back(access(0, 10, i, 60000 - i));
  const AccessGroups groups(accesses);
  PlaceSweep places(groups, 0, 0);
  EXPECT_THROW(places.for_each([](const Region&, std::span<const uint32_t>) { return true; }),
               UsageError);
}

}  // namespace
}  // namespace stretto::checker
