#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "core/embedded_text.h"
#include "core/environment.h"
#include "core/file.h"
#include "core/file_lock.h"
#include "core/text.h"
#include "stretto/error.h"
#include "stretto/tune.h"
#include "tune/limits.h"

namespace stretto {
namespace {

void make_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;  // what is wrong with the folder, writing will say
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
}

// What is wrong with a file that is there, reading will say.
bool is_absent(const std::string& path) {
  std::error_code error;
  const auto found = std::filesystem::status(path, error).type();
  const bool is_blocked = error == std::errc::not_a_directory;
  return found == std::filesystem::file_type::not_found && !is_blocked;
}

}  // namespace

std::string default_tuning_file() {
  if (!environment().tuning_file.empty()) return environment().tuning_file;
  const std::string folder = user_folder("XDG_DATA_HOME", ".local/share");
  return folder.empty() ? folder : folder + "/tuning.json";
}

Tuning read_tuning(const std::string& path) {
  if (path.empty() || is_absent(path)) return {};
  return parse_tuning(read_regular_file(path, kMostTuningBytes), path);
}

void check_tuning_file(const std::string& path) {
  read_tuning(path);
  make_folder_of(path);
  check_writable(path);
  const FileLock can_be_locked(path);
}

void add_to_tuning(const std::string& path, const Tuning& tuning) {
  make_folder_of(path);
  const FileLock lock(path);  // another sweep may add at the same moment
  Tuning kept = read_tuning(path);
  kept.add_all(tuning);
  const std::string text = print_tuning(kept);
  parse_tuning(text, path);  // what could not be read again must not take the old file's place
  write_file(path, text);
}

Tuning shipped_tuning() {
  Tuning tuning;
  for (const EmbeddedText& shipped : shipped_tunings()) {
    tuning.add_all(parse_tuning(shipped.text, shipped.name));
  }
  return tuning;
}

Tuning load_tuning() {
  // The file in the home folder need not be there; one that someone named is missed.
  const std::string& named = environment().tuning_file;
  if (!named.empty() && is_absent(named)) {
    throw UsageError(
        fmt::format("STRETTO_TUNING_FILE names {}, which is not there; name a file that `stretto "
                    "tune` has written, or unset it",
                    quote(named, 200)));
  }
  Tuning tuning = shipped_tuning();
  tuning.add_all(read_tuning(default_tuning_file()));
  return tuning;
}

}  // namespace stretto
