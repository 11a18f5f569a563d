// What is said of a text that is no plan.
#pragma once

#include <string>
#include <string_view>

#include "stretto/error.h"
#include "stretto/plan.h"

namespace stretto {

inline std::string refusal(std::string_view text, std::string_view file = "plan") {
  try {
    parse_plan(text, file);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace stretto
