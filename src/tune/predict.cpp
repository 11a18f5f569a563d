#include "tune/predict.h"

#include "core/parallel.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

template <typename Op, typename Schedules>
std::vector<double> simulated(const Op& op, const Schedules& schedules, const Machine& machine,
                              size_t most_threads) {
  std::vector<double> predicted(schedules.size());
  for_each_in_parallel(schedules.size(), most_threads, [&](size_t i) {
    predicted[i] = simulated_us(lower(op, schedules[i], machine), machine);
  });
  return predicted;
}

}  // namespace

std::vector<double> predicted_us(const Segment& op, const std::vector<Schedule>& schedules,
                                 const Machine& machine) {
  constexpr size_t kMostThreads = 32;  // a plan may take hundreds of megabytes
  return simulated(op, schedules, machine, kMostThreads);
}

std::vector<double> predicted_us(const Operator& op, const std::vector<OperatorSchedule>& schedules,
                                 const Machine& machine) {
  constexpr size_t kMostThreads = 16;  // plans of many products take gigabytes
  return simulated(op, schedules, machine, kMostThreads);
}

template <typename Schedules, typename Simulate>
std::vector<double> Predictions::each_once(const std::string& op, const Schedules& schedules,
                                           const Simulate& simulate) {
  std::vector<std::string> names;
  Schedules asked;
  std::vector<std::string> asked_names;
  for (const auto& schedule : schedules) {
    names.push_back(op + " " + to_string(schedule));
    if (!known_.emplace(names.back(), 0).second) continue;
    asked.push_back(schedule);
    asked_names.push_back(names.back());
  }
  const std::vector<double> simulated = simulate(asked);
  for (size_t i = 0; i < asked.size(); ++i) known_[asked_names[i]] = simulated[i];
  std::vector<double> found;
  for (const std::string& name : names) found.push_back(known_.at(name));
  return found;
}

std::vector<double> Predictions::us(const Segment& op, const std::vector<Schedule>& schedules) {
  return each_once(to_string(op), schedules, [&](const std::vector<Schedule>& asked) {
    return predicted_us(op, asked, machine_);
  });
}

// A caller's own graph may have the name of another.
std::vector<double> Predictions::us(const Operator& op,
                                    const std::vector<OperatorSchedule>& schedules) {
  return each_once(print(*op.text) + to_string(op), schedules,
                   [&](const std::vector<OperatorSchedule>& asked) {
                     return predicted_us(op, asked, machine_);
                   });
}

}  // namespace stretto
