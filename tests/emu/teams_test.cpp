// Operators whose tensors are dealt to teams: every team computes with rows of its own, and what
// they make is proved and right under every preset that serves them.
#include <gmock/gmock.h>

#include <ostream>

#include "lost_syncs.h"
#include "op/team_graphs.h"
#include "schedule/row_parts.h"
#include "small_plans.h"
#include "stretto/error.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

struct TeamGraph {
  const char* name;
  const char* lines;
  size_t least_served;  // presets
};

void PrintTo(const TeamGraph& graph, std::ostream* out) { *out << graph.name; }

constexpr TeamGraph kGraphs[] = {
    {"AnMlp", kMlpInTeams, 3},
    {"AnAllReduceAndStagesOfWhatATeamHas",
     "input x [m, f] cols of tp\n"
     "input b [1, f] whole\n"
     "input w [h, f] cols of tp\n"
     "input r [m, h] whole of tp\n"
     "input o [m, h] rows\n"
     "input v [1, h] whole of tp\n"
     "t = bias x b\n"
     "y = gemm t w\n"
     "s = add y r\n"
     "n = norm s v\n"
     "z = add n o\n"
     "output n whole of tp\n"
     "output z rows\n",
     3},
    {"RowsBetweenProductsOfTwoKindsOfTeams",
     "team pairs 2\n"
     "input x [m, f] cols of tp\n"
     "input w [h, f] cols of tp\n"
     "input r [m, h] rows of tp\n"
     "input v [1, h] whole\n"
     "input q [f, h] rows of pairs\n"
     "input p [h, h] whole\n"
     "y = gemm x w\n"
     "s = add y r\n"
     "n = norm s v\n"
     "z = gemm n q\n"
     "o = gemm n p\n"
     "output z cols of pairs\n"
     "output o rows\n",
     3},
    {"HeadsOfATeam", kHeadsInTeams, 3},
    {"ColumnsThatATeamNeedsOfOwnRows",
     "input x [m, f] cols of tp\n"
     "input o [m, h] rows\n"
     "input p [f, h] whole\n"
     "input w [h, f] cols of tp\n"
     "y = gemm o p\n"
     "s = add x y\n"
     "z = gemm s w\n"
     "output z rows\n",
     2},
    {"OwnRowsByAWeightOfTeamsWhoseColumnsAllRanksShare",
     "input x [m, h] rows\n"
     "input p [f, h] whole of tp\n"
     "y = gemm x p\n"
     "output y cols\n",
     2},
    {"ColumnsOfAllRanksByAWeightOfTeams",
     "input x [m, f] cols\n"
     "input w [h, f] whole of tp\n"
     "y = gemm x w\n"
     "output y rows\n",
     2},
    {"SumsOfTeamsThatAllRanksNorm",
     "input c [m, f] cols of tp\n"
     "input x [m, h] rows\n"
     "input wo [h, f] cols of tp\n"
     "input w1 [1, h] whole\n"
     "o = gemm c wo\n"
     "s = add o x\n"
     "n = norm s w1\n"
     "output n rows\n"
     "output s rows\n",
     5},
    {"AttentionInTeamsBeforeExpertsOfAllRanks",
     "input c [m, f] cols of tp\n"
     "input x [m, h] rows\n"
     "input wo [h, f] cols of tp\n"
     "input w1 [1, h] whole\n"
     "input wr [8, h] whole\n"
     "input wg [8, f, h] experts\n"
     "input wd [8, h, f] experts\n"
     "o = gemm c wo\n"
     "s = add o x\n"
     "n = norm s w1\n"
     "scores = gemm n wr\n"
     "ids = top_k scores k=2\n"
     "weights = softmax_gate scores ids\n"
     "g = grouped n wg ids\n"
     "b = silu g\n"
     "d = grouped b wd ids\n"
     "y = weigh d ids weights\n"
     "z = add y s\n"
     "output z rows\n",
     2},
};

