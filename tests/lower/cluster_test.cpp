// Clusters: two lanes compute tiles below one another side by side, and wait for what both read.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "lower/drafts.h"
#include "stretto/check.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::Pair;

// 2 tile rows of 4 tiles from each of 4 ranks.
constexpr const char* kGather = "ag-gemm m=128 n=256 k=320 ranks=4 dtype=bf16";

// (tile row, tile column) of a lane's tiles in order.
using Tiles = std::vector<std::pair<int32_t, int32_t>>;

Tiles tiles_of(const Plan& plan, const Lane& lane, int tile_m, int tile_n) {
  Tiles tiles;
  for (const Instr& instr : lane.instrs) {
    if (!instr.is_task()) continue;
    const Region& to = plan.writes(instr)[0];
    if (plan.buffers[to.buffer].role != BufferRole::output) continue;
    tiles.emplace_back(to.row0 / tile_m, to.col0 / tile_n);
  }
  return tiles;
}

std::vector<const Lane*> compute_lanes(const Plan& plan, int rank) {
  std::vector<const Lane*> lanes;
  for (const Lane& lane : plan.lanes) {
    if (lane.kind == LaneKind::compute && lane.rank == rank) lanes.push_back(&lane);
  }
  return lanes;
}

// The waits that stand before each gemm of a lane, behind the gemm before it.
using Waits = std::multiset<std::tuple<uint16_t, int32_t, int64_t>>;
std::vector<Waits> waits_of(const Lane& lane) {
  std::vector<Waits> all(1);
  for (const Instr& instr : lane.instrs) {
    if (instr.op == Opcode::wait) {
      all.back().emplace(instr.signal.array, instr.signal.index, instr.amount);
    }
    if (instr.op == Opcode::gemm) all.emplace_back();
  }
  return all;
}

TEST(Cluster, OddAndEvenLanesComputeRowsOfOneColumn) {
  const Draft draft = draft_of(kGather, "tiles,tile=16x16,comm-sms=2,order=arrival,cluster=2",
                               small_machine(4, 11));
  EXPECT_EQ(draft.plan.cluster, 2);
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<const Lane*> lanes = compute_lanes(draft.plan, rank);
    ASSERT_EQ(lanes.size(), 8u);  // of 9
    std::set<std::pair<int32_t, int32_t>> all;
    for (size_t i = 0; i < lanes.size(); i += 2) {
      const Tiles first = tiles_of(draft.plan, *lanes[i], 16, 16);
      const Tiles second = tiles_of(draft.plan, *lanes[i + 1], 16, 16);
      ASSERT_EQ(first.size(), 4u);
      ASSERT_EQ(second.size(), 4u);
      for (size_t j = 0; j < first.size(); ++j) {
        EXPECT_EQ(first[j].second, second[j].second);
        all.insert(first[j]);
        all.insert(second[j]);
      }
      // Own rows first, then rows of two owners that come one after the other.
      EXPECT_THAT((std::vector{first[0].first, second[0].first}),
                  ElementsAre(2 * rank, 2 * rank + 1));
      EXPECT_NE(first[1].first / 2, second[1].first / 2);
    }
    EXPECT_EQ(all.size(), 8u * 4);
  }
}

TEST(Cluster, PairsComeWhenTheLaterOfTheirRowsWould) {
  // One tile row of each owner: the own row with the first that arrives.
  const Draft draft =
      draft_of("ag-gemm m=64 n=128 k=64 ranks=4 dtype=bf16",
               "tiles,tile=16x16,comm-sms=2,order=arrival,cluster=2", small_machine(4, 4));
  const std::vector<const Lane*> lanes = compute_lanes(draft.plan, 1);
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_THAT(tiles_of(draft.plan, *lanes[0], 16, 16),
              ElementsAre(Pair(1, 0), Pair(1, 1), Pair(3, 0), Pair(3, 1)));
  EXPECT_THAT(tiles_of(draft.plan, *lanes[1], 16, 16),
              ElementsAre(Pair(2, 0), Pair(2, 1), Pair(0, 0), Pair(0, 1)));
}

TEST(Cluster, RowsOfOddSweepsFindPartnersInTheNext) {
  const Draft draft =
      draft_of("ag-gemm m=96 n=32 k=64 ranks=1 dtype=bf16",
               "tiles,tile=16x16,comm-sms=2,mover=comm-blocks,order=plain,swizzle=3,"
               "cluster=2",
               small_machine(1, 4));
  const std::vector<const Lane*> lanes = compute_lanes(draft.plan, 0);
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_THAT(tiles_of(draft.plan, *lanes[0], 16, 16),
              ElementsAre(Pair(0, 0), Pair(0, 1), Pair(2, 0), Pair(4, 0), Pair(2, 1), Pair(4, 1)));
  EXPECT_THAT(tiles_of(draft.plan, *lanes[1], 16, 16),
              ElementsAre(Pair(1, 0), Pair(1, 1), Pair(3, 0), Pair(5, 0), Pair(3, 1), Pair(5, 1)));
}

