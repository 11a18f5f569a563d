// Where tiles end between the rows of two owners.
#include <gtest/gtest.h>

#include <set>

#include "drafts.h"

namespace stretto {
namespace {

// Rows at which tiles of rank 0 begin.
std::set<int32_t> rows_of_tiles(const std::string& op, const std::string& schedule, int sms) {
  const Draft draft = draft_of(op, schedule, small_machine(3, sms));
  std::set<int32_t> rows;
  for (const Task& task : tasks_of(draft, Opcode::gemm, 0)) {
    rows.insert(draft.plan.reads(*task.instr)[0].row0);
  }
  return rows;
}

using Rows = std::set<int32_t>;

// Shards of 20 rows.
constexpr const char* kScatter = "gemm-rs m=60 n=16 k=9 ranks=3 dtype=bf16";

TEST(CutTiles, AtOwnersWhereSumsFillNoFurtherWave) {
  const Rows cut{0, 16, 20, 36, 40, 56}, whole{0, 16, 32, 48};
  EXPECT_EQ(rows_of_tiles(kScatter, "tiles,tile=16x16", 6), cut);
  EXPECT_EQ(rows_of_tiles(kScatter, "tiles,tile=16x16", 3), cut);  // two waves either way
  EXPECT_EQ(rows_of_tiles(kScatter, "tiles,tile=16x16", 5), whole);
  EXPECT_EQ(rows_of_tiles(kScatter, "tiles,tile=16x16,comm-sms=1", 6), whole);
  EXPECT_EQ(rows_of_tiles("gemm-rs m=60 n=32 k=9 ranks=3 dtype=bf16", "tiles,tile=16x16", 8),
            whole);
  EXPECT_EQ(
      rows_of_tiles("gemm-rs m=60 n=16 k=384 ranks=3 dtype=bf16", "tiles,tile=16x16,split-k=2", 8),
      whole);
}

TEST(CutTiles, NotForFewRowsOfALargerTile) {
  EXPECT_EQ(rows_of_tiles(kScatter, "tiles,tile=32x16", 8), Rows({0, 32}));
}

TEST(CutTiles, OfGathersWhereThatMakesNoMore) {
  EXPECT_EQ(rows_of_tiles("ag-gemm m=60 n=24 k=8 ranks=3 dtype=bf16", "tiles,tile=16x16", 8),
            Rows({0, 16, 32, 48}));
  EXPECT_EQ(rows_of_tiles("ag-gemm m=54 n=24 k=8 ranks=3 dtype=bf16", "tiles,tile=24x16", 8),
            Rows({0, 18, 36}));
}

TEST(CutTiles, AtOwnersForRunsOfFewerRows) {
  EXPECT_EQ(rows_of_tiles(kScatter, "tiles,tile=32x16,rows=bucket", 8), Rows({0, 20, 40}));
}

}  // namespace
}  // namespace stretto