Operator op_of(std::string_view lines, int64_t team, int ranks, int64_t m = 16) {
  return op_in_teams(lines, {m, 32, 64}, team, ranks);
}

class Teams : public testing::TestWithParam<TeamGraph> {};
INSTANTIATE_TEST_SUITE_P(, Teams, testing::ValuesIn(kGraphs),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(Teams, AreProvedAndRightUnderEveryPresetThatServesThem) {
  for (const auto& [team, ranks] : {std::pair{2, 4}, {4, 8}, {1, 2}, {4, 4}}) {
    const Operator op = op_of(GetParam().lines, team, ranks, 3 * ranks);
    const Machine machine = small_machine(ranks);
    const auto reference = make_shared_reference();
    size_t served = 0;
    for (const OperatorSchedule& schedule : small_presets(op, machine)) {
      SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
      const Plan plan = lower(op, schedule, machine);
      expect_proved(plan);
      expect_right(plan, {.reference = reference});
      if (HasFatalFailure()) return;
      EXPECT_GT(simulate(plan, machine).total_us, 0);
      ++served;
    }
    EXPECT_GE(served, GetParam().least_served) << to_string(op);
  }
}

// A part has a stripe of each rank's rows, so what a team has whole lies in as many pieces as it
// has ranks.
TEST_P(Teams, InPartsHaveTheBitsOfTheWhole) {
  for (const auto& [team, ranks] : {std::pair{2, 4}, {4, 8}}) {
    const Operator op = op_of(GetParam().lines, team, ranks, 5 * ranks);
    const Machine machine = small_machine(ranks);
    const auto reference = make_shared_reference();
    size_t served = 0;
    for (OperatorSchedule schedule : small_presets(op, machine)) {
      std::optional<uint64_t> whole;
      for (const int split : {1, 2, 3}) {
        schedule.split = split;
        SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
        ASSERT_THAT(legal(op, schedule, machine), testing::IsEmpty());
        const Plan plan = lower(op, schedule, machine);
        expect_proved(plan);
        const EmulateResult result = emulate(plan, {.seed = 3, .runs = 2, .reference = reference});
        ASSERT_TRUE(result.finished && result.faults.empty() && result.ranks_agree);
        ASSERT_TRUE(result.verified) << result.first_wrong;
        if (!whole) whole = result.output_hash;
        if (is_deterministic(schedule)) {
          EXPECT_EQ(result.output_hash, *whole);
        }
        if (HasFailure()) return;
        EXPECT_GT(simulate(plan, machine).total_us, 0);
      }
      ++served;
    }
    EXPECT_GE(served, GetParam().least_served) << to_string(op);
  }
}

TEST(TeamParts, AreAsManyAsARankHasRowsAtMost) {
  const Operator op = op_of(kMlpInTeams, 2, 4, 8);
  EXPECT_EQ(why_no_split(op, 2), "");
  EXPECT_EQ(why_no_split(op, 3), "split=3 of 2 rows that a rank owns: take split=2 or less");
  // Whatever presets are asked for, as many rows are left to each rank.
  EXPECT_EQ(equal_part(op_of(kMlpInTeams, 2, 4, 20), 2).rows(), 12);
}

Plan small_plan(std::string_view lines, std::string_view preset, int64_t team, int ranks,
                int split = 1) {
  const Operator op = op_of(lines, team, ranks);
  const Machine machine = small_machine(ranks);
  OperatorSchedule schedule = schedule_of(find_preset(preset), op, machine, split);
  for (Schedule& product : schedule.products) {
    product.tile_m = product.tile_n = 16;
    product.comm_sms = std::min(product.comm_sms, product.mover == Mover::nccl ? 2 : 1);
  }
  return lower(op, schedule, machine);
}

TEST(TeamMutants, LostWaitsAndNotifiesAreReported) {
  for (const int split : {1, 2}) {
    expect_every_sync_is_needed(small_plan(kGraphs[0].lines, "slices", 2, 4, split));
  }
}

TEST(TeamMutants, LostWaitsOfCollectivesAreReported) {
  const Plan plan = small_plan(kGraphs[0].lines, "waves", 2, 4);
  size_t collectives = 0;
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::collective) continue;
      EXPECT_EQ(instr.team, 2);
      ++collectives;
    }
  }
  EXPECT_GT(collectives, 0u);
  expect_every_sync_is_needed(plan);
}

