#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/text.h"
#include "machine/figures.h"
#include "machine/find_machine.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using Json = nlohmann::ordered_json;  // keeps the file's order, in which sources are told

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

// Parses one file; every error names the file, then the key.
class MachineParser {
 public:
  MachineParser(std::string_view text, std::string_view file_name, bool may_have_base)
      : file_(quote(file_name, 200)), may_have_base_(may_have_base), root_(parse(text)) {}

  Machine run() {
    allow_keys(root_, "", {"name", "description", "base", "nodes", "ranks_per_node", "figures"});
    Machine machine = read_base();
    machine.name = read_text(root_, "", "name", 64);
    if (!is_machine_name(machine.name)) {
      fail("name", "letters, digits, '-', '_' and '.'", root_["name"]);
    }
    machine.description = read_text(root_, "", "description", 1000);
    if (has_base_ ? root_.contains("nodes") : true) {
      machine.nodes = read_int(member(root_, "", "nodes"), "nodes", 1, kMostNodes);
    }
    if (has_base_ ? root_.contains("ranks_per_node") : true) {
      machine.ranks_per_node =
          read_int(member(root_, "", "ranks_per_node"), "ranks_per_node", 1, kMostRanksPerNode);
    }
    read_figures(machine);
    check_together(machine);
    return machine;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError(fmt::format("machine file {}: {}", file_, what));
  }
  [[noreturn]] void fail(const std::string& key, const std::string& right, const Json& got) const {
    fail(fmt::format("{} must be {}, found {}", key, right, shown(got)));
  }

  Json parse(std::string_view text) const {
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

  void allow_keys(const Json& object, const std::string& path,
                  const std::vector<std::string_view>& known) const {
    if (!object.is_object()) fail(path.empty() ? "the file" : path, "an object", object);
    for (const auto& [key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      fail((path.empty() ? "" : path + ": ") + unknown_word("key", key, known));
    }
  }

  const Json& member(const Json& object, const std::string& path, const std::string& key) const {
    const auto found = object.find(key);
    if (found == object.end())
      fail(fmt::format("{} is missing", path.empty() ? key : path + "." + key));
    return *found;
  }

  std::string read_text(const Json& object, const std::string& path, const std::string& key,
                        size_t limit) const {
    const Json& value = member(object, path, key);
    const std::string full = path.empty() ? key : path + "." + key;
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      fail(full, "a text", value);
    }
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() > limit) fail(fmt::format("{} is longer than {} bytes", full, limit));
    return text;
  }

  int read_int(const Json& value, const std::string& key, int least, int most) const {
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

  double read_number(const Json& value, const std::string& key, double least, double most) const {
    const auto right = fmt::format("a number from {} to {}", least, most);
    if (!value.is_number()) fail(key, right, value);
    const double number = value.get<double>();
    if (!std::isfinite(number) || number < least || number > most) fail(key, right, value);
    return number;
  }

  RateCurve read_curve(const Json& value, const std::string& key) const {
    const auto right = fmt::format("1 to {} pairs [x, GB/s]", kMostPoints);
    if (!value.is_array() || value.empty() || value.size() > kMostPoints) fail(key, right, value);
    RateCurve curve;
    for (const Json& pair : value) {
      if (!pair.is_array() || pair.size() != 2) fail(key, right, pair);
      const double x = read_number(pair[0], key + " x", kLeastX, kMostX);
      const double rate = read_number(pair[1], key + " rate", kLeastRate, kMostRate);
      if (!curve.points.empty() && x <= curve.points.back().x) {
        fail(fmt::format("{} must have ascending x, found {} after {}", key, x,
                         curve.points.back().x));
      }
      curve.points.push_back({x, rate});
    }
    return curve;
  }

  Machine read_base() {
    has_base_ = root_.contains("base");
    if (!has_base_) return {};
    if (!may_have_base_) fail("base: a machine that is a base cannot have one itself");
    const std::string base = read_text(root_, "", "base", 64);
    try {
      const MachineFile file = read_machine_file(base);
      return MachineParser(file.text, file.name, false).run();
    } catch (const UsageError& error) {
      fail(fmt::format("base: {}", error.what()));
    }
  }

  // The figure's object when the file has it; its unit and source are checked and noted.
  const Json* figure(const Json& figures, const std::string& name, std::string_view unit,
                     std::string_view value_key, Machine& machine) const {
    const auto found = figures.find(name);
    const std::string path = "figures." + name;
    if (found == figures.end()) {
      if (!has_base_) fail(path + " is missing");
      return nullptr;
    }
    allow_keys(*found, path, {value_key, "unit", "source"});
    const Json& given = member(*found, path, "unit");
    if (given != unit) fail(path + ".unit", fmt::format("'{}'", unit), given);
    note_source(machine, name, read_text(*found, path, "source", 2000));
    return &member(*found, path, std::string(value_key));
  }

  static void note_source(Machine& machine, const std::string& name, const std::string& source) {
    const std::string prefix = name + ": ";
    for (std::string& line : machine.sources) {
      if (line.starts_with(prefix)) {
        line = prefix + source;
        return;
      }
    }
    machine.sources.push_back(prefix + source);
  }

  void read_figures(Machine& machine) const {
    const Json& figures = member(root_, "", "figures");
    std::vector<std::string_view> known;
#define STRETTO_NAME(field, ...) known.push_back(#field);
    STRETTO_MACHINE_COUNTS(STRETTO_NAME)
    STRETTO_MACHINE_SCALARS(STRETTO_NAME)
    STRETTO_MACHINE_CURVES(STRETTO_NAME)
#undef STRETTO_NAME
    allow_keys(figures, "figures", known);
#define STRETTO_COUNT(field, unit, least, most)                              \
  if (const Json* value = figure(figures, #field, unit, "value", machine)) { \
    machine.field = read_int(*value, "figures." #field, least, most);        \
  }
    STRETTO_MACHINE_COUNTS(STRETTO_COUNT)
#undef STRETTO_COUNT
#define STRETTO_SCALAR(field, unit, least, most)                             \
  if (const Json* value = figure(figures, #field, unit, "value", machine)) { \
    machine.field = read_number(*value, "figures." #field, least, most);     \
  }
    STRETTO_MACHINE_SCALARS(STRETTO_SCALAR)
#undef STRETTO_SCALAR
#define STRETTO_CURVE(field, unit)                                            \
  if (const Json* value = figure(figures, #field, unit, "points", machine)) { \
    machine.field = read_curve(*value, "figures." #field);                    \
  }
    STRETTO_MACHINE_CURVES(STRETTO_CURVE)
#undef STRETTO_CURVE
  }

  void check_together(const Machine& machine) const {
    if (machine.nodes > 1 && machine.network_gb_per_s <= 0) {
      fail("figures.network_gb_per_s must be above 0 on a machine of several nodes");
    }
    if (machine.nccl_sms >= machine.sms) {
      fail(fmt::format("figures.nccl_sms must be less than the GPU's {} SMs", machine.sms));
    }
    if (int64_t{machine.nodes} * machine.ranks_per_node > 65536) {
      fail("nodes * ranks_per_node must be at most 65536");
    }
  }

  std::string file_;
  bool may_have_base_;
  bool has_base_ = false;
  Json root_;
};

}  // namespace

Machine load_machine_text(std::string_view text, std::string_view file_name) {
  return MachineParser(text, file_name, true).run();
}

}  // namespace stretto
