#include "lower/row_layout.h"

#include <gmock/gmock.h>

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::vector<std::pair<int, int>> runs(const RowLayout& layout, int row0, int row1) {
  std::vector<std::pair<int, int>> found;
  layout.for_each_run(row0, row1, [&](int a, int b) { found.emplace_back(a, b); });
  return found;
}

TEST(CutRows, InProportionToWeights) {
  EXPECT_THAT(cut_rows(100, {1, 1}, 1), ElementsAre(0, 50, 100));
  EXPECT_THAT(cut_rows(100, {1, 3}, 1), ElementsAre(0, 25, 100));
}

TEST(CutRows, AtMultiplesOfTheUnitWhenEveryPartCanHaveOne) {
  EXPECT_THAT(cut_rows(1024, {1, 1, 1}, 128), ElementsAre(0, 384, 640, 1024));
  EXPECT_THAT(cut_rows(200, {1, 1}, 128), ElementsAre(0, 100, 200));
}

TEST(CutRows, AlwaysToTheEnd) {
  EXPECT_THAT(cut_rows(129, {1}, 128), ElementsAre(0, 129));
  EXPECT_THAT(cut_rows(1000, {1, 1}, 128), ElementsAre(0, 512, 1000));
}

TEST(CutRows, LeavesOutPartsWithoutARow) {
  EXPECT_THAT(cut_rows(2, {1, 1, 1, 1}, 16), ElementsAre(0, 1, 2));
}

TEST(RowLayout, PlainKeepsTheMatrixOrder) {
  const RowLayout layout = plain_rows({10, 4});  // 3 + 3 + 3 + 1
  EXPECT_THAT(layout.chunks, ElementsAre(RowChunk{0, 10}));
  EXPECT_EQ(layout.segments.size(), 4u);
  EXPECT_THAT(runs(layout, 1, 10), ElementsAre(Pair(1, 10)));
}

TEST(RowLayout, ChunkedShardsKeepTheMatrixOrder) {
  const RowLayout layout = chunked_shards({10, 4}, {0, 2, 3});
  EXPECT_THAT(layout.chunks,
              ElementsAre(RowChunk{0, 2}, RowChunk{2, 3}, RowChunk{3, 5}, RowChunk{5, 6},
                          RowChunk{6, 8}, RowChunk{8, 9}, RowChunk{9, 10}));
  EXPECT_THAT(runs(layout, 0, 10), ElementsAre(Pair(0, 10)));
}

TEST(RowLayout, InterleavedChunksHoldRowsOfEveryShard) {
  const RowLayout layout = interleaved_chunks({10, 4}, {0, 2, 3});
  // Chunk 0: rows 0 1, 3 4, 6 7, 9; chunk 1: rows 2, 5, 8.
  EXPECT_THAT(layout.chunks, ElementsAre(RowChunk{0, 7}, RowChunk{7, 10}));
  EXPECT_THAT(runs(layout, 0, 7), ElementsAre(Pair(0, 2), Pair(3, 5), Pair(6, 8), Pair(9, 10)));
  EXPECT_THAT(runs(layout, 1, 3), ElementsAre(Pair(1, 2), Pair(3, 4)));
  EXPECT_THAT(runs(layout, 7, 10), ElementsAre(Pair(2, 3), Pair(5, 6), Pair(8, 9)));
}

TEST(RowLayout, LeavesOutEmptyShards) {
  const RowLayout layout = interleaved_chunks({2, 4}, {0, 1});
  EXPECT_EQ(layout.segments.size(), 2u);
  EXPECT_EQ(layout.segments.back().owner, 1);
}

}  // namespace
}  // namespace stretto
