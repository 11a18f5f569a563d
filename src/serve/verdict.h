// What rank 0's process says of an operator's times to the others; it travels as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/tune.h"

namespace stretto {

struct Verdict {
  enum class Kind : uint8_t { keep, take, measure };
  // A schedule as it was chosen: no process chooses again, by what its own machine file says.
  struct Chosen {
    std::string schedule, reason;
    double within = 1;  // Sureness
  };
  Kind kind = Kind::keep;  // keep: what `auto` took
  Chosen chosen;           // of `take`
  double budget_ms = 0;    // of `measure`
  std::vector<std::string> schedules;
};

std::string to_string(const Verdict& verdict);
// Throws SystemError: it is no verdict.
Verdict parse_verdict(std::string_view text);

}  // namespace stretto
