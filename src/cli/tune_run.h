// What `tune` measures of one operator, in the order in which results lead to it.
#pragma once

#include <functional>
#include <vector>

#include "cli/bench_run.h"
#include "stretto/tune.h"

namespace stretto::cli {

// All that was measured of an operator.
struct Swept {
  BenchedOperator benched;         // also who took part later, each time
  std::vector<Measured> measured;  // of those that were right every time
  double turn_ms = 0;              // of the last who were measured
  double library_us = 0;
};

// Collective: `choices`, then what is worth a look after them. `progress` hears the share that is
// done, 0..1.
Swept sweep_on_gpus(BenchRun& bench, const Operator& op, const Machine& machine,
                    std::vector<Choice> choices, const runtime::BenchOptions& timing,
                    const std::function<void(double)>& progress);

}  // namespace stretto::cli
