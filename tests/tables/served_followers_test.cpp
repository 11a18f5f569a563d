// What movers make of a library's products in runs of fewer rows than their plan.
#include <gtest/gtest.h>

#include "launch/plan_fixture.h"
#include "stretto/lower.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

// As the mover kernel reads its tables.
int32_t rows_made(const MoverTable& table, int32_t rows_of_run) {
  const device::RunRows run(rows_of_run, table.rows.owners, table.rows.block);
  int32_t made = 0;
  for (const auto& block : table.blocks) {
    for (const device::MoverTask& task : block) {
      const auto count = static_cast<int32_t>(task.rows);
      EXPECT_NE(task.rows_from.flags & device::kRowsOfAllOwners, 0);
      EXPECT_EQ(task.rows_from.owner, 0);
      made += run.present_of_all(task.rows_from.first, count);
    }
  }
  return made;
}

TEST(ServedFollowers, OfALibrarysProductsMakeTheRowsOfTheRun) {
  const auto graph = parse_graph(
      "graph linear m n k\n"
      "input x [m, k] rows\ninput w [n, k] rows\ninput b [1, n] cols\n"
      "g = gemm x w\ny = bias g b\noutput y cols\n");
  for (const int ranks : {1, 2, 4}) {
    const Operator op = make_graph(graph, {{"m", 128}, {"n", 512}, {"k", 256}}, ranks, DType::bf16);
    const Machine machine = default_machine(ranks);
    const Plan plan = lower(op, parse_schedules("low-latency", op, machine), machine);
    const std::vector<RankProgram> programs = programs_of(plan);
    const SignalLayout signals(plan, programs, true);
    const RankTables tables = tables_for(plan, 0, programs[0], places_of(plan), signals, true);
    ASSERT_EQ(tables.moves.size(), 1u);
    const MoverTable& table = tables.moves[0];
    for (const int32_t rows : {0, 1, 40, 112, 127, 128}) {
      EXPECT_EQ(rows_made(table, rows), rows) << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace stretto::cuda
