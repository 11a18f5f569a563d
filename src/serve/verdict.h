// What rank 0's process says of an operator's times to the others; it travels as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/tune.h"

namespace stretto {

struct Verdict {
  // keep: rank 0's process has failed to choose, and each does by itself.
  enum class Kind : uint8_t { keep, take, measure };
  // A schedule as it was chosen: no process chooses again, by what its own files say.
  struct Chosen {
    std::string schedule, reason;
    Sureness sureness;
  };
  Kind kind = Kind::keep;
  Chosen chosen;  // of `measure` what is taken where nothing can be measured
  // Of `measure`: of runs, and what choosing took.
  double budget_ms = 0, chosen_ms = 0;
  std::vector<std::string> schedules;
};

std::string to_string(const Verdict& verdict);
// Throws SystemError: it is no verdict.
Verdict parse_verdict(std::string_view text);

}  // namespace stretto
