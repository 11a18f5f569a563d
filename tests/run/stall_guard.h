// Ends a test that hangs, saying where: nothing else tells that from one that takes long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace stretto {

class StallGuard {
 public:
  // No step may take longer.
  explicit StallGuard(std::chrono::milliseconds most = std::chrono::seconds(90))
      : most_(most), thread_([this] { watch(); }) {}
  ~StallGuard() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  StallGuard(const StallGuard&) = delete;
  StallGuard& operator=(const StallGuard&) = delete;

  // What the test does from now on.
  void at(const std::string& step) {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    std::printf("[ %6.1f s ] %s\n", std::chrono::duration<double>(now - start_).count(),
                step.c_str());
    std::fflush(stdout);
    step_ = step;
    since_ = now;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void watch() {
    std::unique_lock lock(mutex_);
    while (!is_over_) {
      if (Clock::now() - since_ < most_) {
        changed_.wait_until(lock, since_ + most_);
        continue;
      }
      std::fprintf(stderr, "this test hangs: %lld ms at: %s\n",
                   static_cast<long long>(most_.count()), step_.c_str());
      std::abort();
    }
  }

  const std::chrono::milliseconds most_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point since_ = start_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string step_ = "the beginning";
  bool is_over_ = false;
  std::thread thread_;  // begins when all else is there
};

}  // namespace stretto
