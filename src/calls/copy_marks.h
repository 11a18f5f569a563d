// Which of many copies of streams that are ordered with one another have been made: an event marks
// several, since to record one takes the host a third of what a copy does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "gpu/device.h"

namespace stretto::runtime {

template <typename Event = cuda::Event>
class CopyMarks {
 public:
  // An event for so many copies.
  explicit CopyMarks(size_t copies) : copies_(copies) {}

  // A copy was enqueued: its number, from 1 on.
  template <typename Stream>
  uint64_t note(const Stream& stream) {
    if (++last_ % copies_ != 0) return last_;
    std::unique_ptr<Event> event;
    if (spare_.empty()) {
      event = std::make_unique<Event>(false);
    } else {
      event = std::move(spare_.back());
      spare_.pop_back();
    }
    event->record(stream);
    marks_.push_back({std::move(event), last_});
    return last_;
  }

  // False, too, where no event tells yet.
  bool is_made(uint64_t copy) {
    while (copy > made_ && !marks_.empty() && marks_.front().event->has_passed()) {
      made_ = marks_.front().copy;
      spare_.push_back(std::move(marks_.front().event));
      marks_.pop_front();
    }
    return copy <= made_;
  }

 private:
  struct Mark {
    std::unique_ptr<Event> event;
    uint64_t copy = 0;  // and all before it
  };
  size_t copies_;
  uint64_t last_ = 0, made_ = 0;
  std::deque<Mark> marks_;
  std::vector<std::unique_ptr<Event>> spare_;
};

}  // namespace stretto::runtime
