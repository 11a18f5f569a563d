// All-reduces through slots: in two shots, by owners of tiles, and in one, by all ranks.
#include <gmock/gmock.h>

#include "lower/drafts.h"

namespace stretto {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr const char* kAllReduce = "gemm-ar m=64 n=64 k=8 ranks=4 dtype=bf16";

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

}  // namespace
}  // namespace stretto
