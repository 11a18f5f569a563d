// start=wave: what tiles that begin together wait for.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lower/drafts.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

using testing::_;
using testing::Each;
using testing::ElementsAre;
using testing::Pair;

// By lane that pushes: how many of its copies are there.
using Pushed = std::map<uint32_t, int>;

bool includes(const Pushed& all, const Pushed& some) {
  return std::all_of(some.begin(), some.end(), [&](const auto& of_lane) {
    const auto found = all.find(of_lane.first);
    return found != all.end() && found->second >= of_lane.second;
  });
}

void merge(Pushed& into, const Pushed& from) {
  for (const auto& [lane, copies] : from) into[lane] = std::max(into[lane], copies);
}

// A tile of a lane: what is known to be there when it begins, and its waits.
struct Begin {
  Pushed known;
  size_t waits = 0;
};
using LaneBegins = std::vector<Begin>;

struct Plans {
  // Each lane's tiles of rank 0.
  std::vector<LaneBegins> begins;
  size_t notifies = 0;  // that rank 0 gets
};

Plans plans_of(const std::string& op_text, const std::string& schedule, int sms) {
  const Segment op = parse_segment(op_text);
  const Machine machine = small_machine(op.ranks, sms);
  const Draft draft =
      draft_after(op, parse_schedule(schedule, op, machine), machine, "place_signals");
  Plans found;
  std::map<int32_t, Pushed> behind;  // by signal of rank 0
  std::map<int32_t, int64_t> amounts;
  for (uint32_t l = 0; l < draft.plan.lanes.size(); ++l) {
    int copies = 0;
    for (const Instr& instr : draft.plan.lanes[l].instrs) {
      copies += instr.op == Opcode::copy ? 1 : 0;
      if (instr.op != Opcode::notify || instr.rank != 0) continue;
      behind[instr.signal.index][l] = copies;
      amounts[instr.signal.index] += instr.amount;
      ++found.notifies;
    }
  }
  for (const Lane& lane : draft.plan.lanes) {
    if (lane.rank != 0 || lane.kind != LaneKind::compute) continue;
    LaneBegins& begins = found.begins.emplace_back();
    Begin now;
    int tile = -1;
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::wait) {
        EXPECT_EQ(instr.amount, amounts[instr.signal.index]);
        merge(now.known, behind[instr.signal.index]);
        ++now.waits;
      }
      if (instr.op != Opcode::gemm) continue;
      if (std::exchange(tile, instr.tile) != instr.tile) begins.push_back(now);
      now.waits = 0;
    }
  }
  return found;
}

// By wave: the waits of its tiles, which must have equally many.
std::vector<size_t> waits_by_wave(const Plans& plans) {
  std::vector<size_t> waits;
  for (size_t wave = 0; wave < plans.begins[0].size(); ++wave) {
    waits.push_back(plans.begins[0][wave].waits);
    for (const LaneBegins& lane : plans.begins) {
      if (wave < lane.size()) {
        EXPECT_EQ(lane[wave].waits, waits.back()) << "wave " << wave;
      }
    }
  }
  return waits;
}

TEST(Waves, TilesBeginTogetherWhereAsked) {
  // 8 tile rows of 3 tiles on 4 lanes: 6 waves; rank 0's own rows are the first two of 8.
  const auto begins = [&](int phases, std::string_view change) {
    return plans_of(
               "ag-gemm m=128 n=192 k=128 ranks=4 dtype=bf16",
               fmt::format("tiles,tile=16x16,swizzle=1,comm-sms=2,k-phases={},{}", phases, change),
               6)
        .begins;
  };
  for (const int phases : {1, 2}) {
    const auto apart = begins(phases, "start=tile");
    for (const char* sync : {"flag", "counter"}) {
      SCOPED_TRACE(fmt::format("{} phases, sync={}", phases, sync));
      const auto together = begins(phases, fmt::format("start=wave,sync={}", sync));
      ASSERT_EQ(together.size(), 4u);
      bool differ = false;
      for (size_t wave = 0; wave < 6; ++wave) {
        Pushed all;  // that any lane awaits
        for (const LaneBegins& lane : apart) merge(all, lane[wave].known);
        for (size_t lane = 0; lane < 4; ++lane) {
          const Pushed &alone = apart[lane][wave].known, &shared = together[lane][wave].known;
          EXPECT_TRUE(includes(shared, alone));
          EXPECT_TRUE(includes(all, shared));
          if (phases == 1) {
            EXPECT_EQ(shared, all);
          }
          differ = differ || shared != alone;
        }
      }
      EXPECT_TRUE(differ);
    }
  }
}

