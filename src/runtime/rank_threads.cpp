#include "runtime/rank_threads.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>

#include "stretto/error.h"

namespace stretto::runtime {

void on_rank_threads(const fabric::Fabric& fabric, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> failures(static_cast<size_t>(fabric.num_local()));
  for (int i = 0; i < fabric.num_local(); ++i) {
    threads.emplace_back([&, i] {
      const int rank = fabric.first_rank() + i;
      try {
        fabric.device(rank).make_current();
        work(rank);
      } catch (...) {
        failures[static_cast<size_t>(i)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

std::vector<double> largest(fabric::Fabric& fabric, std::string_view what,
                            std::vector<double> mine) {
  if (fabric.group().size() == 1) return mine;
  const size_t num_bytes = mine.size() * sizeof(double);
  const auto all = fabric.group().all_gather(
      what, std::string_view(reinterpret_cast<const char*>(mine.data()), num_bytes));
  for (const std::string& bytes : all) {
    if (bytes.size() != num_bytes) {
      throw SystemError("the processes of this job do not measure the same: start one program");
    }
    for (size_t i = 0; i < mine.size(); ++i) {
      double value = 0;
      std::memcpy(&value, bytes.data() + i * sizeof(double), sizeof(double));
      mine[i] = std::max(mine[i], value);
    }
  }
  return mine;
}

}  // namespace stretto::runtime
