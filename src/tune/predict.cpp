#include "tune/predict.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {

std::vector<double> predicted_us(const Operator& op, const std::vector<Schedule>& schedules,
                                 const Machine& machine) {
  std::vector<double> predicted(schedules.size());
  std::vector<std::exception_ptr> failures(schedules.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < schedules.size(); i = next++) {
      try {
        predicted[i] = simulate(lower(op, schedules[i], machine), machine).total_us;
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  // A plan may take hundreds of megabytes.
  constexpr size_t kMostThreads = 32;
  const size_t cores = std::max<size_t>(1, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min({cores, kMostThreads, schedules.size()}); ++i) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return predicted;
}

}  // namespace stretto
