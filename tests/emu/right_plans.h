// Whether what a preset makes of an operator is proved, and right on the emulator.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"

namespace stretto {

// Of a preset that cannot serve it nothing is asked.
inline void expect_right(const Operator& op, const Preset& preset, const Machine& machine,
                         int split = 1) {
  OperatorSchedule schedule = schedule_of(preset, op, machine);
  schedule.split = split;
  SCOPED_TRACE(std::string(preset.name) + " " + to_string(op));
  if (!legal(op, schedule, machine).empty()) return;
  const Plan plan = lower(op, schedule, machine);
  EXPECT_TRUE(check(plan).clean());
  EXPECT_EQ(emulate(plan).first_wrong, "");
}

}  // namespace stretto
