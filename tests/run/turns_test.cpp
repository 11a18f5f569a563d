// Whole plans that take turns on one workspace: the checker proves that the fence between them
// orders all that they do there, and says so where a part of the fence is missing.
#include "check/turns.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "check/meets.h"
#include "lower/plan_of_operator.h"
#include "run/fence.h"

namespace stretto::runtime {
namespace {

using checker::Turns;

// What an operation's buckets and other operations of a context may have run before.
std::vector<Plan> plans_of(int ranks) {
  std::vector<Plan> plans;
  for (const auto& [op, schedule] : std::vector<std::pair<const char*, const char*>>{
           {"ag-gemm m=384 n=384 k=256", "tiles,rows=bucket"},
           {"ag-gemm m=768 n=384 k=256", "tiles,rows=bucket"},  // another bucket of the same
           {"ag-gemm m=384 n=384 k=256", "decomposed,rows=bucket"},
           {"gemm-rs m=384 n=384 k=384", "slices,rows=bucket"},
           {"gemm-rs m=384 n=384 k=384",
            "tiles,mover=comm-blocks,comm-sms=8,rows=bucket,reuse=ack"},
           {"gemm-ar m=384 n=384 k=384", "tiles,rows=bucket"},
           {"gemm-ar m=384 n=384 k=384", "low-latency,rows=bucket"},
           {"mlp m=384 h=384 f=384", "waves"},
           {"moe-ep t=96 h=128 f=128 experts=8 k=2", "tiles"},  // whose rows a run decides
           {"moe-tp t=96 h=128 f=384 experts=4 k=2", "tiles,reuse=ack"},
           {"gemm-ar-norm m=96 n=384 k=384", "tiles"}}) {
    plans.push_back(plan_of_operator(fmt::format("{} ranks={} dtype=bf16", op, ranks), schedule));
  }
  return plans;
}

TEST(Turns, WholePlansAreOrderedByTheFence) {
  for (const int ranks : {2, 3}) {
    const std::vector<Plan> plans = plans_of(ranks);
    size_t of_both = 0;
    for (const Plan& first : plans) {
      for (const Plan& second : plans) {
        SCOPED_TRACE(first.schedule + ", then " + second.schedule);
        const Turns turns = checker::in_turns(first, second, fence_plan(first.op, first.sms));
        const CheckReport report = checker::check_turns(turns);
        for (const Diagnostic& one : report.diagnostics) ADD_FAILURE() << one.message;
        const size_t alone = check(first).pairs_proved + check(second).pairs_proved;
        EXPECT_GE(report.pairs_proved, alone);  // as many: one of them shares nothing
        of_both += report.pairs_proved - alone;
      }
    }
    EXPECT_GT(of_both, 1000u);
  }
}

size_t problems(const Plan& first, const Plan& second, const Plan& fence) {
  return checker::check_turns(checker::in_turns(first, second, fence), {.max_diagnostics = 5})
      .diagnostics.size();
}

TEST(Turns, WithoutAnyPartOfTheFenceTheCheckerSaysSo) {
  constexpr int kRanks = 3;
  std::vector<Plan> plans = plans_of(kRanks);
  plans.erase(plans.begin() + 6, plans.begin() + 8);  // share nothing but slots of their own
  const Plan fence = fence_plan(plans[0].op, plans[0].sms);
  for (size_t i = 0; i < plans.size(); ++i) {
    const Plan& first = plans[i];
    const Plan& second = plans[(i + 1) % plans.size()];
    SCOPED_TRACE(first.schedule + ", then " + second.schedule);
    ASSERT_EQ(problems(first, second, fence), 0u);
    Plan none = fence;
    for (Lane& lane : none.lanes) lane.instrs.clear();
    EXPECT_GT(problems(first, second, none), 0u);
    for (size_t lane = 0; lane < fence.lanes.size(); ++lane) {
      for (size_t at = 0; at < fence.lanes[lane].instrs.size(); ++at) {
        Plan edited = fence;
        std::vector<Instr>& instrs = edited.lanes[lane].instrs;
        if (instrs[at].op == Opcode::wait) {
          --instrs[at].amount;
          EXPECT_GT(problems(first, second, edited), 0u) << "lane " << lane << " waits for less";
        }
        instrs.erase(instrs.begin() + static_cast<std::ptrdiff_t>(at));
        EXPECT_GT(problems(first, second, edited), 0u) << "lane " << lane << " without " << at;
      }
    }
  }
}

// A plan that lies elsewhere and in whose runs each rank awaits each other orders two others as the
// fence does.
TEST(Turns, PlansThatMeetAllRanksAreFences) {
  for (const int ranks : {2, 3}) {
    const std::vector<Plan> plans = plans_of(ranks);
    int fences = 0;
    for (size_t i = 0; i < plans.size(); ++i) {
      SCOPED_TRACE(plans[i].schedule);
      const bool is_fence = checker::meets_all_ranks(plans[i]);
      fences += is_fence ? 1 : 0;
      for (const size_t other : {size_t{0}, size_t{4}}) {
        const size_t found = problems(plans[other], plans[3], plans[i]);
        if (is_fence) EXPECT_EQ(found, 0u) << plans[other].schedule;
      }
    }
    EXPECT_EQ(fences, 9);  // the others make collectives
  }
}

// Whatever is taken out of such a plan: what the checker finds no fence is said to be none.
TEST(Turns, APlanThatMeetsNotAllRanksIsSaidToBeNoFence) {
  const std::vector<Plan> plans = plans_of(3);
  int are_none = 0, are_said = 0;
  for (const size_t i : {size_t{0}, size_t{3}, size_t{4}, size_t{9}}) {
    const Plan& whole = plans[i];
    for (int without = 0; without < 3; ++without) {
      Plan edited = whole;  // nobody hears of a rank but itself
      for (Lane& lane : edited.lanes) {
        for (Instr& instr : lane.instrs) {
          if (instr.op == Opcode::notify && lane.rank == without) instr.rank = lane.rank;
        }
      }
      const bool is_none = problems(plans[4], plans[3], edited) > 0;
      are_none += is_none ? 1 : 0;
      are_said += checker::meets_all_ranks(edited) ? 0 : 1;
      if (is_none)
        EXPECT_FALSE(checker::meets_all_ranks(edited)) << whole.schedule << " of " << without;
    }
  }
  EXPECT_EQ(are_none, 12);
  EXPECT_EQ(are_said, 12);
}

// A rank that goes on before its own lanes have ended tells the others too early.
TEST(Turns, AFenceThatDoesNotWaitForItsOwnRankIsSaid) {
  const std::vector<Plan> plans = plans_of(2);
  Turns turns = checker::in_turns(plans[0], plans[3], fence_plan(plans[0].op, plans[0].sms));
  int edits = 0;
  for (size_t lane = 0; lane < turns.lanes.size(); ++lane) {
    if (turns.lanes[lane] != Turns::Of::fence) continue;
    Turns edited = turns;
    edited.plan.lanes[lane].instrs.erase(edited.plan.lanes[lane].instrs.begin());
    EXPECT_FALSE(checker::check_turns(edited).clean()) << lane;
    ++edits;
  }
  EXPECT_EQ(edits, 2 * 2);
}

}  // namespace
}  // namespace stretto::runtime
