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

  // How much longer than they are simulated the products alone are expected to take by these
  // schedules, as measured or, where nothing was measured on them, by what was measured nearby;
  // below 0: shorter. Of a schedule that nothing is known of, by the fastest of its kind; of a kind
  // that nothing is known of, 0.
  double us(const OperatorSchedule& schedule) const;
  // Those that are expected to take product `p` hardly longer than the fastest alone, which is the
  // first of them: where products share SMs, another may be.
  std::vector<Schedule> near_fastest(size_t p) const;

 private:
  struct Known {
    Schedule schedule;
    double us = 0, beyond_us = 0;
  };
  std::vector<std::vector<Known>> by_product_;  // the fastest first
};

}  // namespace stretto
