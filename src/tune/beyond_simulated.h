// Operators of several products: what is known of each of them alone, beyond what is simulated.
#pragma once

#include <vector>

#include "tune/predict.h"
#include "tune/weighed.h"

namespace stretto {

class BeyondSimulated {
 public:
  // Of products with fixed rows.
  BeyondSimulated(const Operator& op, const Machine& machine, const Tuning& tuning,
                  Predictions& predictions);

  // How much longer than they are simulated the products alone take by these schedules, where they
  // were measured; below 0: shorter. Of a schedule that was not, by the fastest of its kind that
  // was; 0 where none was. What was measured nearby says too little of a mixture.
  double us(const OperatorSchedule& schedule) const;
  // Those that are expected to take product `p` hardly longer than the fastest alone, which is the
  // first of them: where products share SMs, another may be.
  std::vector<Schedule> near_fastest(size_t p) const;

 private:
  struct Known {
    Schedule schedule;
    double us = 0, beyond_us = 0;
    bool is_measured = false;
  };
  std::vector<std::vector<Known>> by_product_;  // the fastest first
};

}  // namespace stretto
