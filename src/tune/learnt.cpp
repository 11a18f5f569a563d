#include "tune/learnt.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "core/environment.h"
#include "core/file.h"
#include "core/file_lock.h"
#include "core/text.h"
#include "stretto/error.h"
#include "stretto/version.h"
#include "tune/limits.h"

namespace stretto {
namespace {

// A file of so many is read in some 20 ms.
constexpr size_t kMostLearnt = 500;
constexpr std::chrono::milliseconds kMostOfALock(1000);

std::string build() { return "stretto " STRETTO_VERSION; }

Tuning read(const std::string& path) {
  std::error_code error;
  const auto found = std::filesystem::status(path, error).type();
  if (found == std::filesystem::file_type::not_found) return {};
  return parse_tuning(read_regular_file(path, kMostTuningBytes), path);
}

// Whose operators of another kind of rows are other operators' for a tuning file.
std::string key_of(const std::string& gpu, RowCount rows) {
  return rows == RowCount::bucket ? gpu + ", rows=bucket" : gpu;
}

void require_all_learnt(const Tuning& before) {
  const bool foreign = std::any_of(before.operators().begin(), before.operators().end(),
                                   [](const TunedOperator& one) { return one.commit != build(); });
  if (!foreign && before.graphs().empty()) return;
  throw UsageError("it holds what " + build() + " did not learn: name another file");
}

// Writers replace the file, so each of its contents is another file. Empty: there is none.
std::string identity_of(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return "";
  return fmt::format("{} {} {} {} {}", found.st_dev, found.st_ino, found.st_size,
                     found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
}

}  // namespace

std::string default_learnt_file() {
  if (!environment().tuning_cache.empty()) return environment().tuning_cache;
  const std::string folder = user_folder("XDG_CACHE_HOME", ".cache");
  return folder.empty() ? folder : folder + "/measured-" STRETTO_VERSION ".json";
}

LearntFile::LearntFile(std::string path, std::string gpu)
    : path_(std::move(path)), gpu_(std::move(gpu)) {}

void LearntFile::read_again() {
  const std::string now = identity_of(path_);
  if (!now.empty() && now == read_from_) return;
  read_ = {};
  read_from_.clear();
  read_ = read(path_);
  read_from_ = now;
}

std::optional<TunedOperator> LearntFile::find(const Segment& op, const Machine& machine,
                                              RowCount rows) {
  note_.clear();
  try {
    if (!path_.empty()) read_again();
  } catch (const std::exception& error) {
    note_ = fmt::format("{} is not used: {}", quote(path_, 200), error.what());
  }
  const std::string key = key_of(gpu_, rows);
  for (const Tuning* const known : {&read_, &unwritten_}) {
    for (const TunedOperator& one : known->operators()) {
      if (!(one.op == op) || one.machine != machine.name || one.gpu != key) continue;
      if (one.commit != build()) continue;
      TunedOperator found = one;
      found.gpu = gpu_;
      return found;
    }
  }
  return std::nullopt;
}

void LearntFile::keep(TunedOperator tuned, RowCount rows) {
  note_.clear();
  tuned.gpu = key_of(gpu_, rows);
  tuned.commit = build();
  unwritten_.add(std::move(tuned));
}

void LearntFile::add(TunedOperator tuned, RowCount rows) {
  note_.clear();
  tuned.gpu = key_of(gpu_, rows);
  tuned.commit = build();
  if (path_.empty()) {
    unwritten_.add(std::move(tuned));
    return;
  }
  try {
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    std::error_code ignored;  // what is wrong with the folder, the lock will say
    if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
    const FileLock lock(path_, kMostOfALock);
    const Tuning before = read(path_);
    require_all_learnt(before);
    Tuning kept;
    const size_t count = before.operators().size();
    for (size_t i = count < kMostLearnt ? 0 : count - kMostLearnt + 1; i < count; ++i) {
      kept.add(before.operators()[i]);
    }
    kept.add(tuned);
    const std::string text = print_tuning(kept);
    parse_tuning(text, path_);  // what could not be read again must not take the old file's place
    write_own_file(path_, text);
  } catch (const std::exception& error) {
    note_ = fmt::format("{} was not written: {}", quote(path_, 200), error.what());
    unwritten_.add(std::move(tuned));
  }
}

}  // namespace stretto
