// Reductions by NCCL: chunks of rows, and packed groups of waves.
#include <gmock/gmock.h>

#include "lower/drafts.h"

namespace stretto {
namespace {

using testing::ElementsAre;

std::vector<std::string> text(const Draft& draft, std::span<const Region> regions) {
  std::vector<std::string> found;
  for (const Region& region : regions) found.push_back(describe(draft.plan, region));
  return found;
}

TEST(NcclReduce, ScattersStraightIntoTheOutput) {
  const Draft draft = draft_of("gemm-rs m=20 n=32 k=8 ranks=2 dtype=bf16",
                               "two-chunk,tile=8x32,comm-sms=0", small_machine(2));
  const std::vector<Task> collectives = tasks_of(draft, Opcode::collective, 1);
  ASSERT_EQ(collectives.size(), 2u);
  EXPECT_THAT(text(draft, draft.plan.reads(*collectives[1].instr)),
              ElementsAre("part@1[8:14,0:32]", "part@1[14:20,0:32]"));
  EXPECT_THAT(text(draft, draft.plan.writes(*collectives[1].instr)),
              ElementsAre("out@1[4:10,0:32]"));
}

TEST(NcclReduce, EmptyShardsHaveEmptyParts) {
  const Draft draft =
      draft_of("gemm-rs m=2 n=32 k=8 ranks=4 dtype=bf16", "sequential", small_machine(4));
  const std::vector<Task> collectives = tasks_of(draft, Opcode::collective, 3);
  ASSERT_EQ(collectives.size(), 1u);
  EXPECT_EQ(collectives[0].instr->num_reads, 4);
  EXPECT_TRUE(draft.plan.reads(*collectives[0].instr)[3].empty());
  EXPECT_TRUE(draft.plan.writes(*collectives[0].instr)[0].empty());
}

TEST(NcclReduce, AChunkIsReducedWhenItsKernelEnds) {
  const Draft draft = draft_of("gemm-ar m=64 n=32 k=8 ranks=2 dtype=bf16",
                               "two-chunk,tile=16x32,comm-sms=0", small_machine(2));
  std::string program;
  for (const Instr& instr : draft.plan.lanes[0].instrs) {
    program += instr.op == Opcode::boundary ? "|" : std::to_string(instr.tile);
  }
  EXPECT_EQ(program, "0|2|");
}

struct Group {
  int tiles = 0;
  int row0 = 0, row1 = 0;
};

// Groups of the packed storage by the regions that rank 0's collectives read.
std::vector<Group> groups(const Draft& draft) {
  std::vector<Group> found;
  for (const Task& task : tasks_of(draft, Opcode::collective, 0)) {
    const auto reads = draft.plan.reads(*task.instr);
    found.push_back({0, reads.front().row0, reads.back().row1});
    for (const Task& gemm : tasks_of(draft, Opcode::gemm, 0)) {
      for (const Region& read : reads) {
        found.back().tiles += draft.plan.writes(*gemm.instr)[0].overlaps(read);
      }
    }
  }
  return found;
}

TEST(PackedReduce, GroupsAreWavesOfTheLanes) {
  // 32 tiles on 5 lanes: 7 waves.
  const Draft draft = draft_of("gemm-ar m=64 n=128 k=8 ranks=2 dtype=bf16",
                               "waves,tile=16x16,groups=1+2+4,comm-sms=2", small_machine(2, 7));
  std::vector<int> tiles;
  int row = 0;
  for (const Group& group : groups(draft)) {
    tiles.push_back(group.tiles);
    EXPECT_EQ(group.row0, row);  // one after the other, without gaps
    row = group.row1;
  }
  EXPECT_THAT(tiles, ElementsAre(5, 10, 17));
  EXPECT_EQ(row, draft.plan.buffers[buffer_of(draft, "packed")].rows);
}

TEST(PackedReduce, ScatteredGroupsHoldEquallyManyTilesOfEveryOwner) {
  // 48 tiles, 12 of each owner, on 10 lanes.
  const Draft draft = draft_of("gemm-rs m=192 n=64 k=8 ranks=4 dtype=bf16",
                               "waves,tile=16x16,groups=1+2+2,comm-sms=2", small_machine(4, 12));
  std::vector<int> tiles;
  for (const Group& group : groups(draft)) tiles.push_back(group.tiles);
  EXPECT_THAT(tiles, ElementsAre(8, 20, 20));
}

TEST(PackedReduce, RaggedTilesArePackedWithoutGaps) {
  const Draft draft =
      draft_of("gemm-ar m=24 n=40 k=8 ranks=2 dtype=bf16",
               "waves,tile=16x16,swizzle=2,groups=1,comm-sms=2", small_machine(2, 8));
  const std::vector<Task> collectives = tasks_of(draft, Opcode::collective, 0);
  ASSERT_EQ(collectives.size(), 1u);
  // Two columns of tiles of full width, 24 rows each, then the narrow one.
  EXPECT_THAT(text(draft, draft.plan.reads(*collectives[0].instr)),
              ElementsAre("packed@0[0:48,0:16]", "packed@0[48:72,0:8]"));
  std::vector<std::string> stored;
  for (const Task& task : tasks_of(draft, Opcode::gemm, 0)) {
    stored.push_back(describe(draft.plan, draft.plan.writes(*task.instr)[0]));
  }
  EXPECT_THAT(stored,
              ElementsAre("packed@0[0:16,0:16]", "packed@0[16:24,0:16]", "packed@0[24:40,0:16]",
                          "packed@0[40:48,0:16]", "packed@0[48:64,0:8]", "packed@0[64:72,0:8]"));
}

TEST(PackedReduce, ComputeLanesRestoreTheTilesAtTheEnd) {
  const Draft draft = draft_of("gemm-rs m=64 n=64 k=8 ranks=2 dtype=bf16",
                               "waves,tile=16x16,groups=1+1,comm-sms=2", small_machine(2, 6));
  std::vector<int> restored;
  for (const Task& task : tasks_of(draft, Opcode::copy, 1)) {
    EXPECT_EQ(task.lane->kind, LaneKind::compute);
    restored.push_back(task.instr->tile);
  }
  EXPECT_THAT(restored, testing::UnorderedElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
}

}  // namespace
}  // namespace stretto
