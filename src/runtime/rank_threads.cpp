#include "runtime/rank_threads.h"

#include <exception>
#include <thread>
#include <vector>

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

}  // namespace stretto::runtime
