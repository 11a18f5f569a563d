#include "core/file_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "core/text.h"
#include "stretto/error.h"

namespace stretto {

void fail_at(std::string_view doing, const std::string& path) {
  const int error = errno;
  throw SystemError(
      fmt::format("cannot {} '{}': {}", doing, shortened(path), std::strerror(error)));
}

}  // namespace stretto
