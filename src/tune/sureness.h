// How sure a choice of `auto` is.
#pragma once

#include <string>
#include <vector>

#include "stretto/tune.h"

namespace stretto {

// With fewer rows low-latency collectives lead, and waves of tiles decide little.
inline constexpr int64_t kFewRows = 512;

// By the spread of what was measured on the operator itself.
Sureness sure_by_measurement(const Measured& measured);

// Of a choice by what was measured elsewhere. `reach`: of the nearest measurement (nearness.h),
// HUGE_VAL where there is none; `lead`: how much longer the best schedule that works in another way
// is expected to take, as a share.
Sureness sure_elsewhere(const Segment& op, double reach, double lead);

// What is expected of a schedule: a time, or anything that stands for one.
struct Expectation {
  Schedule schedule;
  double us = 0;
};
// The lead of `best` over the others; 1 and more where nothing works in another way.
double lead_of(const Schedule& best, double best_us, const std::vector<Expectation>& all);

// `reason`, and how sure it is.
AutoSchedule with_sureness(AutoSchedule chosen, const Sureness& sureness);

}  // namespace stretto
