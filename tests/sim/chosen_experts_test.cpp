// Of a stack of experts only those that some row takes are read.
#include "sim/chosen_experts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plan/tile_task.h"
#include "sim/calibration.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

struct Predicted {
  Simulation simulation;
  double share = 0;  // of rank 0's stacks
};

Predicted predicted(int64_t t, const std::string& strategy, int ranks = 1,
                    const char* operator_name = "moe-ep") {
  const Operator op = make_operator(
      operator_name, {{"t", t}, {"h", 2048}, {"f", 768}, {"experts", 128}, {"k", 8}}, ranks);
  const Machine machine = default_machine(ranks);
  const Plan plan = lower(op, parse_schedules(strategy, op, machine), machine);
  const sim::ChosenExperts chosen(plan);
  Predicted found{simulate(plan, machine)};
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (lane.rank != 0 || !is_routed_product(instr.op)) continue;
      found.share = chosen.share_of(0, plan.reads(instr).back().buffer);
    }
  }
  return found;
}

// Experts of 2048 x 768 with gate, up and down.
double us_of_weights(double experts) {
  return experts * 3 * 2048 * 768 * 2 / (default_machine(1).hbm_gb_per_s * 1e3 * sim::kExpertsRead);
}

TEST(ChosenExperts, OfOneTokenAreAsManyAsItChooses) {
  for (const char* strategy : {"sequential", "tiles", "library"}) {
    SCOPED_TRACE(strategy);
    const Predicted one = predicted(1, strategy);
    EXPECT_NEAR(one.share, 8.0 / 128, 1e-9);
    EXPECT_GE(one.simulation.compute_us, us_of_weights(8));
    EXPECT_LT(one.simulation.compute_us, 4 * us_of_weights(8));
    const Predicted many = predicted(1024, strategy);
    EXPECT_NEAR(many.share, 1, 1e-9);
    EXPECT_GE(many.simulation.compute_us, us_of_weights(128));
    EXPECT_LT(one.simulation.total_us, 0.5 * many.simulation.total_us);
  }
}

TEST(ChosenExperts, GrowWithTheTokensOfAllRanks) {
  EXPECT_NEAR(predicted(4, "tiles").share, 1 - std::pow(1 - 8.0 / 128, 4), 1e-9);
  // A rank of four has a quarter of the experts, each of which all tokens may choose.
  EXPECT_NEAR(predicted(4, "tiles", 4).share, 1 - std::pow(1 - 8.0 / 128, 4), 1e-9);
  EXPECT_NEAR(predicted(4, "tiles", 4, "moe-tp").share, 1 - std::pow(1 - 8.0 / 128, 4), 1e-9);
}

// Blocks and parts of tokens have partitions of their own, and read the same matrices.
TEST(ChosenExperts, AreThoseOfAllPartitionsOfAStack) {
  const double of_eight = 1 - std::pow(1 - 8.0 / 128, 8);
  EXPECT_NEAR(predicted(8, "tiles").share, of_eight, 1e-9);
  EXPECT_NEAR(predicted(8, "split=2/tiles").share, of_eight, 1e-9);
  EXPECT_NEAR(predicted(8, "tiles,granularity=chunk", 2).share, of_eight, 1e-9);
}

}  // namespace
}  // namespace stretto
