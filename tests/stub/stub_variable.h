// What the environment says of the stub.
#pragma once

#include <cstdlib>
#include <string>

#include "gpu/driver_api.h"

namespace stretto::cuda {

inline constexpr Result kInvalidValue = 1;

inline std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace stretto::cuda
