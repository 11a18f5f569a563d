// ag-gemm: who reads and sends what.
#include <gmock/gmock.h>

#include "lower/drafts.h"

namespace stretto {
namespace {

using testing::ElementsAre;

// Shards of 24 rows: tiles 0, 3 (ranks 0 and 2) and 2, 5 lie in one shard, 1 and 4 in two.
constexpr const char* kStraddling = "ag-gemm m=96 n=64 k=8 ranks=4 dtype=bf16";

std::string reads(const Draft& draft, const Instr& instr) {
  return describe(draft.plan, draft.plan.reads(instr)[0]);
}

TEST(PushGather, OwnTilesReadTheInputAndAllOthersWhatWasGathered) {
  const Draft draft = draft_of(kStraddling, "tiles,tile=16x16", small_machine(4, 16));
  const auto a = buffer_of(draft, "a"), ag = buffer_of(draft, "ag");
  for (const Task& task : tasks_of(draft, Opcode::gemm)) {
    const int rank = task.lane->rank, row0 = task.instr->tile * 16;
    const bool own = row0 >= 24 * rank && row0 + 16 <= 24 * (rank + 1);
    const Region read = draft.plan.reads(*task.instr)[0];
    EXPECT_EQ(read.buffer, own ? a : ag) << "rank " << rank << " tile " << task.instr->tile;
    EXPECT_EQ(read.row0, own ? row0 - 24 * rank : row0);
  }
}

TEST(PushGather, CopiesAtHomeOnlyTheRowsOfTilesThatStraddle) {
  const Draft draft = draft_of(kStraddling, "tiles,tile=16x16,comm-sms=1", small_machine(4, 16));
  std::vector<std::string> copied;
  for (const Task& task : tasks_of(draft, Opcode::copy)) {
    const Region to = draft.plan.writes(*task.instr)[0];
    if (to.rank == task.lane->rank) copied.push_back(describe(draft.plan, to));
  }
  EXPECT_THAT(copied, testing::UnorderedElementsAre("ag@0[16:24,0:8]", "ag@1[24:32,0:8]",
                                                    "ag@2[64:72,0:8]", "ag@3[72:80,0:8]"));
}

TEST(PushGather, BlocksLoadOnceAndStoreToAllPeersTheNeediestFirst) {
  const Draft draft = draft_of("ag-gemm m=64 n=64 k=8 ranks=4 dtype=bf16",
                               "tiles,tile=16x16,comm-sms=1", small_machine(4, 16));
  const std::vector<Task> copies = tasks_of(draft, Opcode::copy, 2);
  ASSERT_EQ(copies.size(), 1u);
  std::vector<int> peers;
  for (const Region& to : draft.plan.writes(*copies[0].instr)) peers.push_back(to.rank);
  EXPECT_THAT(peers, ElementsAre(1, 0, 3));
}

TEST(PushGather, AllBlocksWorkOnTheFirstStripeFirst) {
  const Draft draft = draft_of("ag-gemm m=128 n=64 k=8 ranks=4 dtype=bf16",
                               "tiles,tile=16x16,comm-sms=3", small_machine(4, 16));
  std::vector<std::string> sources;
  std::vector<int> lanes;
  for (const Task& task : tasks_of(draft, Opcode::copy, 0)) {
    sources.push_back(reads(draft, *task.instr));
    lanes.push_back(task.lane->index);
  }
  EXPECT_THAT(sources, ElementsAre("a@0[0:5,0:8]", "a@0[5:10,0:8]", "a@0[10:16,0:8]",
                                   "a@0[16:21,0:8]", "a@0[21:26,0:8]", "a@0[26:32,0:8]"));
  EXPECT_THAT(lanes, ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(PushGather, AFewLongRowsAreSplitByColumns) {
  const Draft draft = draft_of("ag-gemm m=4 n=64 k=4096 ranks=4 dtype=bf16",
                               "tiles,tile=16x16,comm-sms=4", small_machine(4, 16));
  std::vector<std::string> sources;
  for (const Task& task : tasks_of(draft, Opcode::copy, 0)) {
    if (draft.plan.writes(*task.instr)[0].rank != 0) sources.push_back(reads(draft, *task.instr));
  }
  EXPECT_THAT(sources, ElementsAre("a@0[0:1,0:1024]", "a@0[0:1,1024:2048]", "a@0[0:1,2048:3072]",
                                   "a@0[0:1,3072:4096]"));
}

TEST(PushGather, CopyEnginesServeOnePeerAfterTheOther) {
  const char* op = "ag-gemm m=128 n=64 k=8 ranks=4 dtype=bf16";
  const auto served = [&](const char* schedule) {
    const Draft draft = draft_of(op, schedule, small_machine(4, 16));
    std::vector<int> peers;
    for (const Task& task : tasks_of(draft, Opcode::copy, 1)) {
      peers.push_back(draft.plan.writes(*task.instr)[0].rank);
    }
    return peers;
  };
  EXPECT_THAT(served("decomposed,tile=16x16,chunks=2"), ElementsAre(0, 0, 3, 3, 2, 2));
  // Consumers in arrival order take the first stripe of everyone first.
  EXPECT_THAT(served("decomposed,tile=16x16,chunks=2,order=arrival"),
              ElementsAre(0, 3, 2, 0, 3, 2));
}

TEST(PushGather, WhatCrossesNodesGoesOnItsOwn) {
  const auto peers = [](const std::string& own) {
    const Draft draft = draft_of("ag-gemm m=64 n=64 k=8 ranks=4 dtype=bf16",
                                 "tiles,tile=16x16,comm-sms=1,order=node-then-local,own=" + own,
                                 small_machine(4, 16, 2));
    std::vector<std::vector<int>> found;
    for (const Task& task : tasks_of(draft, Opcode::copy, 1)) {
      found.emplace_back();
      for (const Region& to : draft.plan.writes(*task.instr)) found.back().push_back(to.rank);
    }
    return found;
  };
  EXPECT_THAT(peers("direct"), ElementsAre(ElementsAre(0), ElementsAre(3, 2)));
  // Own rows need not wait for the other node either.
  EXPECT_THAT(peers("gathered"), ElementsAre(ElementsAre(0, 1), ElementsAre(3, 2)));
}

TEST(PushGather, EventsEndAKernelBeforeEachShardOfOthers) {
  const Draft draft = draft_of("ag-gemm m=128 n=64 k=8 ranks=4 dtype=bf16",
                               "decomposed,tile=16x16,chunks=2", small_machine(4, 16));
  std::string program;
  for (const Instr& instr : draft.plan.lanes[0].instrs) {
    program += instr.op == Opcode::boundary ? "|" : std::to_string(instr.tile);
  }
  // Both own chunks share a kernel, for they await nothing.
  EXPECT_EQ(program, "0|2|3|4|5|6|7");
}

TEST(PushGather, GroupsOfShardsShareAKernel) {
  const auto program = [](const std::string& groups) {
    const Draft draft =
        draft_of("ag-gemm m=128 n=64 k=8 ranks=4 dtype=bf16",
                 "decomposed,tile=16x16,chunks=2,groups=" + groups, small_machine(4, 1));
    std::vector<std::string> kernels(1);
    for (const Instr& instr : draft.plan.lanes[0].instrs) {
      if (instr.op == Opcode::boundary) kernels.emplace_back();
      if (instr.op == Opcode::gemm) kernels.back() += std::to_string(instr.tile);
    }
    return kernels;
  };
  // The own two chunks, then both of the next rank and one of the one after that; the rest.
  EXPECT_THAT(program("2+3"), ElementsAre("01", "234", "567"));
  // What is left over makes a group, and a group may have more than is left.
  EXPECT_THAT(program("2"), ElementsAre("01", "234567"));
  EXPECT_THAT(program("2+1000"), ElementsAre("01", "234567"));
  // A group with rows of others begins when they have come.
  EXPECT_THAT(program("3+5"), ElementsAre("", "012", "34567"));
  // By arrival: the own two chunks, then the first chunks of the others, then their second.
  EXPECT_THAT(program("2+3+3,order=arrival"), ElementsAre("01", "246", "357"));
  EXPECT_THAT(program("2+4,order=arrival"), ElementsAre("01", "2463", "57"));
}

TEST(PushGather, RowsOfAllOwnersAreSweptTogetherWhenInterleaved) {
  // Two tile rows of each of two owners, three columns; one row of each owner in a turn.
  const auto tiles = [](const char* own) {
    const Draft draft = draft_of("ag-gemm m=64 n=96 k=64 ranks=2 dtype=bf16",
                                 std::string("tiles,tile=16x16,swizzle=2,order=interleaved,"
                                             "comm-sms=1,own=") +
                                     own,
                                 small_machine(2, 2));
    std::vector<std::pair<int, int>> found;  // row and column of each tile in order
    for (const Task& task : tasks_of(draft, Opcode::gemm, 1)) {
      const Region& to = draft.plan.writes(*task.instr)[0];
      found.emplace_back(to.row0 / 16, to.col0 / 16);
    }
    return found;
  };
  using testing::Pair;
  // Rank 1's own rows 2 and 3 first, both of a column; then row 0, and row 1.
  EXPECT_THAT(tiles("direct"),
              ElementsAre(Pair(2, 0), Pair(3, 0), Pair(2, 1), Pair(3, 1), Pair(2, 2), Pair(3, 2),
                          Pair(0, 0), Pair(0, 1), Pair(0, 2), Pair(1, 0), Pair(1, 1), Pair(1, 2)));
  // The first row of each, column by column, the own one first; then the second.
  EXPECT_THAT(tiles("gathered"),
              ElementsAre(Pair(2, 0), Pair(0, 0), Pair(2, 1), Pair(0, 1), Pair(2, 2), Pair(0, 2),
                          Pair(3, 0), Pair(1, 0), Pair(3, 1), Pair(1, 1), Pair(3, 2), Pair(1, 2)));
}

TEST(PushGather, OwnRowsAreGatheredWithTheOthersWhereAsked) {
  const Draft draft =
      draft_of("ag-gemm m=64 n=32 k=128 ranks=2 dtype=bf16",
               "tiles,tile=16x16,k-phases=2,comm-sms=2,own=gathered", small_machine(2, 16));
  for (const Task& task : tasks_of(draft, Opcode::copy, 0)) {
    std::vector<int> to;
    for (const Region& write : draft.plan.writes(*task.instr)) to.push_back(write.rank);
    EXPECT_THAT(to, ElementsAre(1, 0));  // loaded once
  }
  int ranges = 0;
  for (const Task& task : tasks_of(draft, Opcode::gemm, 0)) {
    EXPECT_EQ(draft.plan.buffers[draft.plan.reads(*task.instr)[0].buffer].name, "ag");
    ++ranges;
  }
  EXPECT_EQ(ranges, 4 * 2);  // own tiles have phases too
}

TEST(NcclGather, StoresChunksOfAllShardsTogether) {
  const Draft draft = draft_of("ag-gemm m=20 n=64 k=8 ranks=2 dtype=bf16",
                               "two-chunk,tile=8x32,comm-sms=2", small_machine(2, 16));
  const std::vector<Task> collectives = tasks_of(draft, Opcode::collective, 1);
  ASSERT_EQ(collectives.size(), 2u);
  const auto text = [&](std::span<const Region> regions) {
    std::vector<std::string> found;
    for (const Region& region : regions) found.push_back(describe(draft.plan, region));
    return found;
  };
  EXPECT_THAT(text(draft.plan.reads(*collectives[0].instr)), ElementsAre("a@1[0:4,0:8]"));
  EXPECT_THAT(text(draft.plan.writes(*collectives[0].instr)),
              ElementsAre("ag@1[0:4,0:8]", "ag@1[4:8,0:8]"));
  EXPECT_THAT(text(draft.plan.writes(*collectives[1].instr)),
              ElementsAre("ag@1[8:14,0:8]", "ag@1[14:20,0:8]"));
  // The first tile has four rows of each shard; they go to their places in the output.
  const Task first = tasks_of(draft, Opcode::gemm, 1)[0];
  EXPECT_THAT(text(draft.plan.writes(*first.instr)),
              ElementsAre("out@1[0:4,0:32]", "out@1[10:14,0:32]"));
}

TEST(NcclGather, ChunksFollowTheGroupsOfWaves) {
  // 16 tile rows of one tile on 2 lanes: 8 waves.
  const Draft draft = draft_of("ag-gemm m=256 n=32 k=8 ranks=2 dtype=bf16",
                               "waves,tile=16x16,groups=1+3+4,comm-sms=2", small_machine(2, 4));
  std::vector<int> rows;
  for (const Task& task : tasks_of(draft, Opcode::collective, 0)) {
    rows.push_back(draft.plan.reads(*task.instr)[0].rows());
  }
  EXPECT_THAT(rows, ElementsAre(16, 48, 64));
}

}  // namespace
}  // namespace stretto
