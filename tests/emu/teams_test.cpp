// Operators whose tensors are dealt to teams: every team computes with rows of its own, and what
// they make is proved and right under every preset that serves them.
#include <gmock/gmock.h>

#include <ostream>

#include "lost_syncs.h"
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
    {"AnMlp",
     "input x [m, h] rows\n"
     "input wg [f, h] rows of tp\n"
     "input wu [f, h] rows of tp\n"
     "input wd [h, f] cols of tp\n"
     "g = gemm x wg\n"
     "u = gemm x wu\n"
     "a = swiglu g u\n"
     "y = gemm a wd\n"
     "output y rows\n",
     3},
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
    {"HeadsOfATeam",
     "input x [m, f] cols of tp\n"
     "input w [h, f] whole\n"
     "y = gemm x w\n"
     "output y rows\n",
     3},
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
  const auto graph = parse_graph("graph own m h f t\nteam tp t\n" + std::string(lines));
  return make_graph(graph, {{"m", m}, {"h", 32}, {"f", 64}, {"t", team}}, ranks, DType::bf16);
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

Plan small_plan(std::string_view lines, std::string_view preset, int64_t team, int ranks) {
  const Operator op = op_of(lines, team, ranks);
  const Machine machine = small_machine(ranks);
  OperatorSchedule schedule = schedule_of(find_preset(preset), op, machine);
  for (Schedule& product : schedule.products) {
    product.tile_m = product.tile_n = 16;
    product.comm_sms = std::min(product.comm_sms, 1);
  }
  return lower(op, schedule, machine);
}

TEST(TeamMutants, LostWaitsAndNotifiesAreReported) {
  expect_every_sync_is_needed(small_plan(kGraphs[0].lines, "slices", 2, 4));
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
  EXPECT_TRUE(
      legal(op, schedule_of(find_preset("sequential"), op, small_machine(4)), small_machine(4))
          .empty());
}

TEST(TeamPlans, RefuseCollectivesAndPartsOfRows) {
  const Operator op = op_of(kGraphs[0].lines, 2, 4);
  const Machine machine = small_machine(4);
  const auto reasons = legal(op, schedule_of(find_preset("sequential"), op, machine), machine);
  ASSERT_FALSE(reasons.empty());
  EXPECT_EQ(reasons[0],
            "a: mover=nccl: collectives are of all ranks, and these are teams of 2: take another "
            "mover");
  OperatorSchedule schedule = schedule_of(find_preset("tiles"), op, machine);
  schedule.split = 2;
  EXPECT_THAT(legal(op, schedule, machine),
              testing::ElementsAre("split=2 of rows that are dealt to teams: take split=1"));
}

}  // namespace
}  // namespace stretto
