// K phases: rows are pushed in ranges of K, and tiles of others' rows use each as it arrives.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "lower/drafts.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

using Columns = std::pair<int32_t, int32_t>;

// 2 tile rows of 4 tiles from each of 4 ranks; 5 steps of K.
constexpr const char* kGather = "ag-gemm m=128 n=256 k=320 ranks=4 dtype=bf16";
constexpr const char* kPoint = "tiles,tile=16x16,comm-sms=1,order=arrival";
constexpr int kLanes = 12;  // 8 own tiles, then the first foreign tile row

Draft gather(const std::string& changes) {
  return draft_of(kGather, kPoint + changes, small_machine(4, kLanes + 1));
}

TEST(KPhases, ForeignTilesTakeRangesOfKOneByOneOnOneLane) {
  const Draft draft = gather(",k-phases=2");
  const uint16_t ranges = buffer_of(draft, "ranges");
  EXPECT_EQ(draft.plan.buffers[ranges].dtype, DType::fp32);
  EXPECT_EQ(draft.plan.buffers[ranges].role, BufferRole::local);
  size_t own = 0, foreign = 0;
  for (const Lane& lane : draft.plan.lanes) {
    if (lane.kind != LaneKind::compute) continue;
    for (size_t i = 0; i < lane.instrs.size(); ++i) {
      const Instr& first = lane.instrs[i];
      ASSERT_EQ(first.op, Opcode::gemm);
      const Region& b0 = draft.plan.reads(first).back();
      if (draft.plan.reads(first)[0].buffer == buffer_of(draft, "a")) {
        ++own;
        EXPECT_EQ(b0.cols(), 320);
        EXPECT_EQ(draft.plan.writes(first)[0].buffer, buffer_of(draft, "out"));
        continue;
      }
      ++foreign;
      ASSERT_LT(i + 2, lane.instrs.size());
      const Instr &last = lane.instrs[++i], &sum = lane.instrs[++i];
      ASSERT_EQ(last.op, Opcode::gemm);
      ASSERT_EQ(sum.op, Opcode::reduce);
      const Region& b1 = draft.plan.reads(last).back();
      EXPECT_THAT((std::vector{Columns(b0.col0, b0.col1), Columns(b1.col0, b1.col1)}),
                  ElementsAre(Columns(0, 128), Columns(128, 320)));
      EXPECT_THAT(draft.plan.reads(sum),
                  ElementsAre(draft.plan.writes(first)[0], draft.plan.writes(last)[0]));
      EXPECT_EQ(draft.plan.reads(sum)[0].buffer, ranges);
      EXPECT_EQ(draft.plan.reads(sum)[1].row0, draft.plan.reads(sum)[0].row0 + 128);
      EXPECT_EQ(draft.plan.writes(sum)[0].buffer, buffer_of(draft, "out"));
    }
  }
  EXPECT_EQ(own, 4u * 8);
  EXPECT_EQ(foreign, 4u * 24);
}

// Rank r's first stripe is in the first wave of rank r - 1, in the second of the others.
TEST(KPhases, WhatAWaveNeedsIsPushedPhaseByPhase) {
  const Draft draft = gather(",k-phases=2");
  for (int rank = 0; rank < 4; ++rank) {
    std::vector<std::tuple<int32_t, Columns, size_t>> sent;  // row, columns, to how many ranks
    for (const Task& task : tasks_of(draft, Opcode::copy, rank)) {
      const Region& from = draft.plan.reads(*task.instr)[0];
      sent.emplace_back(from.row0, Columns(from.col0, from.col1),
                        draft.plan.writes(*task.instr).size());
    }
    const Columns first(0, 128), second(128, 320);
    ASSERT_GE(sent.size(), 4u);
    sent.resize(4);
    EXPECT_THAT(sent, ElementsAre(std::tuple(0, first, 1u), std::tuple(0, second, 1u),
                                  std::tuple(0, first, 2u), std::tuple(16, first, 1u)));
  }
}

TEST(KPhases, AllStripesOfOneWaveSendTheirFirstPhaseFirst) {
  const Draft draft =
      draft_of(kGather, kPoint + std::string(",k-phases=5"), small_machine(4, 32 + 1));
  std::vector<std::pair<int32_t, int32_t>> sent;
  for (const Task& task : tasks_of(draft, Opcode::copy, 1)) {
    const Region& from = draft.plan.reads(*task.instr)[0];
    sent.emplace_back(from.col0, from.row0);
  }
  EXPECT_THAT(sent, SizeIs(10));
  EXPECT_TRUE(std::is_sorted(sent.begin(), sent.end()));
}

