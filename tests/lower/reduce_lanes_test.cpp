// Reductions through slots: which lanes add partial sums, and when.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "lower/drafts.h"

namespace stretto {
namespace {

constexpr const char* kScatter = "gemm-rs m=64 n=64 k=8 ranks=4 dtype=bf16";
constexpr const char* kAllReduce = "gemm-ar m=64 n=64 k=8 ranks=4 dtype=bf16";

TEST(ReduceLanes, ComputeLanesReduceTheirOwnTilesAsTheyComputeThem) {
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

TEST(ReduceLanes, ComputeLanesReduceOtherwiseOnlyAfterTheirTiles) {
  const Draft draft =
      draft_of(kScatter, "tiles,tile=16x16,comm-sms=0,partials=fp32", small_machine(4, 3));
  for (const Lane& lane : draft.plan.lanes) {
    EXPECT_TRUE(std::is_partitioned(lane.instrs.begin(), lane.instrs.end(), [](const Instr& i) {
      return i.op == Opcode::gemm;
    })) << describe(lane);
  }
}

TEST(ReduceLanes, ComputeLanesShareWhatBlocksCannotDoInTime) {
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

// A GPU's kernel adds no more than 16 in a tile's registers, and moves nothing between tiles.
TEST(ReduceLanes, SumsOfMoreRanksThanATileIsAddedToComeBehindAllTiles) {
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
        const bool owners =
            draft.op.only_product()->kind == kGemmRs;  // copy engines send to owners
        const bool with_tiles =
            ranks == 16 && (owners || draft.schedule.first().mover == Mover::epilogue);
        EXPECT_EQ(tile_behind, with_tiles) << op << " " << mover << " " << ranks;
      }
    }
  }
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
