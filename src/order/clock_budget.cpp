#include "order/clock_budget.h"

#include <unistd.h>

#include <string>

#include "stretto/error.h"

namespace stretto {

size_t third_of_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  constexpr size_t kUnknown = size_t{4} << 30;
  if (pages <= 0 || bytes <= 0) return kUnknown;
  return static_cast<size_t>(pages) / 3 * static_cast<size_t>(bytes);
}

void ClockBudget::look(const LaneClocks& clocks) {
  events_ += events_ / 4 + 4096;
  events_to_look_ = events_ / 4 + 4096;
  if (clocks.num_bytes() <= most_bytes_) return;
  throw UsageError(std::string("the plan is too large to ") + what_ +
                   ": its lanes know too much of each other; fewer ranks, or larger chunks, slices "
                   "or tiles make fewer events");
}

}  // namespace stretto
