#include "fabric/background_steps.h"

#include <chrono>
#include <thread>

namespace stretto::fabric {

std::shared_ptr<BackgroundSteps> BackgroundSteps::start(int count,
                                                        const std::function<void(int)>& step) {
  const std::shared_ptr<BackgroundSteps> steps(new BackgroundSteps(count));
  for (int i = 0; i < count; ++i) {
    std::thread([steps, step, i] {
      std::exception_ptr error;
      try {
        step(i);
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(steps->mutex_);
      if (!steps->error_) steps->error_ = error;
      --steps->running_;
      steps->changed_.notify_all();
    }).detach();
  }
  return steps;
}

bool BackgroundSteps::ended_within(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [this] { return running_ == 0; });
}

void BackgroundSteps::require_no_error() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

}  // namespace stretto::fabric
