// Tensors of graphs may be called as plans call what they make on the way.
#include <gtest/gtest.h>

#include "op/graph_text.h"
#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"

namespace stretto {
namespace {

const char* const kGraphs[] = {
    // Gathered rows of y's product.
    "input x [m, h] rows\n"
    "input w [f, h] rows\n"
    "input y_ag [1, f] cols\n"
    "input v [h, f] cols\n"
    "y = gemm x w\n"
    "b = bias y y_ag\n"
    "z = gemm b v\n"
    "output z rows\n",
    "input x [m, h] rows\n"
    "input w [f, h] rows\n"
    "input v [h, f] cols\n"
    "y = gemm x w\n"
    "y_ag = gemm y v\n"
    "output y_ag rows\n",
    // An only product's buffers have no prefix.
    "input x [m, h] rows\n"
    "input w [f, h] rows\n"
    "input ag [1, f] cols\n"
    "y = gemm x w\n"
    "b = bias y ag\n"
    "output b cols\n",
    "input x [m, f] cols\n"
    "input w [h, f] cols\n"
    "input part [1, h] whole\n"
    "y = gemm x w\n"
    "slots = norm y part\n"
    "output slots rows\n",
    // What ranks receive of terms.
    "input x [m, f] cols\n"
    "input w [h, f] cols\n"
    "input y_slots [m, h] rows\n"
    "input nw [1, h] whole\n"
    "y = gemm x w\n"
    "z = add y y_slots\n"
    "n = norm z nw\n"
    "output n whole\n",
    // A rank's own rows of an output that is gathered.
    "input x [m, f] cols\n"
    "input w [h, f] cols\n"
    "input nw [1, h] whole\n"
    "input n_own [m, h] rows\n"
    "y = gemm x w\n"
    "n = norm y nw\n"
    "k = silu n\n"
    "q = add k n_own\n"
    "output n whole\n"
    "output q rows\n",
    // What a part of the rows leaves.
    "input x [m, h] rows\n"
    "input w [f, h] rows\n"
    "input p0_y [h, f] cols\n"
    "y = gemm x w\n"
    "p1_z = gemm y p0_y\n"
    "output p1_z rows\n",
};

void expect_named(const Plan& plan) {
  const auto expect = [&](const std::string& tensor, BufferRole role) {
    const auto buffer = plan.find_buffer(tensor);
    ASSERT_TRUE(buffer) << tensor;
    EXPECT_EQ(plan.buffers[*buffer].role, role) << tensor;
  };
  for (const Tensor& tensor : plan.op.tensors) {
    if (tensor.stage < 0) expect(tensor.name, BufferRole::input);
  }
  for (const auto& output : plan.op.outputs) {
    expect(plan.op.tensor(output.tensor).name, BufferRole::output);
  }
}

class GraphNames : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, GraphNames, testing::ValuesIn(kGraphs));

TEST_P(GraphNames, AreTensorsBeforeTheyAreBuffersOnTheWay) {
  const auto graph = parse_graph(std::string("graph own m h f\n") + GetParam());
  const Operator op = make_graph(graph, {{"m", 24}, {"h", 16}, {"f", 32}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  for (const Preset& preset : presets()) {
    for (const int split : {1, 2}) {
      const OperatorSchedule schedule = schedule_of(preset, op, machine, split);
      SCOPED_TRACE(to_string(schedule) + " of " + GetParam());
      if (!legal(op, schedule, machine).empty()) continue;
      const Plan plan = lower(op, schedule, machine);
      expect_named(plan);
      EXPECT_TRUE(check(plan).clean());
      EXPECT_EQ(emulate(plan).first_wrong, "");
    }
  }
}

}  // namespace
}  // namespace stretto
