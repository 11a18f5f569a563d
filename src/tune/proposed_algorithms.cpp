#include "tune/proposed_algorithms.h"

#include <fmt/format.h>

namespace stretto {

std::vector<NotProposed> not_proposed(std::span<const int> asked, std::span<const int> proposed) {
  std::vector<NotProposed> found;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i] >= proposed[i]) found.push_back({i, asked[i], proposed[i]});
  }
  return found;
}

std::string why_not_proposed(const NotProposed& one, const std::vector<std::string>& names) {
  return fmt::format("{}algorithm={}: cuBLAS proposes {} for a product of this plan: take {}",
                     names.empty() ? "" : names[one.product] + ": ", one.asked, one.proposed,
                     one.proposed == 1 ? "0" : fmt::format("0 to {}", one.proposed - 1));
}

AutoSchedules with_first_algorithms(AutoSchedules chosen, std::span<const NotProposed> of) {
  const std::vector<std::string>& names = chosen.schedule.names;
  for (const NotProposed& one : of) {
    chosen.reason +=
        fmt::format("; with algorithm=0 instead of {}{}, for cuBLAS proposes only {} here",
                    one.asked, names.empty() ? "" : " for " + names[one.product], one.proposed);
    chosen.schedule.products[one.product].algorithm = 0;
  }
  return chosen;
}

}  // namespace stretto
