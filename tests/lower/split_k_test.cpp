// Ranges of K: tasks of their own that meet in one sum.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "lower/drafts.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// By tile of one rank: the ranges of K in program order, and the lanes that compute them.
struct Ranges {
  std::vector<std::pair<int32_t, int32_t>> k;
  std::vector<int> lanes;
};
std::map<int32_t, Ranges> ranges_of(const Draft& draft, int rank) {
  std::map<int32_t, Ranges> found;
  for (const Task& task : tasks_of(draft, Opcode::gemm, rank)) {
    Ranges& ranges = found[task.instr->tile];
    for (const Region& read : draft.plan.reads(*task.instr)) {
      EXPECT_EQ(read.col0, draft.plan.reads(*task.instr)[0].col0);
      EXPECT_EQ(read.col1, draft.plan.reads(*task.instr)[0].col1);
    }
    const Region& b = draft.plan.reads(*task.instr).back();
    ranges.k.emplace_back(b.col0, b.col1);
    ranges.lanes.push_back(task.lane->index);
  }
  return found;
}

TEST(SplitK, RangesAreWholeStepsTheFirstShortestAndLast) {
  // 330 of K on a rank: 6 steps, the last ragged.
  const Draft draft = draft_of("gemm-rs m=32 n=32 k=660 ranks=2 dtype=bf16",
                               "tiles,tile=16x16,comm-sms=0,split-k=4", small_machine(2, 32));
  for (const auto& [tile, ranges] : ranges_of(draft, 0)) {
    EXPECT_THAT(ranges.k, ElementsAre(std::pair(64, 192), std::pair(192, 256), std::pair(256, 330),
                                      std::pair(0, 64)));
  }
}

TEST(SplitK, RangesOfATileRunSideBySide) {
  for (const char* schedule :
       {"tiles,tile=16x16,comm-sms=0,split-k=3", "sequential,tile=16x16,split-k=3"}) {
    const Draft draft =
        draft_of("gemm-rs m=32 n=32 k=512 ranks=2 dtype=bf16", schedule, small_machine(2, 32));
    std::set<int> used;
    for (const auto& [tile, ranges] : ranges_of(draft, 1)) {
      for (const int lane : ranges.lanes) EXPECT_TRUE(used.insert(lane).second) << schedule;
    }
    EXPECT_EQ(used.size(), 12u) << "4 tiles of 3 ranges on 32 SMs";
  }
}

TEST(SplitK, SumsAreAddedInTheOrderOfKRightBehindTheLastTask) {
  const Draft draft = draft_of("gemm-ar m=32 n=32 k=512 ranks=2 dtype=fp16",
                               "tiles,tile=16x16,comm-sms=1,split-k=3", small_machine(2, 5));
  const uint16_t ranges = buffer_of(draft, "ranges");
  EXPECT_EQ(draft.plan.buffers[ranges].dtype, DType::fp32);
  EXPECT_EQ(draft.plan.buffers[ranges].role, BufferRole::local);
  size_t sums = 0;
  for (const Lane& lane : draft.plan.lanes) {
    for (size_t i = 0; i < lane.instrs.size(); ++i) {
      const Instr& reduce = lane.instrs[i];
      if (reduce.op != Opcode::reduce || draft.plan.reads(reduce)[0].buffer != ranges) continue;
      ++sums;
      ASSERT_GT(i, 0u);
      ASSERT_EQ(lane.instrs[i - 1].op, Opcode::gemm);
      EXPECT_EQ(draft.plan.writes(lane.instrs[i - 1])[0], draft.plan.reads(reduce)[0]);
      EXPECT_EQ(draft.plan.reads(lane.instrs[i - 1]).back().col0, 0);
      const auto reads = draft.plan.reads(reduce);
      ASSERT_EQ(reads.size(), 3u);
      for (size_t s = 0; s < 3; ++s) {
        EXPECT_EQ(reads[s].row0, reads[0].row0 + 32 * static_cast<int32_t>(s));
      }
    }
  }
  EXPECT_EQ(sums, 8u) << "every tile of both ranks";
}

TEST(SplitK, IsRefusedBeyondTheStepsOfK) {
  const auto refusal = [](const char* op, const char* schedule) -> std::string {
    try {
      draft_of(op, schedule, small_machine(2, 8));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("gemm-rs m=32 n=32 k=300 ranks=2 dtype=bf16", "tiles,tile=16x16,split-k=4"),
              HasSubstr("split-k=4 for 150 of K on a rank, which has 3 steps of 64 columns: take "
                        "split-k=3 or less"));
  EXPECT_THAT(refusal("gemm-rs m=32 n=32 k=64 ranks=2 dtype=bf16", "tiles,tile=16x16,split-k=2"),
              HasSubstr("which has one step of 64 columns: take split-k=1"));
  EXPECT_THAT(refusal("ag-gemm m=1073741824 n=32 k=640 ranks=2 dtype=bf16", "tiles,split-k=2"),
              HasSubstr("keeps more than 2147483647 rows of partial sums"));
}

}  // namespace
}  // namespace stretto
