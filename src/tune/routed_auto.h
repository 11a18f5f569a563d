// Rows that choose experts: nothing is tuned of them, so presets are simulated.
#pragma once

#include <string>
#include <vector>

#include "stretto/tune.h"
#include "tune/predict.h"

namespace stretto {

// Whether some product takes its rows or matrices by tables.
bool any_by_tables(const Operator& op);

struct RoutedContender {
  std::string name;
  OperatorSchedule schedule;
  double us = 0;
};
// What may be the fastest, by simulation, the fastest first; of ways of whole products that are
// simulated alike, what was faster when measured, and of rows alone what goes by ids. A single one
// is not simulated.
std::vector<RoutedContender> routed_contenders(const Operator& op, const Machine& machine,
                                               RowCount rows, Predictions& predictions);

AutoSchedules routed_schedules(const Operator& op, const Machine& machine, RowCount rows,
                               Predictions& predictions);

}  // namespace stretto
