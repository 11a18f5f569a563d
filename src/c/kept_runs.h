// Runs of fewer rows of a plan, written out when they are asked for.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "stretto/plan.h"
#include "stretto/serve.h"

namespace stretto::c {

// The last ones that were asked for are kept: a server's row counts come again, and each run takes
// as much memory as its plan. Any thread may ask.
class KeptRuns {
 public:
  static constexpr size_t kMost = 16;

  // Throws UsageError where the plan has no such run. It lives as long as somebody has it.
  std::shared_ptr<const Plan> at(const Plan& plan, int64_t rows) {
    const std::lock_guard lock(mutex_);
    for (auto it = runs_.begin(); it != runs_.end(); ++it) {
      if (it->rows != rows) continue;
      runs_.splice(runs_.begin(), runs_, it);
      return it->plan;
    }
    runs_.push_front({rows, std::make_shared<const Plan>(at_rows(plan, rows))});
    if (runs_.size() > kMost) runs_.pop_back();
    return runs_.front().plan;
  }

 private:
  struct Run {
    int64_t rows = 0;
    std::shared_ptr<const Plan> plan;
  };
  std::mutex mutex_;
  std::list<Run> runs_;  // the last one first
};

}  // namespace stretto::c
