// Where ranks are alike, waits are derived for rank 0 and turned, and who else reads what stays in
// registers is asked of rank 0: at random points of the space both are as all ranks together give
// them.
#include <gtest/gtest.h>

#include <algorithm>

#include "space/random_point.h"
#include "stretto/lower.h"
#include "sync/edges.h"

namespace stretto {
namespace {

constexpr int kPoints = 1500;

// Calls visit(draft) with what place_signals starts from.
template <typename Visit>
void with_draft(const Point& point, const Visit& visit) {
  bool visited = false;
  lower(point.op, point.schedule, point.machine, [&](const LowerStep& step, const Draft& draft) {
    if (step.name != "drop_idle_lanes") return;
    visited = true;
    visit(draft);
  });
  EXPECT_TRUE(visited);
}

// A counter, and who uses it.
struct Shared {
  uint16_t rank = 0, buffer = 0;
  std::vector<uint32_t> releases, acquires;
  bool operator==(const Shared&) const = default;
};

struct Placed {
  bool alike = false;
  std::vector<SyncEdge> edges;
  std::vector<Shared> groups;
  std::vector<Ack> acks;
};

Placed place(const Draft& draft, bool use_alike) {
  const SyncPoints points = find_sync_points(draft);
  const Dependences dependences = find_dependences(draft, use_alike);
  const PointEdges needed(draft, dependences, points);
  RunHistory history(draft, needed.alike);
  const std::vector<SyncEdge> edges = reduce_to_edges(needed, history);
  const SignalGroups groups(draft, edges, needed.alike);
  const SignalGroups of_all = groups.of_all_ranks();
  Placed placed{needed.alike != nullptr, of_all_ranks(edges, needed.alike), {}, {}};
  for (const SignalGroups::Group& group : of_all.all()) {
    const auto releases = of_all.releases(group), acquires = of_all.acquires(group);
    placed.groups.push_back({group.rank,
                             group.buffer,
                             {releases.begin(), releases.end()},
                             {acquires.begin(), acquires.end()}});
  }
  placed.acks = find_acks(draft, dependences, points, edges, groups, history);
  return placed;
}

// The words that the plan has are those that it gets when all of its lanes are looked at.
// Whether its ranks are alike, and it has some.
bool compare_words(const Point& point) {
  bool alike = false;
  const Plan plan =
      lower(point.op, point.schedule, point.machine,
            [&](const LowerStep&, const Draft& draft) { alike = draft.ranks_are_alike; });
  Plan looked_at = plan;
  fuse_tasks(looked_at);
  EXPECT_TRUE(looked_at.lanes == plan.lanes);
  return alike && std::any_of(plan.lanes.begin(), plan.lanes.end(), [](const Lane& lane) {
           return std::any_of(lane.instrs.begin(), lane.instrs.end(),
                              [](const Instr& instr) { return instr.fused; });
         });
}

// Whether the ranks are alike.
bool compare(const Draft& draft) {
  const Placed expected = place(draft, false), found = place(draft, true);
  EXPECT_FALSE(expected.alike);
  EXPECT_EQ(found.edges, expected.edges);
  EXPECT_TRUE(found.groups == expected.groups);
  EXPECT_EQ(found.acks, expected.acks);
  return found.alike;
}

TEST(AlikeRanks, GiveTheWaitsThatAllRanksGive) {
  const auto shuffle_seed = static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  std::mt19937_64 random(shuffle_seed + 2);
  int alike = 0, others = 0, fused = 0;
  for (int i = 0; i < kPoints && !testing::Test::HasFailure(); ++i) {
    Point point = random_point(random);
    // Few random points keep sums in registers; these do where their ranks are alike.
    if (i % 2 == 0 && point.op.kind == kGemmRs) {
      point.machine = default_machine(point.op.ranks);
      point.schedule = parse_schedule("tiles", point.op, point.machine);
    }
    // Half of them with shards of whole tiles.
    if (i % 2 == 0 && point.schedule.tile_m > 0) {
      point.op.m = int64_t{point.op.ranks} * point.schedule.tile_m;
    }
    if (point.op.ranks == 1 || !legal(point.op, point.schedule, point.machine).empty()) continue;
    SCOPED_TRACE(to_string(point));
    with_draft(point, [&](const Draft& draft) { ++(compare(draft) ? alike : others); });
    fused += compare_words(point);
  }
  RecordProperty("alike", alike);
  RecordProperty("fused", fused);
  EXPECT_GT(fused, 0);
  EXPECT_GT(alike, kPoints / 75);
  EXPECT_GT(others, kPoints / 20);
}

// The plans that are made while others wait for them: buckets of a server.
TEST(AlikeRanks, AreThoseOfBuckets) {
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
    for (const int64_t rows : {512, 1024}) {
      Point point{{kind, rows, 2048, 2048, 8, DType::bf16}, default_machine(8), {}};
      point.schedule = parse_schedule("tiles,rows=bucket", point.op, point.machine);
      SCOPED_TRACE(to_string(point));
      with_draft(point, [&](const Draft& draft) { EXPECT_TRUE(compare(draft)); });
      const bool fused = compare_words(point);
      if (kind == kGemmRs) {
        EXPECT_TRUE(fused);
      }
    }
  }
}

// Of experts whose partition is one of all tokens, every rank looks up rows of its own in a table
// that one task writes.
TEST(AlikeRanks, AreThoseOfExpertsThatTakeAllTokensTogether) {
  const Operator op =
      make_operator("moe-ep", {{"t", 1024}, {"h", 512}, {"f", 256}, {"experts", 16}, {"k", 2}}, 4);
  const Machine machine = default_machine(4);
  for (const char* schedule : {"tiles", "tiles,granularity=whole", "slices,granularity=whole"}) {
    SCOPED_TRACE(schedule);
    lower(op, parse_schedules(schedule, op, machine), machine,
          [&](const LowerStep& step, const Draft& draft) {
            if (step.name == "drop_idle_lanes") EXPECT_TRUE(compare(draft));
          });
  }
}

// Many lanes make the partition of so many choices, each a part of all ranks' tokens.
TEST(AlikeRanks, AreThoseOfPartitionsThatAreMadeInParts) {
  const Operator op =
      make_operator("moe-ep", {{"t", 4096}, {"h", 64}, {"f", 32}, {"experts", 16}, {"k", 8}}, 4);
  const Machine machine = default_machine(4);
  const OperatorSchedule schedule = parse_schedules("tiles,granularity=whole", op, machine);
  bool counts_parts = false;
  lower(op, schedule, machine, [&](const LowerStep& step, const Draft& draft) {
    if (step.name != "drop_idle_lanes") return;
    EXPECT_TRUE(compare(draft));
    for (const Instr& instr : draft.plan.lanes[0].instrs) {
      counts_parts = counts_parts || instr.op == Opcode::count_choices;
    }
  });
  EXPECT_TRUE(counts_parts);
}

}  // namespace
}  // namespace stretto
