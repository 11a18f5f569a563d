#include "core/environment.h"

#include <cstdlib>
#include <filesystem>

namespace stretto {

std::span<const EnvironmentVariable> environment_variables() {
  static constexpr EnvironmentVariable kVariables[] = {
#define STRETTO_ROW(field, variable, meaning) {variable, meaning, &Environment::field},
      STRETTO_ENVIRONMENT(STRETTO_ROW)
#undef STRETTO_ROW
  };
  return kVariables;
}

const Environment& environment() {
  static const Environment read_once = [] {
    Environment found;
    for (const EnvironmentVariable& row : environment_variables()) {
      if (const char* value = std::getenv(row.variable.data())) found.*row.field = value;
    }
    return found;
  }();
  return read_once;
}

std::string user_folder(const char* variable, std::string_view in_home) {
  if (const char* folder = std::getenv(variable); folder != nullptr && *folder != '\0') {
    return std::string(folder) + "/stretto";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    // Users of services have /dev/null for a home: none.
    std::error_code ignored;
    const auto status = std::filesystem::status(home, ignored);
    if (std::filesystem::exists(status) && !std::filesystem::is_directory(status)) return "";
    return std::string(home) + '/' + std::string(in_home) + "/stretto";
  }
  return "";
}

}  // namespace stretto