// An own tile whose partner has rows of others goes on with it, range by range.
TEST(Cluster, PartnersTakeTheSameRangesOfK) {
  const Draft draft = draft_of("ag-gemm m=64 n=128 k=320 ranks=4 dtype=bf16",
                               "tiles,tile=16x16,comm-sms=2,order=arrival,k-phases=3,cluster=2",
                               small_machine(4, 8));
  const uint16_t a = buffer_of(draft, "a");
  size_t own = 0;
  for (int rank = 0; rank < 4; ++rank) {
    for (const Task& task : tasks_of(draft, Opcode::gemm, rank)) {
      own += draft.plan.reads(*task.instr)[0].buffer == a;
      EXPECT_LT(draft.plan.reads(*task.instr)[1].cols(), 320);
    }
  }
  EXPECT_EQ(own, 4u * 2 * 3);
}

// The first run of a plan in which paired lanes take every gemm together, as blocks of a cluster
// might. Whether all lanes come to their ends.
bool ends_in_lock_step(const Plan& plan) {
  std::map<std::tuple<uint16_t, uint16_t, int32_t>, int64_t> counters;
  std::vector<size_t> at(plan.lanes.size(), 0);
  const auto next = [&](uint32_t lane) -> const Instr* {
    return at[lane] < plan.lanes[lane].instrs.size() ? &plan.lanes[lane].instrs[at[lane]] : nullptr;
  };
  const auto is_at_gemm = [&](uint32_t lane) {
    return next(lane) != nullptr && next(lane)->op == Opcode::gemm;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
      for (const Instr* instr = next(lane); instr != nullptr; instr = next(lane)) {
        const uint16_t rank = plan.lanes[lane].rank;
        if (instr->op == Opcode::wait &&
            counters[{rank, instr->signal.array, instr->signal.index}] < instr->amount &&
            instr->lag == 0) {
          break;
        }
        if (instr->op == Opcode::gemm) {
          const uint32_t partner = plan.lanes[lane].index % 2 == 0 ? lane + 1 : lane - 1;
          if (!is_at_gemm(partner)) break;
          ++at[partner];
        }
        if (instr->op == Opcode::notify) {
          counters[{instr->rank, instr->signal.array, instr->signal.index}] += instr->amount;
        }
        ++at[lane];
        moved = true;
      }
    }
  }
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    if (next(lane) != nullptr) return false;
  }
  return true;
}

// Ragged rows and columns, tiles of several owners, signals of both kinds, runs that acknowledge.
TEST(Cluster, BothLanesAwaitWhatEitherReads) {
  struct Case {
    std::string op, schedule;
    int sms;
  };
  std::vector<Case> cases;
  for (const char* sync : {"flag", "counter"}) {
    for (const char* more :
         {"", ",k-phases=3", ",own=gathered", ",start=wave", ",k-phases=2,start=wave",
          ",order=interleaved,reuse=ack", ",order=own-first,k-phases=2,reuse=ack", ",swizzle=3"}) {
      for (const char* sizes : {"m=128 n=256 k=320 ranks=2", "m=119 n=160 k=200 ranks=4",
                                "m=90 n=176 k=200 ranks=8", "m=61 n=60 k=320 ranks=3"}) {
        cases.push_back({fmt::format("ag-gemm {} dtype=bf16", sizes),
                         fmt::format("tiles,tile=16x16,comm-sms=2,sync={}{},cluster=2", sync, more),
                         9});
      }
    }
  }
  for (const Case& one : cases) {
    SCOPED_TRACE(one.op + " " + one.schedule);
    const Segment op = parse_segment(one.op);
    const Machine machine = small_machine(op.ranks, one.sms);
    const Schedule schedule = parse_schedule(one.schedule, op, machine);
    const Plan plan = lower(op, schedule, machine);
    EXPECT_NO_THROW(validate(plan));
    EXPECT_TRUE(check(plan).clean());
    EXPECT_TRUE(ends_in_lock_step(plan));
    size_t waits = 0;
    for (int rank = 0; rank < op.ranks; ++rank) {
      const std::vector<const Lane*> lanes = compute_lanes(plan, rank);
      ASSERT_EQ(lanes.size() % 2, 0u);
      for (size_t i = 0; i < lanes.size(); i += 2) {
        EXPECT_EQ(waits_of(*lanes[i]), waits_of(*lanes[i + 1]));
        for (const Waits& before : waits_of(*lanes[i])) waits += before.size();
      }
    }
    EXPECT_GT(waits, 0u);
  }
}

}  // namespace
}  // namespace stretto
