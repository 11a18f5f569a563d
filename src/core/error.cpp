#include "stretto/error.h"

#include <fmt/format.h>

namespace stretto {

void fail_internal(const char* file, int line, const std::string& what) {
  throw InternalError(fmt::format("internal error: {} ({}:{})", what, file, line));
}

}  // namespace stretto
