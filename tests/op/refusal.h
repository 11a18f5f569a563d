// What an action is refused with.
#pragma once

#include <functional>
#include <string>

#include "stretto/error.h"

namespace stretto {

inline std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace stretto