TEST(KPhases, CopyEnginesServeEveryPeerBeforeTheNextPhase) {
  const Draft draft =
      draft_of(kGather, "tiles,tile=16x16,mover=copy-engine,order=own-first,k-phases=2",
               small_machine(4, 132));
  std::vector<std::pair<int32_t, int>> sent;
  for (const Task& task : tasks_of(draft, Opcode::copy, 0)) {
    sent.emplace_back(draft.plan.reads(*task.instr)[0].col0,
                      draft.plan.writes(*task.instr)[0].rank);
  }
  EXPECT_THAT(sent, ElementsAre(std::pair(0, 3), std::pair(0, 3), std::pair(0, 2), std::pair(0, 2),
                                std::pair(0, 1), std::pair(0, 1), std::pair(128, 3),
                                std::pair(128, 3), std::pair(128, 2), std::pair(128, 2),
                                std::pair(128, 1), std::pair(128, 1)));
}

TEST(KPhases, OfSplitKCutPiecesOnly) {
  const Draft draft = draft_of(kGather, kPoint + std::string(",k-phases=5,split-k=2"),
                               small_machine(4, 2 * 32 + 1));
  std::set<int32_t> begins;
  for (const Task& task : tasks_of(draft, Opcode::gemm)) {
    begins.insert(draft.plan.reads(*task.instr).back().col0);
  }
  EXPECT_THAT(begins, ElementsAre(0, 128));
  begins.clear();
  for (const Task& task : tasks_of(draft, Opcode::copy)) {
    begins.insert(draft.plan.reads(*task.instr)[0].col0);
  }
  EXPECT_THAT(begins, ElementsAre(0, 64, 128, 192, 256));
}

TEST(KPhases, BehindAnAllToAllAreWhatRanksHaveTheOwnFirst) {
  const Draft draft = draft_of("a2a-gemm m=96 n=32 k=184 ranks=3 dtype=bf16",
                               "tiles,tile=16x16,comm-sms=1,k-phases=3", small_machine(3, 5));
  const uint16_t a = buffer_of(draft, "a"), in = buffer_of(draft, "in");
  for (const Lane& lane : draft.plan.lanes) {
    if (lane.kind != LaneKind::compute || lane.rank != 1) continue;
    ASSERT_THAT(lane.instrs, SizeIs(4));
    std::vector<std::tuple<uint16_t, int32_t, Columns, Columns>> read;
    for (int i = 0; i < 3; ++i) {
      const auto reads = draft.plan.reads(lane.instrs[static_cast<size_t>(i)]);
      read.emplace_back(reads[0].buffer, reads[0].row0, Columns(reads[0].col0, reads[0].col1),
                        Columns(reads[1].col0, reads[1].col1));
    }
    const Columns first(0, 64), second(64, 128), third(128, 184);
    const int32_t row = std::get<1>(read[1]);
    EXPECT_THAT(
        read, ElementsAre(std::tuple(a, 32 + row, first, second), std::tuple(in, row, third, third),
                          std::tuple(in, row, first, first)));
    EXPECT_EQ(lane.instrs[3].op, Opcode::reduce);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(draft.plan.reads(lane.instrs[3])[i], draft.plan.writes(lane.instrs[i])[0]);
    }
  }
}

// Two stripes of rows, which all lanes compute at once.
TEST(KPhases, OfSourcesAreSentToWhoeverTakesThemNext) {
  const Draft draft = draft_of("a2a-gemm m=96 n=32 k=192 ranks=3 dtype=bf16",
                               "tiles,tile=16x16,comm-sms=1,k-phases=3", small_machine(3, 5));
  std::vector<std::pair<int, int32_t>> sent;
  for (const Task& task : tasks_of(draft, Opcode::copy, 1)) {
    const Region& to = draft.plan.writes(*task.instr)[0];
    sent.emplace_back(to.rank, to.row0);
    EXPECT_EQ(to.col0, 64);
    EXPECT_EQ(draft.plan.reads(*task.instr)[0].row0, 32 * to.rank + to.row0);
  }
  EXPECT_THAT(sent,
              ElementsAre(std::pair(0, 0), std::pair(0, 16), std::pair(2, 0), std::pair(2, 16)));
}

TEST(KPhases, OfOwnRowsAreNone) {
  const Draft one = draft_of("ag-gemm m=64 n=64 k=320 ranks=1 dtype=bf16",
                             "tiles,tile=16x16,k-phases=4", small_machine(1, 8));
  EXPECT_FALSE(one.plan.find_buffer("ranges"));
}

TEST(KPhases, AreRefusedBeyondTheStepsOfK) {
  try {
    gather(",k-phases=6");
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("k-phases=6 for 320 of K on a rank, which has 5 steps of "
                                        "64 columns: take k-phases=5 or less"));
  }
}

}  // namespace
}  // namespace stretto