// Nothing but tasks of a team reads or writes what its ranks have.
TEST(TeamPlans, MoveNothingBetweenTeams) {
  const Plan plan = small_plan(kGraphs[0].lines, "tiles", 2, 4);
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::notify) EXPECT_EQ(instr.rank / 2, lane.rank / 2);
      if (!instr.is_task()) continue;
      for (const Region& region : plan.reads(instr)) EXPECT_EQ(region.rank / 2, lane.rank / 2);
      for (const Region& region : plan.writes(instr)) EXPECT_EQ(region.rank / 2, lane.rank / 2);
    }
  }
}

// One team of all ranks is no team, and takes what operators without teams take.
TEST(TeamPlans, OfOneTeamAreThoseOfAllRanks) {
  const Operator op = op_of(kGraphs[0].lines, 4, 4);
  EXPECT_FALSE(op.has_teams());
  for (const Lane& lane : small_plan(kGraphs[0].lines, "sequential", 4, 4).lanes) {
    for (const Instr& instr : lane.instrs) EXPECT_EQ(instr.team, 0);
  }
}

// Teams that do the same at once take as long as one of them alone.
TEST(TeamPlans, TakeAsLongAsOneTeam) {
  for (const char* preset : {"sequential", "two-chunk", "waves", "library"}) {
    const Plan teams = small_plan(kGraphs[0].lines, preset, 2, 8);
    const Operator alone = op_of(kGraphs[0].lines, 2, 2, teams.op.rows() / 4);
    OperatorSchedule schedule = parse_schedules(teams.schedule, alone, small_machine(2));
    const Plan one = lower(alone, schedule, small_machine(2));
    EXPECT_DOUBLE_EQ(simulate(teams, small_machine(8)).total_us,
                     simulate(one, small_machine(2)).total_us)
        << preset;
  }
}

// Nodes of 8 ranks, of which 6 are there.
TEST(TeamPlans, OfOneNodeNeedNotDivideIt) {
  const Operator op = op_in_teams(kGraphs[0].lines, {18, 48, 96}, 3, 6);
  Machine machine = small_machine(6);
  ASSERT_EQ(machine.ranks_per_node, 8);
  const auto schedules = small_presets(op, machine);
  ASSERT_GE(schedules.size(), kGraphs[0].least_served);
  for (const OperatorSchedule& schedule : schedules) {
    const Plan plan = lower(op, schedule, machine);
    expect_proved(plan);
    expect_right(plan, {});
  }
  machine.nodes = 2;
  machine.ranks_per_node = 5;
  machine.network_gb_per_s = 40;
  machine.network_latency_us = 5;
  EXPECT_THAT(legal(op, schedules.front(), machine),
              testing::Contains(testing::HasSubstr("teams of 3 ranks on nodes of 5: take teams "
                                                   "that are parts of nodes, or whole nodes")));
}

TEST(TeamPlans, RefuseLowLatencyCollectives) {
  const Operator op = op_of(kGraphs[0].lines, 2, 4);
  const Machine machine = small_machine(4);
  EXPECT_TRUE(legal(op, schedule_of(find_preset("low-latency"), op, machine), machine).empty());
  OperatorSchedule schedule = schedule_of(find_preset("library"), op, machine);
  schedule.products[0].collectives = CollectivesBy::low_latency;
  EXPECT_THAT(legal(op, schedule, machine),
              testing::Contains("a: collectives=low-latency: they are of all ranks, and these of "
                                "teams of 2: take collectives=nccl"));
}

}  // namespace
}  // namespace stretto