TEST(Waves, AwaitTheLastOfWhatEachMoverPushesForThem) {
  // 32 tile rows of one tile on 8 lanes: two waves of own rows, two of 8 stripes by two movers.
  const auto plans = [](const char* change) {
    return plans_of("ag-gemm m=512 n=32 k=16 ranks=2 dtype=bf16",
                    std::string("tiles,tile=16x16,comm-sms=2,") + change, 10);
  };
  const Plans apart = plans("start=tile");
  EXPECT_THAT(waits_by_wave(apart), ElementsAre(0, 0, 2, 2));
  EXPECT_EQ(apart.notifies, 32u);
  const Plans by_flags = plans("start=wave");
  EXPECT_THAT(waits_by_wave(by_flags), ElementsAre(0, 0, 2, 2));
  EXPECT_EQ(by_flags.notifies, 4u);
  // Both movers add to the counter of a wave.
  const Plans by_counters = plans("start=wave,sync=counter");
  EXPECT_THAT(waits_by_wave(by_counters), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(by_counters.notifies, 4u);
}

TEST(Waves, OfAnyNumberOfRowsHaveAFewWaits) {
  // 600 tile rows of one tile on 398 lanes. Beside 300 own rows the first wave has 98 of rank 1,
  // each pushed by two lanes; the second has 202, which are 404 pieces.
  for (const auto& [sync, waits] : std::map<std::string, size_t>{{"flag", 2}, {"counter", 1}}) {
    SCOPED_TRACE(sync);
    const Plans plans = plans_of("ag-gemm m=9600 n=32 k=16 ranks=2 dtype=bf16",
                                 "tiles,tile=16x16,comm-sms=2,start=wave,sync=" + sync, 400);
    EXPECT_THAT(waits_by_wave(plans), ElementsAre(waits, waits));
    EXPECT_EQ(plans.notifies, 4u);
    ASSERT_EQ(plans.begins.size(), 398u);
    for (const LaneBegins& lane : plans.begins) {
      for (size_t wave = 0; wave < lane.size(); ++wave) {
        const int stripes = wave == 0 ? 98 : 300;
        EXPECT_THAT(lane[wave].known, ElementsAre(Pair(_, stripes), Pair(_, stripes)));
      }
    }
  }
}

TEST(Waves, WithMoreFlagsThanATaskAwaitsAreNotShared) {
  // 40 tiles of one wave. 20 stripes of 16 rows, a row a piece, are 320 pieces by 300 movers.
  const auto waits = [](const char* sync) {
    const Plans plans =
        plans_of("ag-gemm m=640 n=32 k=16 ranks=2 dtype=bf16",
                 fmt::format("tiles,tile=16x16,comm-sms=300,start=wave,sync={}", sync), 400);
    std::vector<size_t> first;
    for (const LaneBegins& lane : plans.begins) first.push_back(lane[0].waits);
    std::sort(first.begin(), first.end());
    return first;
  };
  std::vector<size_t> alone(40, 16);
  std::fill_n(alone.begin(), 20, 0);  // own rows
  EXPECT_EQ(waits("flag"), alone);
  EXPECT_THAT(waits("counter"), Each(1u));
}

}  // namespace
}  // namespace stretto
