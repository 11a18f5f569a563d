#include "measure/refusal.h"

#include "stretto/error.h"

namespace stretto::runtime {

std::string refusal_of(fabric::HostGroup& group, const std::function<void()>& step) {
  constexpr size_t kMostRefusal = 1000;  // characters
  std::string mine, told;
  try {
    step();
  } catch (const UsageError& error) {
    mine = fabric::one_line(error.what(), kMostRefusal);
  }
  for (const std::string& one : group.all_gather("whether a plan is refused", mine)) {
    if (told.empty()) told = fabric::one_line(one, 2 * kMostRefusal);
  }
  return told;
}

}  // namespace stretto::runtime
