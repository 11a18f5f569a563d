// Reductions through slots: where partial sums go, and who adds them when.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "lower/drafts.h"

namespace stretto {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr const char* kScatter = "gemm-rs m=64 n=64 k=8 ranks=4 dtype=bf16";
constexpr const char* kAllReduce = "gemm-ar m=64 n=64 k=8 ranks=4 dtype=bf16";

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
    const bool staged = draft.schedule.mover != Mover::epilogue;
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

// A GPU's kernel adds no more than 16 in a tile's registers, and moves nothing between tiles.
TEST(SlotReduce, SumsOfMoreRanksThanATileIsAddedToComeBehindAllTiles) {
  for (const char* op : {"gemm-rs m=75 n=64 k={0} ranks={0} dtype=bf16",
                         "gemm-ar m=272 n=64 k={0} ranks={0} dtype=bf16"}) {
    for (const char* mover : {"epilogue", "copy-engine"}) {
      for (const int ranks : {16, 17}) {
        const Draft draft = draft_of(fmt::format(fmt::runtime(op), ranks),
                                     fmt::format("tiles,tile=8x16,comm-sms=0,mover={}", mover),
                                     small_machine(ranks, 4));
        bool tile_behind = false;
        for (const Lane& lane : draft.plan.lanes) {
          bool reduced = false;
          for (const Instr& instr : lane.instrs) {
            reduced = reduced || instr.op == Opcode::reduce;
            tile_behind = tile_behind || (reduced && instr.op == Opcode::gemm);
          }
        }
        const bool owners = draft.op.kind == OpKind::gemm_rs;  // copy engines send to owners
        const bool with_tiles = ranks == 16 && (owners || draft.schedule.mover == Mover::epilogue);
        EXPECT_EQ(tile_behind, with_tiles) << op << " " << mover << " " << ranks;
      }
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

TEST(SlotReduce, ComputeLanesReduceTheirOwnTilesAsTheyComputeThem) {
  // Shards of 20 rows: of five tile rows three have two owners.
  for (const auto& [op, expected] : {std::pair<const char*, size_t>{kScatter, 16},
                                     {kAllReduce, 16},
                                     {"gemm-rs m=80 n=64 k=8 ranks=4 dtype=bf16", 32}}) {
    for (const char* order : {"peer-staggered", "interleaved"}) {
      const Draft draft = draft_of(op, std::string("tiles,tile=16x16,comm-sms=0,order=") + order,
                                   small_machine(4, 3));
      size_t direct = 0;
      for (const Lane& lane : draft.plan.lanes) {
        for (size_t i = 1; i < lane.instrs.size(); ++i) {
          const Instr &before = lane.instrs[i - 1], &reduce = lane.instrs[i];
          if (reduce.op != Opcode::reduce || before.op != Opcode::gemm) continue;
          EXPECT_EQ(reduce.tile, before.tile);
          const auto reads = draft.plan.reads(reduce), writes = draft.plan.writes(before);
          EXPECT_EQ(std::count_if(writes.begin(), writes.end(),
                                  [&](const Region& write) {
                                    return std::find(reads.begin(), reads.end(), write) !=
                                           reads.end();
                                  }),
                    1);
          ++direct;
        }
      }
      EXPECT_EQ(direct, expected) << op << " " << order;
    }
  }
}

TEST(SlotReduce, ComputeLanesReduceOtherwiseOnlyAfterTheirTiles) {
  const Draft draft =
      draft_of(kScatter, "tiles,tile=16x16,comm-sms=0,partials=fp32", small_machine(4, 3));
  for (const Lane& lane : draft.plan.lanes) {
    EXPECT_TRUE(std::is_partitioned(lane.instrs.begin(), lane.instrs.end(), [](const Instr& i) {
      return i.op == Opcode::gemm;
    })) << describe(lane);
  }
}

TEST(SlotReduce, ComputeLanesShareWhatBlocksCannotDoInTime) {
  // Reducing is slow here: one block would need far longer than all tiles take.
  Machine machine = small_machine(4, 4);
  machine.block_hbm_gb_per_s = 0.001;
  const Draft shared = draft_of(kScatter, "tiles,tile=16x16,comm-sms=1", machine);
  std::set<LaneKind> kinds;
  for (const Task& task : tasks_of(shared, Opcode::reduce)) kinds.insert(task.lane->kind);
  EXPECT_EQ(kinds.size(), 2u);
  // And instant here: the block has done what is possible when a wave ends.
  machine.block_hbm_gb_per_s = 1e9;
  const Draft alone = draft_of(kScatter, "tiles,tile=16x16,comm-sms=1", machine);
  for (const Task& task : tasks_of(alone, Opcode::reduce)) {
    EXPECT_EQ(task.lane->kind, LaneKind::comm);
  }
}

TEST(TwoShot, EveryTileIsReducedOnceAndSentToAll) {
  const Draft draft = draft_of(kAllReduce, "tiles,tile=16x16", small_machine(4, 16));
  std::vector<int> reduced(16, 0), of_rank(4, 0);
  for (const Task& task : tasks_of(draft, Opcode::reduce)) {
    ++reduced[static_cast<size_t>(task.instr->tile)];
    ++of_rank[task.lane->rank];
    std::vector<int> to;
    for (const Region& region : draft.plan.writes(*task.instr)) to.push_back(region.rank);
    const int rank = task.lane->rank;
    // The next rank first, its own memory last.
    EXPECT_THAT(to, ElementsAre((rank + 1) % 4, (rank + 2) % 4, (rank + 3) % 4, rank));
  }
  EXPECT_THAT(reduced, Each(1));
  EXPECT_THAT(of_rank, Each(4));
}

TEST(TwoShot, TilesAreSharedForAnyNumberOfRows) {
  const Draft draft = draft_of("gemm-ar m=1 n=128 k=8 ranks=4 dtype=bf16", "tiles,tile=16x16",
                               small_machine(4, 16));
  std::vector<int> of_rank(4, 0);
  for (const Task& task : tasks_of(draft, Opcode::reduce)) ++of_rank[task.lane->rank];
  EXPECT_THAT(of_rank, Each(2));
}

TEST(TwoShot, TilesInAPlainSweepGoToAllOwnersInTurn) {
  const Draft draft = draft_of(kAllReduce, "tiles,tile=16x16,order=plain", small_machine(4, 16));
  std::vector<int> owners;
  for (const Task& task : tasks_of(draft, Opcode::gemm, 0)) {
    owners.push_back(draft.plan.writes(*task.instr)[0].rank);
  }
  for (size_t i = 0; i < owners.size(); i += 4) {
    EXPECT_THAT(std::vector<int>(owners.begin() + static_cast<std::ptrdiff_t>(i),
                                 owners.begin() + static_cast<std::ptrdiff_t>(i) + 4),
                testing::UnorderedElementsAre(0, 1, 2, 3));
  }
}

TEST(TwoShot, CopyEnginesTakeTheSumsToThePeers) {
  const Draft draft =
      draft_of(kAllReduce, "tiles,tile=16x16,mover=copy-engine", small_machine(4, 16));
  for (const Task& task : tasks_of(draft, Opcode::reduce)) EXPECT_EQ(task.instr->num_writes, 1);
  size_t sums = 0;
  for (const Task& task : tasks_of(draft, Opcode::copy)) {
    sums += draft.plan.writes(*task.instr)[0].buffer == buffer_of(draft, "out");
  }
  EXPECT_EQ(sums, 16u * 3);
}

TEST(TwoShot, EveryRankAwaitsWhatOthersReduceBeforeItsRunEnds) {
  const Machine machine = small_machine(4, 16);
  for (const char* preset :
       {"tiles", "slices", "decomposed", "tiles,mover=copy-engine,comm-sms=0"}) {
    const Draft draft = draft_of("gemm-ar m=63 n=72 k=8 ranks=4 dtype=bf16",
                                 std::string(preset) + ",tile=16x16", machine);
    for (int rank = 0; rank < 4; ++rank) {
      int64_t own = 0, delivered = 0;
      for (const Task& task : tasks_of(draft, Opcode::reduce, rank)) {
        own += draft.plan.reads(*task.instr)[0].elements();
      }
      for (const Task& task : tasks_of(draft, Opcode::deliver, rank)) {
        for (const Region& region : draft.plan.reads(*task.instr)) delivered += region.elements();
      }
      EXPECT_EQ(own + delivered, 63 * 72) << preset;
    }
  }
}

TEST(OneShot, EveryRankGetsAndReducesEverything) {
  const Draft draft =
      draft_of(kAllReduce, "tiles,tile=16x16,reduction=one-shot", small_machine(4, 16));
  for (const Task& task : tasks_of(draft, Opcode::gemm)) EXPECT_EQ(task.instr->num_writes, 4);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(tasks_of(draft, Opcode::reduce, rank).size(), 16u);
  }
  EXPECT_TRUE(tasks_of(draft, Opcode::deliver).empty());
}

TEST(Decomposed, KernelsEndBehindChunksThatOthersAwait) {
  const Draft draft = draft_of(kScatter, "decomposed,tile=16x64,comm-sms=0", small_machine(4, 16));
  std::string program;
  for (const Instr& instr : draft.plan.lanes[0].instrs) {
    program += instr.op == Opcode::boundary ? "|" : instr.op == Opcode::reduce ? "+" : "t";
  }
  // Three shards of others, the own one; then the kernel that reduces.
  EXPECT_EQ(program, "t|t|t|t|+");
}

}  // namespace
}  // namespace stretto
