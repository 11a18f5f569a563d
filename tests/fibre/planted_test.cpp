// Every planted bug is found within 200 seeds; its correct twin gives no finding.
//
// STRETTO_TWIN_SEEDS sets how many seeds a twin runs. The claim of 10 000 is checked before a
// release by `stretto explore twins --seeds 10000`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "fibre/planted/addresses.h"
#include "fibre/planted/groups.h"
#include "fibre/planted/notify.h"
#include "fibre/planted/relaxed.h"
#include "fibre/planted/reuse.h"
#include "fibre/planted/sentinels.h"
#include "fibre/planted/teams.h"
#include "fibre/planted/two_kernels.h"
#include "fibre/planted/waits.h"
#include "stretto/error.h"
#include "stretto/fibre/catalog.h"

namespace stretto::fibre {
namespace {

std::vector<Planted> all_planted() {
  std::vector<Planted> all;
  for (auto make : {notify_bugs, wait_bugs, reuse_bugs, group_bugs, address_bugs, sentinel_bugs,
                    team_bugs, relaxed_bugs, two_kernel_bugs}) {
    for (Planted& planted : make()) all.push_back(std::move(planted));
  }
  return all;
}

uint64_t twin_seeds() {
  const char* text = std::getenv("STRETTO_TWIN_SEEDS");
  return text == nullptr ? 300 : std::strtoull(text, nullptr, 10);
}

class PlantedBug : public testing::TestWithParam<Planted> {};

TEST_P(PlantedBug, IsFound) {
  const Planted& planted = GetParam();
  const Exploration result = explore(planted.shape, planted.with(true), {.num_seeds = 200});
  ASSERT_TRUE(result.failure) << "not found in " << result.seeds_run << " seeds";
  EXPECT_THAT(planted.kinds, testing::Contains(result.failure->finding.kind))
      << result.failure->to_text();
  RecordProperty("seeds", std::to_string(result.seeds_run));
}

TEST_P(PlantedBug, TwinIsClean) {
  const Planted& planted = GetParam();
  const Exploration result =
      explore(planted.shape, planted.with(false), {.num_seeds = twin_seeds()});
  EXPECT_FALSE(result.failure) << result.failure->to_text();
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBug, testing::ValuesIn(all_planted()),
                         [](const auto& of) { return std::string(of.param.name); });

// A shape that a twin is not written for is refused, and no reason to find a bug in it.
TEST(PlantedBugs, TwinsAreCleanOrRefusedWhateverTheShape) {
  int clean = 0, refused = 0;
  for (const CatalogEntry& twin : catalog()) {
    if (twin.kind != EntryKind::kTwin) continue;
    for (const int ranks : {2, 3, 5}) {
      for (const int blocks : {1, 3}) {
        for (const int threads : {1, 8}) {
          Shape shape = twin.shape;
          shape.ranks = ranks;
          shape.blocks = blocks;
          shape.threads = threads;
          shape.warp_size = std::min(shape.warp_size, threads);
          try {
            const Exploration result = explore(shape, twin.scenario, {.num_seeds = 3});
            EXPECT_FALSE(result.failure)
                << twin.name << " of " << ranks << " ranks, " << blocks << " blocks, " << threads
                << " threads: " << result.failure->to_text();
            ++clean;
          } catch (const UsageError& error) {
            EXPECT_THAT(error.what(), testing::HasSubstr("is written for "));
            ++refused;
          }
        }
      }
    }
  }
  EXPECT_GT(clean, 200);
  EXPECT_GT(refused, 200);
}

TEST(PlantedBugs, AreMany) { EXPECT_GE(all_planted().size(), 55u); }

}  // namespace
}  // namespace stretto::fibre
