#include "machine/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/text.h"
#include "machine/figures.h"
#include "stretto/error.h"

namespace stretto {
namespace {

constexpr int kDepth = 8;  // a machine file needs 5

std::string shown(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return fmt::format("an array of {}", value.size());
    case Json::value_t::string:
      return quote(value.get_ref<const std::string&>());
    default:
      return value.dump();
  }
}

}  // namespace

JsonReader::JsonReader(std::string_view file_name) : file_(quote(file_name, 200)) {}

void JsonReader::fail(const std::string& what) const {
  throw UsageError(fmt::format("machine file {}: {}", file_, what));
}

void JsonReader::fail(const std::string& key, const std::string& right, const Json& got) const {
  fail(fmt::format("{} must be {}, found {}", key, right, shown(got)));
}

Json JsonReader::parse(std::string_view text) const {
  if (text.size() > kMostMachineBytes) {
    fail(fmt::format("longer than {} bytes, which no machine needs", kMostMachineBytes));
  }
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > kDepth) fail("nested too deeply");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) fail(fmt::format("key {} given twice", quote(key)));
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::parse_error& error) {
    fail(fmt::format("not JSON at {}", place_of_byte(text, error.byte)));
  } catch (const Json::exception& error) {
    fail(fmt::format("not usable JSON: {}", quote(error.what(), 200)));
  }
}

void JsonReader::allow_keys(const Json& object, const std::string& path,
                            const std::vector<std::string_view>& known) const {
  if (!object.is_object()) fail(path.empty() ? "the file" : path, "an object", object);
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    fail((path.empty() ? "" : path + ": ") + unknown_word("key", key, known));
  }
}

const Json& JsonReader::member(const Json& object, const std::string& path,
                               const std::string& key) const {
  const auto found = object.find(key);
  if (found == object.end()) {
    fail(fmt::format("{} is missing", path.empty() ? key : path + "." + key));
  }
  return *found;
}

std::string JsonReader::read_text(const Json& object, const std::string& path,
                                  const std::string& key, size_t limit) const {
  const Json& value = member(object, path, key);
  const std::string full = path.empty() ? key : path + "." + key;
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    fail(full, "a text", value);
  }
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > limit) fail(fmt::format("{} is longer than {} bytes", full, limit));
  return text;
}

int JsonReader::read_int(const Json& value, const std::string& key, int least, int most) const {
  const auto right = fmt::format("a whole number from {} to {}", least, most);
  if (!value.is_number_integer()) fail(key, right, value);
  // Unsigned values beyond int64 would turn negative in get<int64_t>.
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(most)) {
    fail(key, right, value);
  }
  const int64_t number = value.get<int64_t>();
  if (number < least || number > most) fail(key, right, value);
  return static_cast<int>(number);
}

double JsonReader::read_number(const Json& value, const std::string& key, double least,
                               double most) const {
  const auto right = fmt::format("a number from {} to {}", least, most);
  if (!value.is_number()) fail(key, right, value);
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < least || number > most) fail(key, right, value);
  return number;
}

}  // namespace stretto
