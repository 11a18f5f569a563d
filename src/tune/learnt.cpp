#include "tune/learnt.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <utility>

#include "core/environment.h"
#include "core/file.h"
#include "core/file_lock.h"
#include "core/text.h"
#include "stretto/error.h"
#include "stretto/version.h"
#include "tune/limits.h"
#include "tune/own_graph.h"

namespace stretto {
namespace {

// A file of so many is read in some 20 ms.
constexpr size_t kMostLearnt = 500, kMostGraphsLearnt = 100;
constexpr std::chrono::milliseconds kMostOfALock(1000);

std::string build() { return "stretto " STRETTO_VERSION; }

UsableTuning read(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0 && errno == ENOENT) return {};
  const bool is_own = found.st_uid == geteuid();
  if (S_ISREG(found.st_mode) && !is_own) throw UsageError("it belongs to another user");
  return parse_usable_tuning(read_regular_file(path, kMostTuningBytes), path);
}

void require_all_learnt(const UsableTuning& before) {
  const auto all_own = [](const auto& all) {
    return std::all_of(all.begin(), all.end(),
                       [](const auto& one) { return one.commit == build(); });
  };
  if (all_own(before.tuning.operators()) && all_own(before.tuning.graphs()) &&
      all_own(before.skipped)) {
    return;
  }
  throw UsageError("it holds what " + build() + " did not learn: name another file");
}

// The youngest of them, so that one more makes `most`.
template <typename Tuned>
void add_last(const std::vector<Tuned>& known, size_t most, Tuning& kept) {
  for (size_t i = known.size() < most ? 0 : known.size() - most + 1; i < known.size(); ++i) {
    kept.add(known[i]);
  }
}

std::string passed_over(const UsableTuning& usable) {
  const size_t count = usable.skipped.size();
  return fmt::format("{} passed over: {}",
                     count == 1 ? "an entry was" : fmt::format("{} entries were", count),
                     usable.skipped.front().why);
}

// As tuning files can keep it.
std::string short_key(const std::string& gpu, const std::string& measured_with) {
  constexpr size_t kMost = kMostTuningText - 20;  // the rows stand behind it
  if (measured_with.empty()) return gpu;
  const std::string key = gpu + "; " + measured_with;
  if (key.size() <= kMost) return key;
  const std::string hash = fmt::format("; {:016x}", std::hash<std::string>{}(key));
  return key.substr(0, kMost - hash.size()) + hash;
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

LearntFile::LearntFile(std::string path, std::string gpu, const std::string& measured_with)
    : path_(std::move(path)), gpu_(std::move(gpu)), key_(short_key(gpu_, measured_with)) {}

// Operators with another kind of rows are other operators for a tuning file.
std::string LearntFile::key_of(RowCount rows) const {
  return rows == RowCount::bucket ? key_ + ", rows=bucket" : key_;
}

void LearntFile::read_again() {
  const std::string now = identity_of(path_);
  if (!now.empty() && now == read_from_) return;
  read_ = {};
  read_from_.clear();
  read_ = read(path_);
  read_from_ = now;
}

const TunedSchedules* LearntFile::found_in(const Tuning& known, const Operator& op,
                                           const Machine& machine, const std::string& key) const {
  const auto is_here = [&](const TunedSchedules& one) {
    return one.machine == machine.name && one.gpu == key && one.commit == build();
  };
  const Segment* const only = op.only_product();
  for (const TunedOperator& one : known.operators()) {
    if (only != nullptr && one.op == *only && is_here(one)) return &one;
  }
  for (const TunedGraph& one : known.graphs()) {
    if (only == nullptr && one.op == op && is_here(one)) return &one;
  }
  return nullptr;
}

std::optional<TunedSchedules> LearntFile::find(const Operator& op, const Machine& machine,
                                               RowCount rows) {
  note_.clear();
  try {
    if (!path_.empty()) read_again();
  } catch (const std::exception& error) {
    note_ = fmt::format("{} is not used: {}", quote(path_, 200), error.what());
  }
  if (!read_.skipped.empty()) note_ = passed_over(read_);
  for (const Tuning* const known : {&read_.tuning, &unwritten_}) {
    const TunedSchedules* const one = found_in(*known, op, machine, key_of(rows));
    if (one == nullptr) continue;
    TunedSchedules found = *one;
    found.gpu = gpu_;
    return found;
  }
  return std::nullopt;
}

void LearntFile::keep(const Operator& op, TunedSchedules tuned, RowCount rows) {
  note_.clear();
  tuned.gpu = key_of(rows);
  tuned.commit = build();
  unwritten_.add(op, std::move(tuned));
}

void LearntFile::add(const Operator& op, TunedSchedules tuned, RowCount rows) {
  if (path_.empty() || !can_be_filed(op)) return keep(op, std::move(tuned), rows);
  note_.clear();
  tuned.gpu = key_of(rows);
  tuned.commit = build();
  try {
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    std::error_code ignored;  // what is wrong with the folder, the lock will say
    if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
    const FileLock lock(path_, kMostOfALock);
    const UsableTuning before = read(path_);
    require_all_learnt(before);
    Tuning kept;
    add_last(before.tuning.operators(), kMostLearnt, kept);
    add_last(before.tuning.graphs(), kMostGraphsLearnt, kept);
    kept.add(op, tuned);
    const std::string text = print_tuning(kept);
    parse_tuning(text, path_);  // what could not be read again must not take the old file's place
    write_own_file(path_, text);
    if (!before.skipped.empty()) note_ = passed_over(before);
  } catch (const std::exception& error) {
    note_ = fmt::format("{} was not written: {}", quote(path_, 200), error.what());
    unwritten_.add(op, std::move(tuned));
  }
}

}  // namespace stretto
