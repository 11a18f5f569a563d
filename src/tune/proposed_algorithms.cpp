#include "tune/proposed_algorithms.h"

#include <fmt/format.h>

namespace stretto {

std::optional<int> algorithm_to_take(int asked, int proposed, IfNotProposed otherwise) {
  if (asked < proposed) return asked;
  if (otherwise == IfNotProposed::take_first) return 0;
  return std::nullopt;
}

std::string why_not_proposed(int asked, int proposed) {
  return fmt::format("algorithm={}: cuBLAS proposes {} for a product of this plan: take {}", asked,
                     proposed, proposed == 1 ? "0" : fmt::format("0 to {}", proposed - 1));
}

AutoSchedule with_first_algorithm(AutoSchedule chosen, int proposed) {
  chosen.reason += fmt::format("; with algorithm=0 instead of {}, for cuBLAS proposes only {} here",
                               chosen.schedule.algorithm, proposed);
  chosen.schedule.algorithm = 0;
  return chosen;
}

}  // namespace stretto
