// What a kernel of a user's own is charged: what its graph says, or its bytes at the links' rate.
#include <gtest/gtest.h>

#include "edge_kernel_graphs.h"
#include "sim/costs.h"

namespace stretto {
namespace {

double call_us(const std::string& graph, int ranks) {
  const Operator op = operator_of(graph, 4096, ranks, DType::bf16, "k");
  const Machine machine = default_machine(ranks);
  const Plan plan = lower(op, parse_schedules("sequential,kernel=k", op, machine), machine);
  const sim::Costs costs(plan, machine);
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.kernel() == 0) continue;
      const Plan::Joined joined = plan.joined_by(instr, lane.rank);
      return costs.collective_launch_us(instr, joined) + costs.collective_us(instr, joined);
    }
  }
  return 0;
}

std::string with_us(std::string graph) {
  const std::string at = "\"KERNEL.h\"";
  return graph.replace(graph.find(at), at.size(), at + " us=123.5");
}

TEST(EdgeKernelCosts, AreWhatTheGraphSays) {
  for (const char* graph : {kRingGraph, kGatherGraph, kScatterGraph}) {
    EXPECT_DOUBLE_EQ(call_us(with_us(graph), 4), 123.5);
  }
}

TEST(EdgeKernelCosts, AreElseTheBytesThatLeaveARank) {
  const Machine machine = default_machine(4);
  const double start = machine.chained_launch_us + machine.signal_us;
  const auto moved = [&](double bytes) { return sim::move_us(bytes, machine.link_gb_per_s); };
  EXPECT_DOUBLE_EQ(call_us(kGatherGraph, 4), start + moved(0.75 * 4096 * 32 * 2));
  EXPECT_DOUBLE_EQ(call_us(kScatterGraph, 4), start + moved(0.75 * 4096 * 32 * 2));
  EXPECT_DOUBLE_EQ(call_us(kRingGraph, 4),
                   start + moved(2 * 0.75 * 4096 * 48 * 2) + machine.signal_us);
}

}  // namespace
}  // namespace stretto
