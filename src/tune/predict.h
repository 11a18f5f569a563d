// Simulated times of many schedules of one operator.
#pragma once

#include <vector>

#include "stretto/machine.h"
#include "stretto/operator.h"
#include "stretto/schedule.h"

namespace stretto {

// By schedule, on all cores of this machine. Every schedule can serve the operator.
std::vector<double> predicted_us(const Operator& op, const std::vector<Schedule>& schedules,
                                 const Machine& machine);

}  // namespace stretto
