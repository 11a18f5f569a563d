#include "schedule/reason_of_names.h"

#include <fmt/format.h>

#include "core/text.h"

namespace stretto {

std::string reason_of_names(const std::vector<SaidOfProduct>& products) {
  std::vector<std::string> reasons;
  for (const SaidOfProduct& one : products) {
    if (one.why_tiles.empty()) continue;
    reasons.push_back(fmt::format("{} by tiles: {}", one.name, one.why_tiles));
  }
  return join(reasons, "; ");
}

}  // namespace stretto
