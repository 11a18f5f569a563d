// Graphs whose tensors have several numbers of rows.
#include <gtest/gtest.h>

#include <algorithm>

#include "op/graph_text.h"
#include "right_plans.h"
#include "stretto/reference.h"

namespace stretto {
namespace {

// Of tensors that have more rows than the others all are compared, too.
TEST(OwnGraphsOfSeveralRowCounts, AreComparedToTheLastRow) {
  const auto graph = parse_graph(
      "graph apart m h q\n"
      "input x [m, h] rows\n"
      "input u [q, h] rows\n"
      "input w [h, h] rows\n"
      "y = silu x\n"
      "z = gelu u\n"
      "p = gemm u w\n"
      "output y rows\n"
      "output z rows\n"
      "output p cols\n");
  const Machine machine = default_machine(2);
  for (const int64_t q : {1, 3, 40, 600}) {
    const Operator op = make_graph(graph, {{"m", 16}, {"h", 16}, {"q", q}}, 2, DType::bf16);
    EXPECT_EQ(rows_to_expect(op), std::max<int64_t>(q, 16));
    for (const Preset& preset : presets()) expect_right(op, preset, machine);
    Plan plan = lower(op, schedule_of(find_preset("tiles"), op, machine), machine);
    for (auto lane = plan.lanes.rbegin(); lane != plan.lanes.rend(); ++lane) {
      const auto last = std::find_if(lane->instrs.rbegin(), lane->instrs.rend(),
                                     [](const Instr& one) { return one.op == Opcode::gelu; });
      if (last == lane->instrs.rend()) continue;
      last->op = Opcode::silu;
      break;
    }
    EXPECT_FALSE(emulate(plan).verified) << q;
  }
}

// What goes with the rows of choices row by row has as many.
TEST(OwnGraphsOfSeveralRowCounts, HaveRowsOfChoicesAheadOfProducts) {
  const auto graph = parse_graph(
      "graph ahead t h f e k\n"
      "input a [t*k, f] cols\n"
      "input ids [t, k] rows i32\n"
      "input weights [t, k] rows fp32\n"
      "input wd [e, h, f] cols\n"
      "s = silu a\n"
      "d = grouped s wd ids\n"
      "y = weigh d ids weights\n"
      "output y rows\n");
  const Operator op =
      make_graph(graph, {{"t", 21}, {"h", 32}, {"f", 32}, {"e", 5}, {"k", 3}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  for (const Preset& preset : presets()) expect_right(op, preset, machine);
}

}  // namespace
}  // namespace stretto
