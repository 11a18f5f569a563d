// How much GPU memory a whole model's operations need between ranks: docs/serving.md says it.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "run/between_ranks.h"
#include "run/workspace.h"
#include "stretto/error.h"
#include "stretto/lower.h"

namespace stretto::runtime {
namespace {

struct Linear {
  ProductKind kind;
  int64_t n, k;
};
// A model of 70 billion parameters: query, key and value; output; gate and up; down. Each is one
// operation for all of its 80 layers.
constexpr Linear kLinears[] = {
    {kAgGemm, 10240, 8192}, {kGemmRs, 8192, 8192}, {kAgGemm, 57344, 8192}, {kGemmRs, 8192, 28672}};
constexpr int64_t kRows = 8192;
constexpr size_t kMiB = size_t{1} << 20;

// What plans that come in this order make a workspace that begins with nothing grow to.
size_t grown_by(const std::vector<size_t>& plans) {
  WorkspaceRooms rooms({0, WorkspaceGrowth::doubles});
  size_t all = 0;
  for (const size_t needed : plans) all += rooms.place(needed).new_piece;
  return all;
}

class WorkspaceOf : public testing::TestWithParam<int> {};

TEST_P(WorkspaceOf, ALargeModelIsTwoGiBAtTheMost) {
  const int ranks = GetParam();
  const Machine machine = default_machine(ranks);
  const Tuning tuning = shipped_tuning();
  size_t of_each = 0, of_all = 0, slots = 0;
  for (const Linear& linear : kLinears) {
    const BetweenRanks bytes = of_operation(memory_of_buckets(
        {linear.kind, kRows, linear.n, linear.k, ranks, DType::bf16}, machine, tuning));
    of_each += bytes.workspace;
    of_all = std::max(of_all, bytes.workspace);
    slots += bytes.slots;
  }
  std::cout << ranks << " ranks: " << of_each / kMiB << " MiB, each operation its own; "
            << of_all / kMiB << " MiB in turns, " << grown_by({of_all}) / kMiB
            << " in one that grows; slots " << slots / kMiB << " MiB\n";
  EXPECT_LE(of_each + slots, 2048 * kMiB);
  EXPECT_GT(slots, 0u);
  EXPECT_EQ(grown_by({of_all}), 512 * kMiB);
}

// stretto.torch has an operation for each power of two of rows, and a workspace that grows.
TEST_P(WorkspaceOf, PyTorchsRoomsTakeTwiceWhatTheLargestNeeds) {
  const int ranks = GetParam();
  const Machine machine = default_machine(ranks);
  const Tuning tuning = shipped_tuning();
  std::vector<size_t> rooms;  // ascending
  for (int64_t rows = 256; rows <= kRows; rows *= 2) {
    for (const Linear& linear : kLinears) {
      const BetweenRanks bytes = of_operation(memory_of_buckets(
          {linear.kind, rows, linear.n, linear.k, ranks, DType::bf16}, machine, tuning));
      rooms.push_back(bytes.workspace);
    }
  }
  size_t of_each = 0;
  for (const size_t bytes : rooms) of_each += bytes;
  const size_t largest = *std::max_element(rooms.begin(), rooms.end());
  const size_t rising = grown_by(rooms);
  std::reverse(rooms.begin(), rooms.end());
  const size_t falling = grown_by(rooms);
  std::cout << ranks << " ranks: " << of_each / kMiB << " MiB, each room its own; "
            << falling / kMiB << " MiB in turns, the largest first, " << rising / kMiB
            << " MiB the smallest first\n";
  EXPECT_EQ(falling, 2 * largest);
  EXPECT_LE(rising, 4 * largest);
  EXPECT_EQ(largest, 256 * kMiB);
}

TEST(Workspace, GrowsToEightTimesWhatTheLargestPlanNeedsAtTheMost) {
  std::vector<size_t> rising;
  for (size_t needed = 1000; needed < 5000; needed += 7) rising.push_back(needed);
  EXPECT_LE(grown_by(rising), 8 * rising.back());
  EXPECT_EQ(grown_by({5000, 1000, 5000, 3000}), 10000u);
  WorkspaceRooms exact({});
  EXPECT_EQ(exact.place(4000).new_piece, 4000u);
  EXPECT_EQ(exact.place(5000).new_piece, 5000u);
  EXPECT_THROW(WorkspaceRooms({4000, WorkspaceGrowth::none}).place(5000), UsageError);
}

// Each by at and new piece.
void expect_place(WorkspaceRooms& rooms, size_t needed, size_t at, size_t new_piece = 0) {
  const PlaceInWorkspace found = rooms.place(needed);
  EXPECT_EQ(found.at, at) << needed;
  EXPECT_EQ(found.new_piece, new_piece) << needed;
}

TEST(Workspace, PlansLieBehindOneAnotherWhereThereIsRoom) {
  WorkspaceRooms rooms({0, WorkspaceGrowth::doubles});
  expect_place(rooms, 30, 0, 60);
  expect_place(rooms, 30, 30);
  expect_place(rooms, 30, 0);
  expect_place(rooms, 20, 30);
  expect_place(rooms, 20, 0);
  expect_place(rooms, 31, 0, 120);  // of its own kind two would not fit
  expect_place(rooms, 60, 31);
  WorkspaceRooms given({50, WorkspaceGrowth::doubles});  // by the caller: what fits takes no more
  expect_place(given, 30, 0);
  expect_place(given, 30, 0);
  expect_place(given, 60, 0, 120);
  EXPECT_TRUE(given.fits(120));
  EXPECT_EQ(given.place_inside(70).at, 0u);  // where there is no memory for two
  WorkspaceRooms fixed({100, WorkspaceGrowth::none});
  expect_place(fixed, 60, 0);
  expect_place(fixed, 40, 60);
  expect_place(fixed, 60, 0);
  expect_place(fixed, 60, 0);  // no room beside the one before
  WorkspaceRooms exact({});    // plans of one operation, the largest first
  expect_place(exact, 60, 0, 60);
  expect_place(exact, 30, 0);
  expect_place(exact, 20, 30);
}

TEST(Workspace, APlanLiesBesideThoseThatRanLastWhereThereIsRoom) {
  WorkspaceRooms rooms({100, WorkspaceGrowth::none});
  const std::vector<WorkspaceBytes> recent = {{0, 30}, {50, 60}, {30, 45}};
  EXPECT_EQ(rooms.place(40, recent).at, 60u);
  EXPECT_EQ(rooms.place(5, recent).at, 60u);   // what has not run is in nobody's way
  EXPECT_EQ(rooms.place(5, recent).at, 65u);   // but lies apart all the same
  EXPECT_EQ(rooms.place(50, recent).at, 30u);  // beside the last two there is no room
  EXPECT_EQ(rooms.place(80, recent).at, 0u);   // nor beside the last
}

INSTANTIATE_TEST_SUITE_P(Ranks, WorkspaceOf, testing::Values(2, 4, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace stretto::runtime
