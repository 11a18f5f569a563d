// The text form of schedules: one table says how each coordinate prints and reads.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "core/text.h"
#include "core/text_limits.h"
#include "schedule/coordinates.h"
#include "schedule/systems.h"
#include "stretto/error.h"

namespace stretto {
namespace {

// Readers return what is wrong with the value, or an empty text.
std::string read_int(std::string_view key, std::string_view value, int64_t least, int64_t most,
                     int& out) {
  const std::optional<int64_t> number = int_from(value);
  if (!number || *number < least || *number > most) {
    return fmt::format("{}={}: expected a whole number from {} to {}", key, quote(value), least,
                       most);
  }
  out = static_cast<int>(*number);
  return {};
}

// Legality says which of these make sense; here only what fits the field is asked for.
constexpr int64_t kMaxNumber = 1'000'000'000;

template <typename Enum, Enum Schedule::*kField>
std::string read_enum(std::string_view key, std::string_view value, Schedule& schedule) {
  const std::optional<Enum> found = value_of<Enum>(value);
  if (!found) return unknown_word(key, value, names_of<Enum>());
  schedule.*kField = *found;
  return {};
}
template <typename Enum, Enum Schedule::*kField>
std::string print_enum(const Schedule& schedule) {
  return std::string(to_string(schedule.*kField));
}

template <int Schedule::*kField>
std::string read_number(std::string_view key, std::string_view value, Schedule& schedule) {
  return read_int(key, value, 0, kMaxNumber, schedule.*kField);
}
template <int Schedule::*kField>
std::string print_number(const Schedule& schedule) {
  return fmt::format("{}", schedule.*kField);
}

std::string read_tile(std::string_view key, std::string_view value, Schedule& schedule) {
  const size_t cross = value.find('x');
  int tile_m = 0, tile_n = 0;
  if (cross == std::string_view::npos ||
      !read_int(key, value.substr(0, cross), 0, kMaxNumber, tile_m).empty() ||
      !read_int(key, value.substr(cross + 1), 0, kMaxNumber, tile_n).empty()) {
    return fmt::format("{}={}: expected ROWSxCOLUMNS, like 128x256", key, quote(value));
  }
  schedule.tile_m = tile_m;
  schedule.tile_n = tile_n;
  return {};
}
std::string print_tile(const Schedule& schedule) {
  return fmt::format("{}x{}", schedule.tile_m, schedule.tile_n);
}

std::string read_groups(std::string_view key, std::string_view value, Schedule& schedule) {
  std::vector<int> groups;
  if (value != "auto") {
    for (std::string_view part : split(value, '+')) {
      int size = 0;
      if (!read_int(key, part, 0, kMaxNumber, size).empty()) {
        return fmt::format("{}={}: expected auto, or sizes like 1+2+4", key, quote(value));
      }
      groups.push_back(size);
    }
  }
  schedule.groups = std::move(groups);
  return {};
}
std::string print_groups(const Schedule& schedule) {
  if (schedule.groups.empty()) return "auto";
  return fmt::format("{}", fmt::join(schedule.groups, "+"));
}

// The name of a C++ template; whose it is, the operator says.
std::string read_kernel(std::string_view key, std::string_view value, Schedule& schedule) {
  const auto is_of_name = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (value.empty() || !std::all_of(value.begin(), value.end(), is_of_name)) {
    return fmt::format("{}={}: expected none, or the name of one of the graph's kernels", key,
                       quote(value));
  }
  schedule.kernel = value == "none" ? "" : value;
  return {};
}
std::string print_kernel(const Schedule& schedule) {
  return schedule.kernel.empty() ? "none" : schedule.kernel;
}

struct Coordinate {
  std::string_view key;
  std::string (*print)(const Schedule& schedule);
  std::string (*read)(std::string_view key, std::string_view value, Schedule& schedule);
  std::string_view absent = {};  // the value that is left out of texts; empty: always printed
};

template <typename Enum, Enum Schedule::*kField>
constexpr Coordinate choice(std::string_view key, std::string_view absent) {
  return {key, print_enum<Enum, kField>, read_enum<Enum, kField>, absent};
}
template <int Schedule::*kField>
constexpr Coordinate number(std::string_view key, std::string_view absent) {
  return {key, print_number<kField>, read_number<kField>, absent};
}

constexpr auto print_partials = print_enum<DType, &Schedule::partials>;
constexpr auto read_partials = read_enum<DType, &Schedule::partials>;

#define STRETTO_CHOICE(type, field, key, absent, ...) choice<type, &Schedule::field>(key, absent),
#define STRETTO_NUMBER(field, key, absent, ...) number<&Schedule::field>(key, absent),
#define STRETTO_OTHER(field, key, absent, ...) Coordinate{key, print_##field, read_##field, absent},
constexpr Coordinate kCoordinates[] = {
    STRETTO_COORDINATES(STRETTO_CHOICE, STRETTO_NUMBER, STRETTO_OTHER)};
#undef STRETTO_OTHER
#undef STRETTO_NUMBER
#undef STRETTO_CHOICE
constexpr size_t kNumCoordinates = std::size(kCoordinates);

size_t find_coordinate(std::string_view key) {
  size_t index = 0;
  while (index < kNumCoordinates && kCoordinates[index].key != key) ++index;
  return index;
}

std::string unknown_key(std::string_view part) {
  std::array<std::string_view, kNumCoordinates> keys;
  for (size_t i = 0; i < kNumCoordinates; ++i) keys[i] = kCoordinates[i].key;
  if (part.empty()) return "an empty part between commas; expected key=value";
  if (part.find('=') == std::string_view::npos) {
    return fmt::format("{} is not of the form key=value", quote(part));
  }
  if (part.starts_with("split=")) {
    return fmt::format("{} stands before the schedule of all rows, as in {}/tiles", part, part);
  }
  return unknown_word("coordinate", part.substr(0, part.find('=')), keys);
}

}  // namespace

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (const Coordinate& coordinate : kCoordinates) {
    const std::string value = coordinate.print(schedule);
    if (value == coordinate.absent) continue;
    if (!text.empty()) text += ',';
    text += coordinate.key;
    text += '=';
    text += value;
  }
  return text;
}

