#include <cstdlib>
#include <filesystem>

#include "core/embedded_text.h"
#include "core/environment.h"
#include "core/file.h"
#include "stretto/tune.h"
#include "tune/limits.h"

namespace stretto {

std::string default_tuning_file() {
  if (!environment().tuning_file.empty()) return environment().tuning_file;
  if (const char* data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data != '\0') {
    return std::string(data) + "/stretto/tuning.json";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::string(home) + "/.local/share/stretto/tuning.json";
  }
  return "";
}

Tuning read_tuning(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) return {};
  return parse_tuning(read_file(path, kMostTuningBytes), path);
}

void add_to_tuning(const std::string& path, const Tuning& tuning) {
  Tuning kept = read_tuning(path);
  kept.add_all(tuning);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;  // what is wrong with the folder, writing will say
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  write_file(path, print_tuning(kept));
}

Tuning load_tuning() {
  Tuning tuning;
  for (const EmbeddedText& shipped : shipped_tunings()) {
    tuning.add_all(parse_tuning(shipped.text, shipped.name));
  }
  tuning.add_all(read_tuning(default_tuning_file()));
  return tuning;
}

}  // namespace stretto
