// What `auto` chooses from, for people who ask why.
#pragma once

#include <vector>

#include "stretto/tune.h"
#include "tune/predict.h"

namespace stretto {

struct WeighedSchedule {
  Schedule schedule;
  double us = 0;  // measured on the operator; else expected, by simulation and what is near
  bool is_measured = false;
};

// Of auto_schedule() with fixed rows, the fastest first. Where nothing was measured on the operator
// it simulates as much as that does.
std::vector<WeighedSchedule> weighed_schedules(const Segment& op, const Machine& machine,
                                               const Tuning& tuning);
std::vector<WeighedSchedule> weighed_schedules(const Segment& op, const Machine& machine,
                                               const Tuning& tuning, Predictions& predictions);

}  // namespace stretto
