// stretto machines: the machine files that can be found, or all figures of one.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/request.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "machine/figures.h"
#include "machine/find_machine.h"
#include "stretto/error.h"
#include "stretto/machine.h"

namespace stretto::cli {
namespace {

// Figures in the order and under the names of the machine file.
Json to_json(const Machine& machine) {
  Json json = {{"name", machine.name},
               {"description", machine.description},
               {"nodes", machine.nodes},
               {"ranks_per_node", machine.ranks_per_node}};
#define STRETTO_FIELD(field, ...) json[#field] = machine.field;
  STRETTO_MACHINE_COUNTS(STRETTO_FIELD)
  STRETTO_MACHINE_SCALARS(STRETTO_FIELD)
  STRETTO_MACHINE_LATER_SCALARS(STRETTO_FIELD)
#undef STRETTO_FIELD
#define STRETTO_CURVE(field, ...)                              \
  json[#field] = Json::array();                                \
  for (const RateCurve::Point& point : machine.field.points) { \
    json[#field].push_back({point.x, point.gb_per_s});         \
  }
  STRETTO_MACHINE_CURVES(STRETTO_CURVE)
#undef STRETTO_CURVE
  json["sources"] = machine.sources;
  return json;
}

std::string curve_text(const RateCurve& curve, std::string_view unit) {
  std::string text;
  for (const RateCurve::Point& point : curve.points) {
    text += fmt::format("{:g}:{:g} ", point.x, point.gb_per_s);
  }
  return text + fmt::format("({})", unit);
}

std::string print(const Machine& machine) {
  constexpr size_t kWidth = 28;
  std::string out = fmt::format("{}: {}\n\n", machine.name, machine.description);
  const auto add = [&](std::string_view name, const std::string& text) {
    out += labelled(name, text, kWidth);
  };
  add("nodes", std::to_string(machine.nodes));
  add("ranks_per_node", std::to_string(machine.ranks_per_node));
#define STRETTO_FIELD(field, unit, ...) \
  add(#field, fmt::format("{:g} {}", double(machine.field), unit));
  STRETTO_MACHINE_COUNTS(STRETTO_FIELD)
  STRETTO_MACHINE_SCALARS(STRETTO_FIELD)
  STRETTO_MACHINE_LATER_SCALARS(STRETTO_FIELD)
#undef STRETTO_FIELD
#define STRETTO_CURVE(field, unit) add(#field, curve_text(machine.field, unit));
  STRETTO_MACHINE_CURVES(STRETTO_CURVE)
#undef STRETTO_CURVE
  out += "\nsources\n";
  for (const std::string& source : machine.sources) out += "  " + wrap(source, 4);
  return out;
}

Json header_of(const std::vector<Machine>& machines) {
  Json json = json_header("machines");
  json["machines"] = Json::array();
  for (const Machine& machine : machines) json["machines"].push_back(to_json(machine));
  return json;
}

Outcome show(const Options& options) {
  refuse_overwriting(options, machine_file_of(options.machine));
  const Machine machine = load_machine(options.machine);
  return {options.json ? dump(header_of({machine})) : print(machine), kGood};
}

// `names`: those that find them, which are their files'.
std::string print(const std::vector<std::string>& names, const std::vector<Machine>& machines) {
  Table table({"machine", "GPUs", "SMs", "GEMM", "link"});
  std::string notes;
  for (size_t i = 0; i < names.size(); ++i) {
    const Machine& machine = machines[i];
    table.add({names[i], fmt::format("{} x {}", machine.nodes, machine.ranks_per_node),
               std::to_string(machine.sms), fmt::format("{:g} TFLOP/s", machine.gemm_tflops),
               fmt::format("{:g} GB/s", machine.link_gb_per_s)});
    notes += labelled(names[i], machine.description, 16);
  }
  return table.print() + '\n' + notes + "\nAll figures of one: stretto machines NAME\n";
}

// A broken file hides no other.
Outcome list(const Options& options) {
  std::vector<Machine> machines;
  std::vector<std::string> names, broken;
  ExitCode code = kGood;
  for (const std::string& name : machine_names()) {
    const auto complain = [&](const std::exception& error, ExitCode worst) {
      broken.emplace_back(error.what());
      code = std::max(code, worst);
    };
    try {
      machines.push_back(load_machine(name));
      names.push_back(name);
    } catch (const UsageError& error) {
      complain(error, kBadUsage);
    } catch (const SystemError& error) {
      complain(error, kSystemFault);
    }
  }
  if (!options.json) return {print(names, machines), code, broken};
  Json json = header_of(machines);
  json["broken"] = broken;
  return {dump(json), code, broken};
}

Outcome run(const Options& options) {
  return options.machine.empty() ? list(options) : show(options);
}

}  // namespace

Verb machines_verb() {
  return {"machines", "List the machines, or all figures of one with their sources",
          [](CLI::App& app, Options& options) {
            add_option(app, "name", options.machine, "A machine's name or file", "MACHINE");
          },
          run, "stretto machines h200x8"};
}

}  // namespace stretto::cli
