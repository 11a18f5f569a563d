// Plans that take turns on the same memory: when a fence stands between them, and that it orders
// what they do there, by the checker's proof.
#include "run/workspace.h"

#include <gtest/gtest.h>

#include <vector>

#include "check/meets.h"
#include "run/fence.h"
#include "stretto/check.h"
#include "tables/plan_limits.h"

namespace stretto::runtime {
namespace {

constexpr std::nullopt_t kEager = std::nullopt;

// A run of plan `user` on some bytes of one piece. By itself it is no fence.
WorkspaceUse use(uint64_t user, size_t begin = 0, size_t end = 100, bool is_fence = false) {
  return {user, {nullptr, {begin, end}}, is_fence};
}

// A run that is enqueued, with the fence that it needs.
bool enters_behind_a_fence(WorkspaceTurns& turns, const WorkspaceUse& next,
                           const std::optional<uint64_t>& capture) {
  const bool needs = turns.needs_fence(next, capture);
  turns.note(next, capture);
  return needs;
}

TEST(WorkspaceTurns, ARunThatWasRefusedLeavesTheFenceToTheNext) {
  WorkspaceTurns turns;
  turns.note(use(1), kEager);
  EXPECT_TRUE(turns.needs_fence(use(2), kEager));
  EXPECT_TRUE(turns.needs_fence(use(2), kEager));  // the first time nothing was enqueued
}

TEST(WorkspaceTurns, OnePlanNeedsNoFenceAndAnotherDoes) {
  WorkspaceTurns turns;
  EXPECT_FALSE(enters_behind_a_fence(turns, use(1), kEager));  // nobody was there
  EXPECT_FALSE(enters_behind_a_fence(turns, use(1), kEager));
  EXPECT_TRUE(enters_behind_a_fence(turns, use(2), kEager));
  EXPECT_FALSE(enters_behind_a_fence(turns, use(2), kEager));
  EXPECT_TRUE(enters_behind_a_fence(turns, use(1), kEager));
}

TEST(WorkspaceTurns, APlanThatIsAFenceAndLiesElsewhereNeedsNone) {
  WorkspaceTurns turns;
  const WorkspaceUse a = use(1, 0, 50, true), b = use(2, 50, 100, true), c = use(3, 40, 60, true);
  const WorkspaceUse no_fence = use(4, 0, 50);
  EXPECT_FALSE(enters_behind_a_fence(turns, a, kEager));
  EXPECT_FALSE(enters_behind_a_fence(turns, b, kEager));
  EXPECT_FALSE(enters_behind_a_fence(turns, a, kEager));
  EXPECT_TRUE(enters_behind_a_fence(turns, c, kEager));  // on bytes of a
  EXPECT_TRUE(enters_behind_a_fence(turns, b, kEager));  // on bytes of c
  EXPECT_FALSE(enters_behind_a_fence(turns, no_fence, kEager));
  EXPECT_TRUE(enters_behind_a_fence(turns, b, kEager));  // whoever ended it knows of nobody
  WorkspaceUse other_piece = c;
  other_piece.place.region = reinterpret_cast<const fabric::Region*>(&turns);
  EXPECT_FALSE(turns.needs_fence(other_piece, kEager));
}

// Where one rank made a run alone, others would take the next for the second of the same plan.
TEST(WorkspaceTurns, AfterAFailureTheNextRunHasAFenceOnEveryRank) {
  WorkspaceTurns came, did_not_come;
  for (WorkspaceTurns* turns : {&came, &did_not_come}) turns->note(use(1), kEager);
  came.note(use(2), kEager);
  for (WorkspaceTurns* turns : {&came, &did_not_come}) {
    turns->forget();
    EXPECT_TRUE(turns->needs_fence(use(1), kEager));
    EXPECT_TRUE(enters_behind_a_fence(*turns, use(2), kEager));
    EXPECT_FALSE(enters_behind_a_fence(*turns, use(2), kEager));
  }
}

// A graph may be launched at any time, behind any run, and any number of times.
TEST(WorkspaceTurns, WhatWasCapturedMayRunAtAnyTime) {
  WorkspaceTurns turns;
  const WorkspaceUse a = use(1), b = use(2);
  EXPECT_FALSE(enters_behind_a_fence(turns, a, kEager));
  EXPECT_TRUE(enters_behind_a_fence(turns, a, 7));  // another plan's run may come before the launch
  EXPECT_FALSE(enters_behind_a_fence(turns, a, 7));
  EXPECT_TRUE(enters_behind_a_fence(turns, b, 7));
  EXPECT_TRUE(enters_behind_a_fence(turns, a, kEager));  // b, if the graph was launched
  EXPECT_TRUE(enters_behind_a_fence(turns, a, kEager));  // and again since
  EXPECT_TRUE(enters_behind_a_fence(turns, b, 8));       // another graph
  EXPECT_FALSE(enters_behind_a_fence(turns, b, 8));
}

// A run that was noted and then refused stands for no fence, in a capture neither.
TEST(WorkspaceTurns, AfterARefusalTheNextRunOfACaptureHasAFence) {
  WorkspaceTurns turns;
  const WorkspaceUse a = use(1, 0, 30, true), b = use(2, 30, 60, true), c = use(3, 60, 90, true);
  EXPECT_TRUE(enters_behind_a_fence(turns, a, 7));
  EXPECT_FALSE(enters_behind_a_fence(turns, b, 7));
  turns.forget();
  EXPECT_TRUE(enters_behind_a_fence(turns, c, 7));
  EXPECT_FALSE(enters_behind_a_fence(turns, a, 7));
  EXPECT_TRUE(enters_behind_a_fence(turns, c, kEager));  // the first behind what is not known
  EXPECT_TRUE(turns.needs_fence(use(4, 40, 50, true), kEager));  // a graph may end with b
}

TEST(WorkspaceTurns, BehindGraphsWhoseLastRunsAreFencesElsewhereNoneIsNeeded) {
  WorkspaceTurns turns;
  const WorkspaceUse a = use(1, 0, 30, true), b = use(2, 30, 60, true), c = use(3, 60, 90, true);
  EXPECT_TRUE(enters_behind_a_fence(turns, a, 7));
  EXPECT_FALSE(enters_behind_a_fence(turns, b, 7));
  EXPECT_FALSE(enters_behind_a_fence(turns, a, kEager));  // the graph ends with b
  EXPECT_TRUE(enters_behind_a_fence(turns, b, 8));
  EXPECT_FALSE(enters_behind_a_fence(turns, c, 8));
  EXPECT_FALSE(enters_behind_a_fence(turns, a, kEager));  // graphs end with b and c
  const WorkspaceUse on_b = use(4, 40, 50, true), on_c = use(5, 70, 80, true);
  EXPECT_TRUE(turns.needs_fence(on_b, kEager));
  EXPECT_TRUE(turns.needs_fence(on_c, kEager));
  EXPECT_TRUE(turns.needs_fence(a, 7));  // whoever comes back to a capture knows no more than that
}

TEST(WorkspaceTurns, TheLastPlansAreRemembered) {
  WorkspaceTurns turns;
  const auto begins = [&] {
    std::vector<size_t> found;
    for (const WorkspacePlace& one : turns.recent()) found.push_back(one.bytes.begin);
    return found;
  };
  for (const uint64_t user : {1, 2, 3, 2, 4, 5}) {
    turns.note(use(user, user), user == 2 ? std::nullopt : std::optional<uint64_t>(7));
  }
  EXPECT_EQ(begins(), (std::vector<size_t>{5, 4, 2, 3}));
  turns.forget();
  EXPECT_TRUE(begins().empty());
  turns.note(use(3, 3), kEager);
  EXPECT_EQ(begins(), (std::vector<size_t>{3}));  // what ran before the failure is forgotten
}

// Two plans on the same bytes, A and B, in the place of all that they do there: every rank writes
// to every rank's memory at the end of A's run, and reads all of its own at the begin of B's, which
// writes it too; then comes a fence, then A's next run. All that A's lanes do on a rank comes
// before the fence's lane begins, as runs of a rank follow each other.
Plan turns_of(int ranks) {
  const Operator op = Segment{kGemmAr, ranks, 8, int64_t{8} * ranks, ranks, DType::bf16};
  const Plan fence = fence_plan(op, 132);
  Plan plan = fence;
  plan.signals = {{"behind_a", 1, 1}, {"behind_b", 1, 1}};
  Buffer shared;
  shared.name = "shared";
  shared.role = BufferRole::symmetric;
  shared.rows = ranks;
  shared.cols = 8;
  Buffer own = shared;
  own.name = "own";
  own.role = BufferRole::local;
  Buffer given = shared;
  given.name = "given";
  given.role = BufferRole::input;
  plan.buffers = {shared, own, given};
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Instr>& instrs = plan.lanes[static_cast<size_t>(rank)].instrs;
    const std::vector<Instr> between = instrs;
    instrs.clear();
    const auto region = [&](uint16_t buffer, int of, int row0, int row1) {
      return Region{.row0 = row0,
                    .row1 = row1,
                    .col0 = 0,
                    .col1 = 8,
                    .buffer = buffer,
                    .rank = static_cast<uint16_t>(of)};
    };
    const auto copy = [&](const Region& from, const Region& to) {
      Instr instr;
      instr.op = Opcode::copy;
      instr.first_operand = static_cast<uint32_t>(plan.operands.size());
      instr.num_reads = instr.num_writes = 1;
      plan.operands.insert(plan.operands.end(), {from, to});
      instrs.push_back(instr);
    };
    const auto stand_between = [&](uint16_t array) {
      for (Instr instr : between) {
        instr.signal.array = array;
        instrs.push_back(instr);
      }
    };
    for (int to = 0; to < ranks; ++to)
      copy(region(2, rank, rank, rank + 1), region(0, to, rank, rank + 1));
    stand_between(0);
    copy(region(0, rank, 0, ranks), region(1, rank, 0, ranks));
    stand_between(1);
  }
  return plan;
}

size_t problems(const Plan& plan) { return check(plan, {.fragment = true}).diagnostics.size(); }

TEST(Fence, OrdersWhatPlansDoOnTheSameMemory) {
  for (const int ranks : {1, 2, 3, 8}) {
    const CheckReport report = check(turns_of(ranks), {.fragment = true});
    for (const Diagnostic& one : report.diagnostics) ADD_FAILURE() << one.message;
    EXPECT_GT(report.pairs_proved, 0u);
  }
}

TEST(Fence, WithoutAnyPartOfItTheCheckerSaysSo) {
  const Plan whole = turns_of(3);
  int edits = 0;
  for (size_t lane = 0; lane < whole.lanes.size(); ++lane) {
    for (size_t at = 0; at < whole.lanes[lane].instrs.size(); ++at) {
      const Instr& instr = whole.lanes[lane].instrs[at];
      if (!instr.is_sync()) continue;
      // A rank's notify of itself says what its own lane's order says.
      if (instr.op == Opcode::notify && instr.rank == whole.lanes[lane].rank) continue;
      ++edits;
      Plan edited = whole;
      auto& instrs = edited.lanes[lane].instrs;
      if (instr.op == Opcode::wait) {
        --instrs[at].amount;
        EXPECT_GT(problems(edited), 0u) << "lane " << lane << " waits for less at " << at;
      }
      instrs.erase(instrs.begin() + static_cast<std::ptrdiff_t>(at));
      EXPECT_GT(problems(edited), 0u) << "lane " << lane << " without " << at;
    }
  }
  EXPECT_EQ(edits, 3 * 2 * 3);
}

TEST(Fence, RunsOnGpus) {
  const Plan fence = fence_plan(Segment{kGemmAr, 4, 8, 32, 4, DType::bf16}, 132);
  EXPECT_TRUE(cuda::why_not_on_cuda(fence).empty());
  EXPECT_TRUE(checker::meets_all_ranks(fence));
  EXPECT_EQ(print(parse_plan(print(fence))), print(fence));
}

}  // namespace
}  // namespace stretto::runtime