Schedule parse_schedule(std::string_view text, const Segment& op, const Machine& machine,
                        std::span<const std::string_view> words) {
  if (text.empty())
    throw UsageError("an empty schedule; expected a preset's name or key=value,...");
  if (text.size() > kMaxScheduleLength) {
    throw UsageError(fmt::format("a schedule of {} characters; at most {} are read", text.size(),
                                 kMaxScheduleLength));
  }
  const std::vector<std::string_view> parts = split(text, ',');
  const bool from_preset = parts[0].find('=') == std::string_view::npos;
  if (std::find(words.begin(), words.end(), parts[0]) != words.end()) {
    const std::string does =
        parts.size() > 1 ? fmt::format("{} changes what {} chooses", quote(text, 200), parts[0])
                         : fmt::format("{} chooses for all of an operator", parts[0]);
    throw UsageError(fmt::format(
        "{0}; {1} stands alone, and stretto plan --schedule {1} says what it chose, to be changed",
        does, parts[0]));
  }
  Schedule schedule;
  std::vector<std::string> reasons;
  if (from_preset) {
    try {
      if (const System* system = find_system(parts[0])) {
        const NearestPoint* point = nearest_point(*system, op, machine);
        if (point == nullptr) {
          const NamedProduct unnamed[] = {{"", &op}};
          throw UsageError(why_no_point(*system, unnamed));
        }
        schedule = parse_schedule(point->text, op, machine);
        if (op.only_moves()) schedule.gemm = GemmBy::tiles;  // nothing is multiplied there
      } else {
        schedule = (parts.size() == 1 ? find_preset(text, words) : find_preset(parts[0]))
                       .make(op, machine);
      }
    } catch (const UsageError& error) {
      reasons.emplace_back(error.what());
    }
  }
  std::array<bool, kNumCoordinates> seen{};
  for (size_t i = from_preset ? 1 : 0; i < parts.size(); ++i) {
    const size_t equals = parts[i].find('=');
    const size_t index = equals == std::string_view::npos
                             ? kNumCoordinates
                             : find_coordinate(parts[i].substr(0, equals));
    if (index == kNumCoordinates) {
      reasons.push_back(unknown_key(parts[i]));
      continue;
    }
    const Coordinate& coordinate = kCoordinates[index];
    if (seen[index]) {
      reasons.push_back(fmt::format("{} is given twice", coordinate.key));
      continue;
    }
    seen[index] = true;
    std::string reason = coordinate.read(coordinate.key, parts[i].substr(equals + 1), schedule);
    if (!reason.empty()) reasons.push_back(std::move(reason));
  }
  std::vector<std::string> missing;
  for (size_t i = 0; i < kNumCoordinates && !from_preset; ++i) {
    if (seen[i] || !kCoordinates[i].absent.empty()) continue;
    missing.push_back(fmt::format("{}=", kCoordinates[i].key));
  }
  if (!missing.empty()) {
    reasons.push_back(fmt::format(
        "{} missing: give every coordinate, or begin with a preset's name", join(missing, " ")));
  }
  if (!reasons.empty()) {
    throw UsageError(fmt::format("schedule {}: {}", quote(text), join(reasons, "; ")));
  }
  return schedule;
}

}  // namespace stretto
