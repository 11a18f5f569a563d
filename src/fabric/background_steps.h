// Steps that run beside each other, and may outlive whoever began them and waits no longer.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

namespace stretto::fabric {

class BackgroundSteps {
 public:
  // step(i) for 0 <= i < count, each on a thread of its own. Nobody ends one that is stuck, so
  // steps own what they touch.
  static std::shared_ptr<BackgroundSteps> start(int count, const std::function<void(int)>& step);

  // Waits until all have ended, or for so long; whether they have.
  bool ended_within(double seconds);
  // Throws the first error of those that have ended.
  void require_no_error();

 private:
  explicit BackgroundSteps(int count) : running_(count) {}

  std::mutex mutex_;
  std::condition_variable changed_;
  int running_;
  std::exception_ptr error_;
};

}  // namespace stretto::fabric
