#include "tune/predict.h"

#include "core/parallel.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {

std::vector<double> predicted_us(const Operator& op, const std::vector<Schedule>& schedules,
                                 const Machine& machine) {
  constexpr size_t kMostThreads = 32;  // a plan may take hundreds of megabytes
  std::vector<double> predicted(schedules.size());
  for_each_in_parallel(schedules.size(), kMostThreads, [&](size_t i) {
    predicted[i] = simulate(lower(op, schedules[i], machine), machine).total_us;
  });
  return predicted;
}

}  // namespace stretto
