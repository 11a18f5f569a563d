// What was measured of an operator: the library's path and strategies beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/choices.h"
#include "measure/operator_bench.h"

namespace stretto::cli {

struct BenchedStrategy {
  Choice choice;  // refused: nothing else is known
  std::optional<double> predicted_us;
  int compute_sms = 0, comm_sms = 0;  // blocks of a rank, each on an SM of its own
  runtime::PlanTimes measured;

  bool timed() const { return choice.refused.empty() && measured.timed(); }
};

struct BenchedOperator {
  Operator op;
  Machine machine;  // that the plans are for
  runtime::LibraryTimes library;
  double link_floor_us = 0;     // the least bytes that leave a GPU, at the machine file's rate
  double look_up_floor_us = 0;  // the least that look-ups read, at that of its memory
  // Where rows choose experts: the least that all products take at the rates of the machine file,
  // and of what routing that is.
  double expert_floor_us = 0;
  std::string routing = {};
  std::vector<BenchedStrategy> strategies;
  std::string problem = {};  // why nothing was measured

  double alone_us() const;  // the GEMMs by cuBLAS or at the experts' floor, and look-ups at theirs
  double floor_us() const;  // nothing can be faster: link bytes, or what is alone
  const BenchedStrategy* fastest() const;  // null when none was timed
};

}  // namespace stretto::cli
