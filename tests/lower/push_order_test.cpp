// ag-gemm by movers that push: who is sent what first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <map>
#include <set>
#include <tuple>

#include "lower/drafts.h"

namespace stretto {
namespace {

// By rank and row: after how many other tiles a lane of the rank first has one that reads the row.
using Turns = std::map<std::pair<int, int32_t>, int>;

Turns turns_of(const Draft& draft) {
  const uint16_t ag = buffer_of(draft, "ag");
  Turns turns;
  for (const Lane& lane : draft.plan.lanes) {
    if (lane.kind != LaneKind::compute) continue;
    std::set<int32_t> tiles;
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::gemm) continue;
      tiles.insert(instr.tile);
      const Region& rows = draft.plan.reads(instr)[0];
      if (rows.buffer != ag) continue;
      for (int32_t row = rows.row0; row < rows.row1; ++row) {
        const int turn = static_cast<int>(tiles.size()) - 1;
        const auto known = turns.try_emplace({lane.rank, row}, turn).first;
        known->second = std::min(known->second, turn);
      }
    }
  }
  return turns;
}

struct Case {
  const char *op, *schedule;
  int ranks, sms;
};

class PushOrder : public testing::TestWithParam<Case> {};

TEST_P(PushOrder, IsThatOfTheWavesInWhichReceiversNeedIt) {
  const Case& c = GetParam();
  const Draft draft = draft_of(c.op, c.schedule, small_machine(c.ranks, c.sms));
  const Turns turns = turns_of(draft);
  int latest = 0;
  for (int sender = 0; sender < c.ranks; ++sender) {
    std::pair<int, int32_t> before{0, 0};
    std::set<std::tuple<int, int32_t, int32_t>> sent;  // rank, row, first column
    for (const Task& task : tasks_of(draft, Opcode::copy, sender)) {
      std::set<int> waves;
      for (const Region& to : draft.plan.writes(*task.instr)) {
        int wave = INT_MAX;
        for (int32_t row = to.row0; row < to.row1; ++row) {
          EXPECT_TRUE(sent.emplace(to.rank, row, to.col0).second) << "sent twice";
          wave = std::min(wave, turns.at({to.rank, row}));
        }
        waves.insert(wave);
      }
      ASSERT_EQ(waves.size(), 1u) << "one push for ranks that need it at different times";
      const std::pair<int, int32_t> now{*waves.begin(), draft.plan.reads(*task.instr)[0].col0};
      EXPECT_LE(before, now) << "sender " << sender;
      before = now;
      latest = std::max(latest, now.first);
    }
    int32_t columns = 0;  // of all ranges of K, each rank and row once
    for (const Task& task : tasks_of(draft, Opcode::copy, sender)) {
      for (const Region& to : draft.plan.writes(*task.instr)) columns += to.rows() * to.cols();
    }
    const Segment& op = *draft.op.only_product();
    EXPECT_EQ(columns, op.m / c.ranks * op.k * (c.ranks - 1));
  }
  EXPECT_GT(latest, 0) << "all in one wave: the case says nothing";
}

INSTANTIATE_TEST_SUITE_P(
    Lower, PushOrder,
    testing::Values(Case{"ag-gemm m=128 n=256 k=320 ranks=4 dtype=bf16",
                         "tiles,tile=16x16,comm-sms=1,order=arrival,k-phases=2", 4, 13},
                    Case{"ag-gemm m=128 n=512 k=64 ranks=8 dtype=bf16",
                         "tiles,tile=16x16,comm-sms=1,order=arrival", 8, 17},
                    Case{"ag-gemm m=128 n=512 k=256 ranks=8 dtype=bf16",
                         "tiles,tile=16x16,comm-sms=1,order=own-first,k-phases=4", 8, 13},
                    Case{"ag-gemm m=192 n=192 k=128 ranks=3 dtype=bf16",
                         "slices,tile=16x16,mover=comm-blocks,comm-sms=1,order=arrival,k-phases=2",
                         3, 7},
                    Case{"ag-gemm m=128 n=512 k=64 ranks=8 dtype=bf16",
                         "tiles,tile=16x16,comm-sms=1,order=arrival,rows=bucket", 8, 17}));

// They begin when all rows of their shards have come.
TEST(PushOrder, OfKernelsThatAwaitWholeShardsIsAllAtOnce) {
  const Draft draft = draft_of("ag-gemm m=128 n=512 k=64 ranks=8 dtype=bf16",
                               "decomposed,tile=16x16,mover=comm-blocks,comm-sms=1,groups=1+7",
                               small_machine(8, 17));
  for (const Task& task : tasks_of(draft, Opcode::copy)) {
    EXPECT_EQ(draft.plan.writes(*task.instr).size(), 7u);
  }
}

// The network is slower than what is inside a node: it would hold up those behind it.
TEST(PushOrder, OfWhatCrossesNodesIsAllAtOnce) {
  const Draft draft = draft_of("ag-gemm m=64 n=256 k=64 ranks=4 dtype=bf16",
                               "tiles,tile=16x16,comm-sms=1,order=arrival", small_machine(4, 5, 2));
  for (const Task& task : tasks_of(draft, Opcode::copy)) {
    EXPECT_EQ(draft.plan.writes(*task.instr).size(), 3u);
  }
}

}  // namespace
}  // namespace stretto
