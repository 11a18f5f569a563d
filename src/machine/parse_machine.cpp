#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "machine/figures.h"
#include "machine/find_machine.h"
#include "machine/json_reader.h"
#include "stretto/error.h"

namespace stretto {
namespace {

// Makes the machine that one file describes.
class MachineParser {
 public:
  MachineParser(std::string_view text, std::string_view file_name, bool may_have_base)
      : json_(file_name), may_have_base_(may_have_base), root_(json_.parse(text)) {}

  Machine run() {
    json_.allow_keys(root_, "",
                     {"name", "description", "base", "nodes", "ranks_per_node", "figures"});
    Machine machine = read_base();
    machine.name = json_.read_text(root_, "", "name", 64);
    if (!is_machine_name(machine.name)) {
      json_.fail("name", "letters, digits, '-', '_' and '.'", root_["name"]);
    }
    machine.description = json_.read_text(root_, "", "description", 1000);
    if (!has_base_ || root_.contains("nodes")) {
      machine.nodes = json_.read_int(json_.member(root_, "", "nodes"), "nodes", 1, kMostNodes);
    }
    if (!has_base_ || root_.contains("ranks_per_node")) {
      machine.ranks_per_node = json_.read_int(json_.member(root_, "", "ranks_per_node"),
                                              "ranks_per_node", 1, kMostRanksPerNode);
    }
    read_figures(machine);
    check_together(machine);
    return machine;
  }

 private:
  RateCurve read_curve(const Json& value, const std::string& key) const {
    const auto right = fmt::format("1 to {} pairs [x, GB/s]", kMostPoints);
    if (!value.is_array() || value.empty() || value.size() > kMostPoints) {
      json_.fail(key, right, value);
    }
    RateCurve curve;
    for (const Json& pair : value) {
      if (!pair.is_array() || pair.size() != 2) json_.fail(key, right, pair);
      const double x = json_.read_number(pair[0], key + " x", kLeastX, kMostX);
      const double rate = json_.read_number(pair[1], key + " rate", kLeastRate, kMostRate);
      if (!curve.points.empty() && x <= curve.points.back().x) {
        json_.fail(fmt::format("{} must have ascending x, found {} after {}", key, x,
                               curve.points.back().x));
      }
      curve.points.push_back({x, rate});
    }
    return curve;
  }

  Machine read_base() {
    has_base_ = root_.contains("base");
    if (!has_base_) return {};
    if (!may_have_base_) json_.fail("base: a machine that is a base cannot have one itself");
    const std::string base = json_.read_text(root_, "", "base", 64);
    try {
      const MachineFile file = read_machine_named(base);
      return MachineParser(file.text, file.name, false).run();
    } catch (const UsageError& error) {
      json_.fail(fmt::format("base: {}", error.what()));
    }
  }

  // The figure's object when the file has it; its unit and source are checked and noted.
  const Json* figure(const Json& figures, const std::string& name, std::string_view unit,
                     std::string_view value_key, Machine& machine, bool may_miss = false) const {
    const auto found = figures.find(name);
    const std::string path = "figures." + name;
    if (found == figures.end()) {
      if (!has_base_ && !may_miss) json_.fail(path + " is missing");
      return nullptr;
    }
    json_.allow_keys(*found, path, {value_key, "unit", "source"});
    const Json& given = json_.member(*found, path, "unit");
    if (given != unit) json_.fail(path + ".unit", fmt::format("'{}'", unit), given);
    note_source(machine, name, json_.read_text(*found, path, "source", 2000));
    return &json_.member(*found, path, std::string(value_key));
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
    const Json& figures = json_.member(root_, "", "figures");
    std::vector<std::string_view> known;
#define STRETTO_NAME(field, ...) known.push_back(#field);
    STRETTO_MACHINE_COUNTS(STRETTO_NAME)
    STRETTO_MACHINE_SCALARS(STRETTO_NAME)
    STRETTO_MACHINE_LATER_SCALARS(STRETTO_NAME)
    STRETTO_MACHINE_CURVES(STRETTO_NAME)
#undef STRETTO_NAME
    json_.allow_keys(figures, "figures", known);
#define STRETTO_COUNT(field, unit, least, most)                              \
  if (const Json* value = figure(figures, #field, unit, "value", machine)) { \
    machine.field = json_.read_int(*value, "figures." #field, least, most);  \
  }
    STRETTO_MACHINE_COUNTS(STRETTO_COUNT)
#undef STRETTO_COUNT
#define STRETTO_SCALAR(field, unit, least, most)                               \
  if (const Json* value = figure(figures, #field, unit, "value", machine)) {   \
    machine.field = json_.read_number(*value, "figures." #field, least, most); \
  }
    STRETTO_MACHINE_SCALARS(STRETTO_SCALAR)
#undef STRETTO_SCALAR
#define STRETTO_SCALAR(field, unit, least, most)                                   \
  if (const Json* value = figure(figures, #field, unit, "value", machine, true)) { \
    machine.field = json_.read_number(*value, "figures." #field, least, most);     \
  }
    STRETTO_MACHINE_LATER_SCALARS(STRETTO_SCALAR)
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
      json_.fail("figures.network_gb_per_s must be above 0 on a machine of several nodes");
    }
    if (machine.nccl_sms >= machine.sms) {
      json_.fail(fmt::format("figures.nccl_sms must be less than the GPU's {} SMs", machine.sms));
    }
    if (int64_t{machine.nodes} * machine.ranks_per_node > 65536) {
      json_.fail("nodes * ranks_per_node must be at most 65536");
    }
  }

  const JsonReader json_;
  bool may_have_base_;
  bool has_base_ = false;
  Json root_;
};

}  // namespace

Machine load_machine_text(std::string_view text, std::string_view file_name) {
  return MachineParser(text, file_name, true).run();
}

}  // namespace stretto
