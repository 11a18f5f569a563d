#include "core/forks.h"

#include <pthread.h>

#include <atomic>

namespace stretto {
namespace {

std::atomic<int> forks = 0;

}  // namespace

int num_forks() {
  static const int once =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(once);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace stretto
