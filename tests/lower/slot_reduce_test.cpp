// Reductions through slots: where partial sums go, and from where they are added.
#include <gmock/gmock.h>

#include <set>

#include "lower/drafts.h"

namespace stretto {
namespace {

using testing::ElementsAre;

constexpr const char* kScatter = "gemm-rs m=64 n=64 k=8 ranks=4 dtype=bf16";

std::vector<std::string> text(const Draft& draft, std::span<const Region> regions) {
  std::vector<std::string> found;
  for (const Region& region : regions) found.push_back(describe(draft.plan, region));
  return found;
}

TEST(SlotReduce, EpilogueStoresIntoTheOwnersSlotOfItsRank) {
  const Draft draft = draft_of(kScatter, "tiles,tile=16x32", small_machine(4, 16));
  for (const Task& task : tasks_of(draft, Opcode::gemm, 1)) {
    const Region to = draft.plan.writes(*task.instr)[0];
    EXPECT_EQ(to.buffer, buffer_of(draft, "slots"));
    EXPECT_EQ(to.rank, task.instr->tile / 2);  // shards of one tile row
    EXPECT_EQ(to.row0, 16);                    // of source 1
  }
}

TEST(SlotReduce, ATileOfSeveralOwnersIsStoredInParts) {
  const Draft draft = draft_of("gemm-rs m=40 n=64 k=8 ranks=4 dtype=bf16", "tiles,tile=32x64",
                               small_machine(4, 16));
  std::vector<std::vector<std::string>> written;
  for (const Task& task : tasks_of(draft, Opcode::gemm, 0)) {
    written.push_back(text(draft, draft.plan.writes(*task.instr)));
  }
  EXPECT_THAT(written, testing::Contains(ElementsAre("slots@0[0:10,0:64]", "slots@1[0:10,0:64]",
                                                     "slots@2[0:10,0:64]", "slots@3[0:2,0:64]")));
  EXPECT_THAT(written, testing::Contains(ElementsAre("slots@3[2:10,0:64]")));
}

TEST(SlotReduce, SlotsAreAddedInRankOrder) {
  for (const char* schedule :
       {"tiles,tile=16x32", "tiles,tile=16x32,mover=comm-blocks,comm-sms=2"}) {
    const Draft draft = draft_of(kScatter, schedule, small_machine(4, 16));
    const bool staged = draft.schedule.first().mover != Mover::epilogue;
    for (const Task& task : tasks_of(draft, Opcode::reduce, 2)) {
      const auto reads = draft.plan.reads(*task.instr);
      ASSERT_EQ(reads.size(), 4u);
      for (int source = 0; source < 4; ++source) {
        const Region& read = reads[static_cast<size_t>(source)];
        // A mover need not move what stays at home.
        EXPECT_EQ(read.buffer, buffer_of(draft, staged && source == 2 ? "part" : "slots"));
        EXPECT_EQ(read.row0, staged && source == 2 ? 32 : 16 * source);
      }
    }
  }
}

// Copy engines send slices; the owner's tiles stay where its GEMM can add to them.
TEST(SlotReduce, OwnTilesAreAddedToBehindTheirGemmWhateverCopyEnginesSendAtOnce) {
  for (const char* schedule : {"slices,tile=8x16,mover=copy-engine,comm-sms=0,order=peer-staggered",
                               "slices,tile=8x16,mover=copy-engine,comm-sms=0,order=interleaved",
                               "tiles,tile=8x16,mover=copy-engine,comm-sms=0,order=peer-staggered",
                               "decomposed,tile=8x16,sync=flag,comm-sms=0,order=peer-staggered"}) {
    const Draft draft = draft_of(kScatter, schedule, small_machine(4, 4));
    const uint16_t slots = buffer_of(draft, "slots"), part = buffer_of(draft, "part");
    int behind = 0;
    for (const Task& task : tasks_of(draft, Opcode::gemm, 2)) {
      const Region to = draft.plan.writes(*task.instr)[0];
      const bool own = task.instr->tile / 8 == 2;  // of two tile rows
      EXPECT_EQ(to.buffer, own ? slots : part) << schedule;
      EXPECT_EQ(to.rank, 2);
      if (own) {
        EXPECT_EQ(to.row0 / 16, 2) << "the slot of source 2";
      }
      const size_t next = static_cast<size_t>(task.instr - task.lane->instrs.data()) + 1;
      if (!own || next == task.lane->instrs.size()) continue;
      const Instr& reduce = task.lane->instrs[next];
      if (reduce.op != Opcode::reduce || draft.plan.reads(reduce)[2] != to) continue;
      ++behind;
    }
    EXPECT_EQ(behind, 8) << schedule;
    for (const Task& task : tasks_of(draft, Opcode::reduce, 2)) {
      for (const Region& read : draft.plan.reads(*task.instr)) EXPECT_EQ(read.buffer, slots);
    }
  }
}

TEST(SlotReduce, RowsThatShareATileWithOthersAreReducedFromWhereTheyAreStaged) {
  const Draft draft = draft_of("gemm-rs m=40 n=64 k=8 ranks=4 dtype=bf16",
                               "slices,tile=16x64,mover=copy-engine,comm-sms=0,order=interleaved",
                               small_machine(4, 16));
  int64_t rows = 0;
  for (const Task& task : tasks_of(draft, Opcode::reduce, 1)) {
    const auto reads = draft.plan.reads(*task.instr);
    EXPECT_EQ(reads[1].buffer, buffer_of(draft, "part"));
    EXPECT_EQ(reads[0].buffer, buffer_of(draft, "slots"));
    EXPECT_GE(reads[1].row0, 10);
    rows += reads[1].rows();
  }
  EXPECT_EQ(rows, 10);
}

TEST(SlotReduce, MoversPushEveryPieceToItsOwnerOnly) {
  for (const char* schedule :
       {"tiles,tile=16x32,mover=comm-blocks,comm-sms=2", "slices,tile=16x32,mover=copy-engine"}) {
    const Draft draft = draft_of(kScatter, schedule, small_machine(4, 16));
    int64_t elements = 0;
    for (const Task& task : tasks_of(draft, Opcode::copy, 3)) {
      ASSERT_EQ(task.instr->num_writes, 1);
      const Region from = draft.plan.reads(*task.instr)[0], to = draft.plan.writes(*task.instr)[0];
      EXPECT_EQ(to.rank, from.row0 / 16);
      EXPECT_NE(to.rank, 3);
      elements += to.elements();
    }
    EXPECT_EQ(elements, 3 * 16 * 64) << schedule;
  }
}

TEST(SlotReduce, CopiesComeInTheOrderOfTheirTiles) {
  const Draft draft =
      draft_of(kScatter, "tiles,tile=16x16,mover=copy-engine,order=peer-staggered,comm-sms=2",
               small_machine(4, 4));
  std::vector<int> computed, copied;
  for (const Task& task : tasks_of(draft, Opcode::gemm, 1)) computed.push_back(task.instr->tile);
  for (const Task& task : tasks_of(draft, Opcode::copy, 1)) copied.push_back(task.instr->tile);
  computed.resize(12);  // the last four are its own
  EXPECT_EQ(copied, computed);
}

TEST(SlotReduce, GranularityDecidesHowMuchOneReduceWaitsFor) {
  const auto reduces = [](const std::string& granularity) {
    const Draft draft = draft_of("gemm-rs m=512 n=64 k=8 ranks=2 dtype=bf16",
                                 "tiles,tile=16x16,swizzle=4,comm-sms=1,granularity=" + granularity,
                                 small_machine(2, 2));
    std::set<int> rows;
    for (const Task& task : tasks_of(draft, Opcode::reduce, 0)) {
      rows.insert(draft.plan.writes(*task.instr)[0].rows());
    }
    return rows;
  };
  EXPECT_THAT(reduces("tile"), ElementsAre(16));
  EXPECT_THAT(reduces("slice"), ElementsAre(64));
  EXPECT_THAT(reduces("chunk,chunks=2"), ElementsAre(128));
  EXPECT_THAT(reduces("whole"), ElementsAre(256));
}

}  // namespace
}  // namespace stretto
