// Plans of whole operators on a machine of few SMs: that they are proved, come back from their
// text, and compute what the reference says.
#pragma once

#include <gtest/gtest.h>

#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"
#include "stretto/machine.h"
#include "stretto/plan.h"
#include "stretto/schedule.h"

namespace stretto {

inline Machine small_machine(int ranks, int sms = 12) {
  Machine machine = default_machine(ranks);
  machine.sms = sms;
  machine.nccl_sms = 2;
  return machine;
}

// Presets with tiles so small that a few rows are several; those that are legal.
inline std::vector<OperatorSchedule> small_presets(const Operator& op, const Machine& machine) {
  std::vector<OperatorSchedule> all;
  for (const Preset& preset : presets()) {
    OperatorSchedule schedule = schedule_of(preset, op, machine);
    for (Schedule& product : schedule.products) {
      product.comm_sms = product.mover == Mover::comm_blocks ? 3 : 0;
      product.tile_m = 8;
      product.tile_n = 16;
    }
    const bool is_new = std::find(all.begin(), all.end(), schedule) == all.end();
    if (is_new && legal(op, schedule, machine).empty()) all.push_back(schedule);
  }
  return all;
}

inline void expect_proved(const Plan& plan) {
  const CheckReport report = check(plan);
  EXPECT_FALSE(report.truncated);
  EXPECT_TRUE(report.diagnostics.empty()) << report.diagnostics.front().message;
  EXPECT_EQ(print(parse_plan(print(plan))), print(plan));
}

inline void expect_right(const Plan& plan, const EmulateOptions& options) {
  SCOPED_TRACE(std::string(to_string(options.fill)) + ", " +
               std::string(to_string(options.routing.kind)) + " " + plan.schedule);
  const EmulateResult result = emulate(plan, options);
  ASSERT_TRUE(result.finished);
  ASSERT_TRUE(result.faults.empty()) << result.faults.front().text;
  ASSERT_TRUE(result.verified) << result.first_wrong;
  ASSERT_TRUE(result.ranks_agree);
}

}  // namespace stretto
