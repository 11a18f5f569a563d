// Operators whose rows choose, experts or rows of tables, on this machine's GPUs and under routings
// of every sort.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gpu_plans.h"
#include "lower/plan_of.h"
#include "measure/gpu_check.h"
#include "tables/plan_limits.h"

namespace stretto::runtime {

struct RoutingCase {
  std::string op, schedule;
  int ranks;
  const char* dtype = "bf16";
  friend void PrintTo(const RoutingCase& c, std::ostream* out) {
    *out << c.op << " " << c.schedule << " " << c.ranks;
  }
};

inline Plan plan_of(const RoutingCase& c) {
  const Operator op = parse_operator(fmt::format("{} ranks={} dtype={}", c.op, c.ranks, c.dtype));
  const Machine machine = machine_here(c.ranks);
  return lower(op, parse_schedules(c.schedule, op, machine), machine);
}

// Why the plan, which GPUs can run, cannot run here; empty when it can.
inline std::string why_no_case(const Plan& plan) {
  if (cuda::ranks_a_gpu() > 1) {
    if (std::string why = why_not_shared_here(plan); !why.empty()) return why;
  }
  return why_not_here(plan.ranks());
}

// What is known of all cases without a GPU.
inline void expect_all_can_run(const std::vector<RoutingCase>& cases) {
  for (const RoutingCase& one : cases) {
    EXPECT_EQ(join(cuda::why_not_on_cuda(plan_of(one)), "; "), "") << testing::PrintToString(one);
  }
}

inline constexpr RoutingKind kRoutings[] = {RoutingKind::uniform, RoutingKind::zipf,
                                            RoutingKind::one_hot, RoutingKind::adversarial};

inline GpuCheckResult expect_right(PlanRunner& runner, const Routing& routing = {}) {
  GpuCheckOptions options;
  options.routing = routing;
  options.runs = 2;
  options.replays = 5;  // some of which begin with a poisoned output
  GpuCheckResult result = check_on_gpus(runner, shared_fabric(runner.plan().ranks()), options);
  EXPECT_EQ(result.fault, "");
  EXPECT_EQ(result.wrong_elements, 0) << result.first_wrong;
  EXPECT_LT(result.worst_error, 1);
  EXPECT_TRUE(result.reproducible);
  return result;
}

// Of 6 experts, or rows of a table: all of them and -1 in turn, but for those at `bad`, which are
// far behind the last one.
inline Routing routing_with_bad(int rows, int top_k, std::initializer_list<int> bad) {
  const auto table = std::make_shared<RoutingTable>();
  table->top_k = top_k;
  for (int choice = 0; choice < rows * top_k; ++choice) table->ids.push_back(choice % 7 - 1);
  for (const int at : bad) table->ids.at(static_cast<size_t>(at)) = 6 + at * 1000;
  return {.table = table};
}

}  // namespace stretto::runtime
