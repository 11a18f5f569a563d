#include "tune/predict.h"

#include "core/parallel.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {

std::vector<double> predicted_us(const Segment& op, const std::vector<Schedule>& schedules,
                                 const Machine& machine) {
  constexpr size_t kMostThreads = 32;  // a plan may take hundreds of megabytes
  std::vector<double> predicted(schedules.size());
  for_each_in_parallel(schedules.size(), kMostThreads, [&](size_t i) {
    predicted[i] = simulate(lower(op, schedules[i], machine), machine).total_us;
  });
  return predicted;
}

std::vector<double> Predictions::us(const Segment& op, const std::vector<Schedule>& schedules) {
  std::vector<std::string> names;
  std::vector<Schedule> asked;
  std::vector<std::string> asked_names;
  for (const Schedule& schedule : schedules) {
    names.push_back(to_string(op) + " " + to_string(schedule));
    if (!known_.emplace(names.back(), 0).second) continue;
    asked.push_back(schedule);
    asked_names.push_back(names.back());
  }
  const std::vector<double> simulated = predicted_us(op, asked, machine_);
  for (size_t i = 0; i < asked.size(); ++i) known_[asked_names[i]] = simulated[i];
  std::vector<double> found;
  for (const std::string& name : names) found.push_back(known_.at(name));
  return found;
}

}  // namespace stretto
