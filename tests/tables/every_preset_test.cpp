// What holds of the programs, tables and NCCL calls of every preset, on sizes that do not divide.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "launch/plan_fixture.h"
#include "launch/rank_program.h"
#include "tables/collectives.h"
#include "tables/plan_limits.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

using testing::IsEmpty;

struct Case {
  std::string op, schedule;
};

class EveryPreset : public testing::TestWithParam<Case> {};

// Every task of the plan is in exactly one place of the programs.
TEST_P(EveryPreset, ProgramsDoEveryTaskOnce) {
  const Plan plan = plan_of(GetParam().op, GetParam().schedule);
  const auto programs = programs_of(plan);
  std::multiset<std::pair<uint32_t, uint32_t>> done;
  for (const RankProgram& program : programs) {
    std::set<std::pair<uint32_t, uint32_t>> ordered(program.order.begin(), program.order.end());
    size_t steps = 0;
    for (const StepStream& stream : program.streams) steps += stream.steps.size();
    EXPECT_EQ(ordered.size(), steps);
    for (const StepStream& stream : program.streams) {
      for (const Step& step : stream.steps) {
        if (step.kind == StepKind::copy || step.kind == StepKind::collective) {
          done.insert({step.lane, step.position});
        }
      }
    }
    for (const auto* kernels : {&program.gemms, &program.moves}) {
      for (const auto& blocks : *kernels) {
        for (const BlockPart& part : blocks) {
          for (uint32_t i = part.begin; i < part.end; ++i) done.insert({part.lane, i});
        }
      }
    }
  }
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (uint32_t i = 0; i < plan.lanes[lane].instrs.size(); ++i) {
      const Instr& instr = plan.lanes[lane].instrs[i];
      if (!instr.is_task() || instr.op == Opcode::deliver) continue;
      EXPECT_EQ(done.count({lane, i}), 1u) << print(plan, plan.lanes[lane], instr);
    }
  }
}

TEST_P(EveryPreset, TablesStayInsideTheirBuffers) {
  const Plan plan = plan_of(GetParam().op, GetParam().schedule);
  ASSERT_THAT(why_not_on_cuda(plan), IsEmpty());
  const auto programs = programs_of(plan);
  const SignalLayout signals(plan, programs, true);
  const BufferPlaces places = places_of(plan);
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const RankProgram& program = programs[static_cast<size_t>(rank)];
    const RankTables tables = tables_for(plan, rank, program, places, signals);
    for (const GemmLaunch& launch : tables.gemms) {
      const size_t num_maps = launch.maps.size() / launch.table.map_sets;
      for (const auto& block : launch.table.blocks) {
        for (const device::GemmTask& task : block) {
          ASSERT_LT(task.a_map, num_maps);
          if (task.num_k != 0) {
            EXPECT_EQ(launch.maps[task.a_map].use, MapSpec::Use::a);
            EXPECT_EQ(launch.maps[task.b_map].use, MapSpec::Use::b);
            EXPECT_LT(task.a_row, launch.maps[task.a_map].matrix.rows);
            EXPECT_LT(task.b_row, launch.maps[task.b_map].matrix.rows);
          }
          EXPECT_GT(task.num_destinations, 0);
          for (uint32_t d = 0; d < task.num_destinations; ++d) {
            const device::GemmDestination& to =
                launch.table.destinations[task.first_destination + d];
            ASSERT_LT(to.map, num_maps);
            EXPECT_EQ(launch.maps[to.map].use, MapSpec::Use::store);
            // A store may end beyond its map, never begin above it.
            EXPECT_GE(to.row + to.begin, 0);
            EXPECT_LT(to.row + to.begin, launch.maps[to.map].matrix.rows);
            EXPECT_LT(to.begin, to.end);
            EXPECT_LE(to.end, launch.config.tile_m);
            EXPECT_LT(to.column, launch.maps[to.map].matrix.columns);
          }
        }
      }
    }
    for (const StepStream& stream : program.streams) {
      for (const Step& step : stream.steps) {
        if (step.kind != StepKind::collective) continue;
        const auto calls = nccl_calls(plan, step.lane, step.position, places, 0);
        EXPECT_FALSE(calls.empty());
        for (const NcclCall& call : calls) EXPECT_GT(call.count, 0);
      }
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* kind : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
    for (const char* preset :
         {"sequential", "decomposed", "two-chunk", "waves", "tiles", "slices",
          "decomposed,reuse=double", "decomposed,chunks=3", "tiles,mover=copy-engine,reuse=ack"}) {
      for (const char* sizes : {"m=512 n=512 k=512 ranks=2", "m=517 n=960 k=576 ranks=3",
                                "m=2000 n=1088 k=832 ranks=4", "m=1030 n=1600 k=1600 ranks=8",
                                // Fewer rows than ranks.
                                "m=2 n=960 k=576 ranks=3", "m=3 n=1600 k=1600 ranks=8"}) {
        const std::string op = fmt::format("{} {} dtype=bf16", kind, sizes);
        const Segment parsed = parse_segment(op);
        if (problems(parsed).empty()) all.push_back({op, preset});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, EveryPreset, testing::ValuesIn(cases()),
                         [](const auto& i) { return name_of_case(i); });

}  // namespace
}  // namespace stretto::cuda
