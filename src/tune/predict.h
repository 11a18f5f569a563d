// Simulated times of many schedules.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "stretto/machine.h"
#include "stretto/operator.h"
#include "stretto/schedule.h"
#include "stretto/segment.h"

namespace stretto {

// By schedule, on all cores of this machine. Every schedule can serve the operator.
std::vector<double> predicted_us(const Segment& op, const std::vector<Schedule>& schedules,
                                 const Machine& machine);
std::vector<double> predicted_us(const Operator& op, const std::vector<OperatorSchedule>& schedules,
                                 const Machine& machine);

// The same, each simulated once: for choices that ask about the same operators.
class Predictions {
 public:
  explicit Predictions(const Machine& machine) : machine_(machine) {}

  std::vector<double> us(const Segment& op, const std::vector<Schedule>& schedules);
  std::vector<double> us(const Operator& op, const std::vector<OperatorSchedule>& schedules);

 private:
  template <typename Schedules, typename Simulate>
  std::vector<double> each_once(const std::string& op, const Schedules& schedules,
                                const Simulate& simulate);

  const Machine& machine_;
  std::map<std::string, double> known_;  // by operator and schedule
};

}  // namespace stretto
