// What movers make of a library's products in runs of fewer rows than their plan.
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/plan_fixture.h"
#include "stretto/lower.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

TEST(ServedFollowers, OfALibrarysProductsMakeTheRowsOfTheRun) {
  const auto graph = parse_graph(
      "graph linear m n k\n"
      "input x [m, k] rows\ninput w [n, k] rows\ninput b [1, n] cols\n"
      "g = gemm x w\ny = bias g b\noutput y cols\n");
  const Operator op = make_graph(graph, {{"m", 64}, {"n", 512}, {"k", 256}}, 1, DType::bf16);
  const Machine machine = default_machine(1);
  const Plan plan = lower(op, parse_schedules("library", op, machine), machine);
  const std::vector<RankProgram> programs = programs_of(plan);
  const SignalLayout signals(plan, programs, true);
  const RankTables tables = tables_for(plan, 0, programs[0], places_of(plan), signals, true);
  ASSERT_TRUE(tables.gemms.empty());
  ASSERT_EQ(tables.moves.size(), 1u);
  const device::RowsOfRun& rows = tables.moves[0].rows;
  EXPECT_EQ(rows.block, 64);
  EXPECT_EQ(rows.owners, 1);
  int32_t next = 0;  // row of the plan
  for (const auto& block : tables.moves[0].blocks) {
    for (const device::MoverTask& task : block) {
      const device::RunRows run(40, rows.owners, rows.block);
      const auto count = static_cast<int32_t>(task.rows);
      EXPECT_EQ(task.rows_from.first, next);
      EXPECT_EQ(run.present(task.rows_from.owner, task.rows_from.first, count),
                std::clamp(40 - next, 0, count));
      next += count;
    }
  }
  EXPECT_EQ(next, 64);
}

}  // namespace
}  // namespace stretto::cuda
