// What an operation's finish() throws.
#pragma once

#include <string>

#include "stretto/error.h"

namespace stretto {

// Empty where it does not.
template <class Operation>
std::string problem_of(Operation& operation) {
  try {
    operation.finish();
  } catch (const SystemError& error) {
    return error.what();
  }
  return "";
}

}  // namespace stretto
