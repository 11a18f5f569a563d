// Plans of teams on GPUs: they are taken, and NCCL moves what is a team's between its ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "gpu/compiler_fixture.h"
#include "launch/plan_fixture.h"
#include "op/team_graphs.h"
#include "stretto/error.h"
#include "tables/collectives.h"
#include "tables/kernel_set.h"
#include "tables/low_latency.h"
#include "tables/plan_limits.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Whole rows of a team that are added up, and columns that their owners put together.
constexpr char kSums[] =
    "input x [m, f] cols of tp\n"
    "input w [h, f] cols of tp\n"
    "input r [m, h] whole of tp\n"
    "input v [1, h] whole of tp\n"
    "input c [m, h] cols of tp\n"
    "input p [f, h] whole\n"
    "y = gemm x w\n"
    "s = add y r\n"
    "n = norm s v\n"
    "q = gemm c p\n"
    "output n whole of tp\n"
    "output q rows\n";

Plan plan_of_teams(const char* lines, const std::string& schedule, int64_t team, int ranks) {
  const Operator op = op_in_teams(lines, {48 * ranks, 512, 1024}, team, ranks);
  const Machine machine = default_machine(ranks);
  return lower(op, parse_schedules(schedule, op, machine), machine);
}

TEST(TeamPlans, RunOnGpus) {
  for (const char* graph : {kMlpInTeams, kSums}) {
    for (const char* schedule :
         {"sequential", "decomposed", "two-chunk", "waves", "tiles", "slices", "library",
          "low-latency", "split=2/sequential", "split=2/tiles", "split=3/library"}) {
      for (const auto& [team, ranks] : {std::pair{2, 4}, {4, 8}, {2, 8}}) {
        const bool stands_between = graph == kSums && schedule == std::string_view("waves");
        if (stands_between) continue;  // all-to-alls by NCCL do, and waves have no end
        const Plan plan = plan_of_teams(graph, schedule, team, ranks);
        SCOPED_TRACE(fmt::format("{} {}", to_string(plan.op), plan.schedule));
        ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
        const std::vector<RankProgram> programs = programs_of(plan);
        const SignalLayout signals(plan, programs, true);
        const BufferPlaces places = places_of(plan);
        for (int rank = 0; rank < ranks; ++rank) {
          tables_for(plan, rank, programs[static_cast<size_t>(rank)], places, signals);
        }
      }
    }
  }
}

// Calls of a rank, and where they read and write: the rank whose memory that is.
struct Made {
  std::vector<NcclCall> calls;
  std::vector<int> ranks;
};
Made made_by(const Plan& plan, int rank) {
  const BufferPlaces places = places_of(plan);
  Made made;
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const auto& instrs = plan.lanes[l].instrs;
    for (uint32_t at = 0; at < instrs.size() && plan.lanes[l].rank == rank; ++at) {
      if (instrs[at].op != Opcode::collective) continue;
      for (const NcclCall& call : nccl_calls(plan, l, at, places, 0)) {
        made.calls.push_back(call);
        for (const DevicePtr address : {call.from, call.to}) {
          if (address != 0) made.ranks.push_back(static_cast<int>(address >> 56) - 1);
        }
      }
    }
  }
  return made;
}

TEST(TeamCalls, AreOfTheTeamAndOfOwnMemory) {
  const Plan plan = plan_of_teams(kMlpInTeams, "sequential", 2, 6);
  for (int rank = 0; rank < 6; ++rank) {
    const Made made = made_by(plan, rank);
    ASSERT_EQ(made.calls.size(), 2u);
    EXPECT_EQ(made.calls[0].kind, NcclCall::Kind::all_gather);
    EXPECT_EQ(made.calls[0].count, 48 * 512);
    EXPECT_EQ(made.calls[1].kind, NcclCall::Kind::reduce_scatter);
    EXPECT_EQ(made.calls[1].count, 48 * 512);
    for (const NcclCall& call : made.calls) EXPECT_EQ(call.team, 2);
    EXPECT_THAT(made.ranks, testing::Each(rank));
  }
}

// Whom a rank sends to and receives from is counted from the first of its team.
TEST(TeamCalls, OfExchangesMatchOnBothSides) {
  const Plan plan = plan_of_teams(kSums, "sequential", 2, 6);
  std::map<std::pair<int, int>, std::vector<int64_t>> sent, received;
  for (int rank = 0; rank < 6; ++rank) {
    for (const NcclCall& call : made_by(plan, rank).calls) {
      if (call.kind == NcclCall::Kind::all_reduce) continue;
      EXPECT_EQ(call.team, 2);
      EXPECT_LT(call.root, 2);
      const int other = rank / 2 * 2 + call.root;
      if (call.kind == NcclCall::Kind::send) sent[{rank, other}].push_back(call.count);
      if (call.kind == NcclCall::Kind::receive) received[{other, rank}].push_back(call.count);
    }
  }
  EXPECT_EQ(sent.size(), 12u);
  EXPECT_EQ(sent, received);
}

TEST(TeamCalls, AreRefusedWhereTheDeviceLanguageMakesThem) {
  Plan plan = plan_of_teams(kMlpInTeams, "library", 2, 4);
  plan.low_latency_collectives = true;
  EXPECT_THAT(why_not_on_cuda(plan),
              ElementsAre("collectives low-latency: they are of all ranks, and these of teams of "
                          "2: take collectives=nccl"));
}

class GpuCompileTeams : public NeedsCompiler {};

// A team's kernels are those of so few ranks.
TEST_F(GpuCompileTeams, KernelsDoNotSpill) {
  for (const KernelEntry& kernel :
       kernels_of(plan_of_teams(kMlpInTeams, "tiles", 2, 4), "sm_90a")) {
    expect_no_spills_in_time(kernel.name, kernel.source, "sm_90a");
  }
}

}  // namespace
}  // namespace stretto::cuda
