// Tiles of several owners are computed when all of these can add to their rows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lower/drafts.h"
#include "lower/lowering.h"

namespace stretto {
namespace {

Draft draft_of(int64_t m, int64_t n, int ranks, int sms, const std::string& more) {
  return draft_of(
      fmt::format("gemm-rs m={} n={} k={} ranks={} dtype=bf16", m, n, 128 * ranks, ranks),
      "tiles,tile=16x16,comm-sms=0," + more, small_machine(ranks, sms));
}

// Reduces that no lane makes right behind the gemm of their tile.
int left_for_the_end(const Draft& draft) {
  int left = 0;
  for (const Lane& lane : draft.plan.lanes) {
    const Instr* tile = nullptr;  // the gemm, or the sum of its ranges of K
    for (const Instr& instr : lane.instrs) {
      if (!instr.is_task()) continue;
      const bool adds_ranks = instr.op == Opcode::reduce &&
                              draft.plan.buffers[draft.plan.reads(instr)[0].buffer].name == "slots";
      left += adds_ranks && (tile == nullptr || tile->tile != instr.tile);
      tile = adds_ranks ? nullptr : &instr;
    }
  }
  return left;
}

TEST(AlignOwners, EveryRankAddsToItsRowsAsItComputesThem) {
  // Parts of a half, shards of several tiles and a part, more owners than two, a short last shard;
  // waves that owners' tiles are more than, and such as they are not.
  const struct {
    int64_t m;
    int ranks;
  } rows[] = {{64, 8}, {32, 8},  {16, 8},  {100, 3}, {125, 3},
              {96, 8}, {160, 8}, {139, 7}, {63, 2},  {275, 8}};
  for (const auto& [m, ranks] : rows) {
    for (const int64_t n : {64, 256, 500}) {
      for (const int sms : {5, 33, 132}) {
        for (const char* more : {"order=interleaved", "order=peer-staggered", "order=plain",
                                 "order=interleaved,swizzle=1", "order=interleaved,split-k=2"}) {
          const Draft draft = draft_of(m, n, ranks, sms, more);
          EXPECT_EQ(left_for_the_end(draft), 0)
              << fmt::format("m={} ranks={} n={} sms={} {}", m, ranks, n, sms, more);
        }
      }
    }
  }
}

TEST(AlignOwners, WhatOneRankOwnsEveryRankComputesOnce) {
  const Draft draft = draft_of(275, 500, 8, 33, "order=interleaved");
  std::map<int, std::multiset<int>> tiles;
  for (const Task& task : tasks_of(draft, Opcode::gemm)) {
    tiles[task.lane->rank].insert(task.instr->tile);
  }
  ASSERT_EQ(tiles.size(), 8u);
  for (const auto& [rank, all] : tiles) {
    EXPECT_EQ(all, tiles[0]) << rank;
    EXPECT_EQ(all.size(), std::set<int>(all.begin(), all.end()).size());
  }
}

}  // namespace
}  // namespace stretto
