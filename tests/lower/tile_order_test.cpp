// The order in which ranks compute their tiles.
#include <gmock/gmock.h>

#include "lower/drafts.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

std::vector<int> tiles(const Draft& draft, int rank) {
  std::vector<int> found;
  for (const Task& task : tasks_of(draft, Opcode::gemm, rank)) found.push_back(task.instr->tile);
  return found;
}

// 4 tile rows of 16, `cols` tile columns of 16: tiles are numbered row by row.
std::string reduction(int cols) {
  return "gemm-rs m=64 n=" + std::to_string(16 * cols) + " k=8 ranks=4 dtype=bf16";
}
std::string gather(int rows) {
  return "ag-gemm m=" + std::to_string(16 * rows) + " n=64 k=8 ranks=4 dtype=bf16";
}

TEST(TileOrder, PlainSweepsBlocksOfRowsColumnByColumn) {
  const Draft draft = draft_of(reduction(3), "sequential,tile=16x16,swizzle=2", small_machine(4));
  EXPECT_THAT(tiles(draft, 0), ElementsAre(0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11));
  EXPECT_EQ(tiles(draft, 0), tiles(draft, 3));
}

TEST(TileOrder, PeerStaggeredBeginsWithTheNextRankAndEndsWithItself) {
  const Draft draft =
      draft_of(reduction(2), "tiles,tile=16x16,order=peer-staggered", small_machine(4));
  EXPECT_THAT(tiles(draft, 0), ElementsAre(2, 3, 4, 5, 6, 7, 0, 1));
  EXPECT_THAT(tiles(draft, 2), ElementsAre(6, 7, 0, 1, 2, 3, 4, 5));
}

TEST(TileOrder, NodeThenLocalBeginsWithOtherNodesTilesWhenItReduces) {
  const Draft draft =
      draft_of(reduction(1), "tiles,tile=16x16,order=node-then-local", small_machine(4, 16, 2));
  EXPECT_THAT(tiles(draft, 1), ElementsAre(3, 2, 0, 1));
}

TEST(TileOrder, NodeThenLocalEndsWithOtherNodesShardsWhenItGathers) {
  const Draft draft = draft_of(gather(4), "tiles,tile=16x16,order=node-then-local,comm-sms=2",
                               small_machine(4, 16, 2));
  EXPECT_THAT(tiles(draft, 1), ElementsAre(1, 0, 3, 2));
}

TEST(TileOrder, OwnFirstThenTheNextRanksInTurn) {
  const Draft draft = draft_of(gather(8), "tiles,tile=16x16,order=own-first", small_machine(4, 16));
  EXPECT_THAT(tiles(draft, 1), ElementsAre(2, 3, 4, 5, 6, 7, 0, 1));
}

TEST(TileOrder, ArrivalInterleavesTheStripesOfAllSources) {
  const Draft draft = draft_of(gather(8), "tiles,tile=16x16,order=arrival", small_machine(4, 16));
  EXPECT_THAT(tiles(draft, 1), ElementsAre(2, 3, 4, 6, 0, 5, 7, 1));
}

TEST(TileOrder, TilesThatStraddleShardsComeWithTheirLastSource) {
  // Shards of 24 rows: tile 1 has rows of ranks 0 and 1, tile 4 of ranks 2 and 3.
  const Draft draft = draft_of("ag-gemm m=96 n=64 k=8 ranks=4 dtype=bf16",
                               "tiles,tile=16x16,order=own-first", small_machine(4, 16));
  EXPECT_THAT(tiles(draft, 0), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(tiles(draft, 1), ElementsAre(2, 3, 4, 5, 0, 1));
}

TEST(TileOrder, TilesThatStraddleOwnersComeWithTheFirstOneAndAtTheEndOfTheirOwners) {
  // 6 tiles, of which tiles 1 and 4 have two owners; cut at owners 8, a wave more.
  for (const char* order : {"peer-staggered", "interleaved"}) {
    const Draft draft =
        draft_of("gemm-rs m=96 n=16 k=8 ranks=4 dtype=bf16",
                 std::string("tiles,tile=16x16,order=") + order, small_machine(4, 7));
    const std::vector<int> of_0 = tiles(draft, 0);
    EXPECT_THAT(std::vector<int>(of_0.begin() + 4, of_0.end()), ElementsAre(0, 1)) << order;
    EXPECT_EQ(tiles(draft, 1).back(), 1) << order;
    EXPECT_EQ(tiles(draft, 3).back(), 4) << order;
  }
  // Movers take what is staged: nobody adds to a part as it is computed.
  const Draft draft = draft_of("gemm-rs m=96 n=16 k=8 ranks=4 dtype=bf16",
                               "tiles,tile=16x16,order=peer-staggered,mover=comm-blocks,comm-sms=1",
                               small_machine(4, 8));
  EXPECT_THAT(tiles(draft, 0), ElementsAre(1, 2, 3, 4, 5, 0));
}

TEST(TileOrder, SlicesAreFinishedOneAfterTheOther) {
  // 8 tile rows a shard, so slices of two.
  const Draft draft = draft_of("gemm-rs m=256 n=32 k=8 ranks=2 dtype=bf16",
                               "slices,tile=16x16,swizzle=8", small_machine(2, 64));
  const std::vector<int> order = tiles(draft, 1);
  EXPECT_THAT(std::vector<int>(order.begin(), order.begin() + 8),
              ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
}

TEST(TileOrder, IsThatOfOneWaveAfterTheOther) {
  const Draft draft = draft_of(reduction(4), "sequential,tile=16x16", small_machine(4, 5));
  std::vector<int> lanes;
  for (const Task& task : tasks_of(draft, Opcode::gemm, 2)) lanes.push_back(task.lane->index);
  EXPECT_THAT(lanes, ElementsAreArray({0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0}));
}

}  // namespace
}  // namespace stretto
