// What is proved around kernels of a user's own: who makes a collective is one for all ranks, and
// its regions are waited for as NCCL's are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "edge_kernel_graphs.h"
#include "stretto/check.h"

namespace stretto {
namespace {

using testing::HasSubstr;

Plan ring() { return plan_by_kernel(kRingGraph, "ring_sum", 24, 3); }

template <class Change>
std::string first_report(const Change& change) {
  Plan plan = ring();
  change(plan);
  const CheckReport report = check(plan);
  return report.clean() ? "clean" : report.diagnostics.front().message;
}

TEST(EdgeKernelProofs, HoldForRightPlans) { EXPECT_TRUE(check(ring()).clean()); }

TEST(EdgeKernelProofs, NameRanksThatCallOtherKernels) {
  EXPECT_THAT(first_report([](Plan& plan) {
                for (Lane& lane : plan.lanes) {
                  for (Instr& instr : lane.instrs) {
                    if (lane.rank == 1 && instr.kernel() > 0) instr.set_kernel(0);
                  }
                }
              }),
              HasSubstr("as collective number 0, rank 0 has "));
}

TEST(EdgeKernelProofs, NeedEveryWaitAroundTheCall) {
  size_t waits = 0;
  const Plan plan = ring();
  for (size_t l = 0; l < plan.lanes.size(); ++l) {
    for (size_t i = 0; i < plan.lanes[l].instrs.size(); ++i) {
      if (plan.lanes[l].instrs[i].op != Opcode::wait) continue;
      ++waits;
      EXPECT_NE(first_report([&](Plan& mutant) {
                  auto& instrs = mutant.lanes[l].instrs;
                  instrs.erase(instrs.begin() + static_cast<std::ptrdiff_t>(i));
                }),
                "clean");
    }
  }
  EXPECT_EQ(waits, 3u);
}

}  // namespace
}  // namespace stretto
