// stretto machines: the machine files that can be found, or all figures of one.
#include <fmt/format.h>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "stretto/machine.h"

namespace stretto::cli {
namespace {

struct Figure {
  std::string_view name;
  double Machine::*value;
};
constexpr Figure kFigures[] = {
#define STRETTO_FIGURE(field) \
  { #field, &Machine::field }
    STRETTO_FIGURE(gemm_tflops),
    STRETTO_FIGURE(fp32_tflops),
    STRETTO_FIGURE(tile_overhead_us),
    STRETTO_FIGURE(hbm_gb_per_s),
    STRETTO_FIGURE(block_hbm_gb_per_s),
    STRETTO_FIGURE(link_gb_per_s),
    STRETTO_FIGURE(network_gb_per_s),
    STRETTO_FIGURE(network_latency_us),
    STRETTO_FIGURE(copy_engine_all_gb_per_s),
    STRETTO_FIGURE(epilogue_push_gb_per_s),
    STRETTO_FIGURE(signal_us),
    STRETTO_FIGURE(local_signal_us),
    STRETTO_FIGURE(release_us),
    STRETTO_FIGURE(launch_us),
    STRETTO_FIGURE(copy_launch_us),
    STRETTO_FIGURE(nccl_launch_us),
    STRETTO_FIGURE(gemm_slowdown_sm_push),
    STRETTO_FIGURE(gemm_slowdown_copy_engine),
#undef STRETTO_FIGURE
};

struct Curve {
  std::string_view name;
  RateCurve Machine::*value;
};
constexpr Curve kCurves[] = {{"push_by_blocks", &Machine::push_by_blocks},
                             {"copy_engine_by_bytes", &Machine::copy_engine_by_bytes},
                             {"nccl_by_bytes", &Machine::nccl_by_bytes}};

Json to_json(const Machine& machine) {
  Json json = {{"name", machine.name},     {"description", machine.description},
               {"ranks", machine.ranks()}, {"nodes", machine.nodes},
               {"sms", machine.sms},       {"nccl_sms", machine.nccl_sms}};
  for (const Figure& figure : kFigures) json[std::string(figure.name)] = machine.*figure.value;
  for (const Curve& curve : kCurves) {
    Json points = Json::array();
    for (const RateCurve::Point& point : (machine.*curve.value).points) {
      points.push_back({point.x, point.gb_per_s});
    }
    json[std::string(curve.name)] = std::move(points);
  }
  json["sources"] = machine.sources;
  return json;
}

std::string print(const Machine& machine) {
  constexpr size_t kWidth = 28;
  std::string out = fmt::format("{}: {}\n\n", machine.name, machine.description);
  const auto add = [&](std::string_view name, const std::string& text) {
    out += labelled(name, text, kWidth);
  };
  add("nodes", std::to_string(machine.nodes));
  add("ranks_per_node", std::to_string(machine.ranks_per_node));
  add("sms", std::to_string(machine.sms));
  add("nccl_sms", std::to_string(machine.nccl_sms));
  for (const Figure& figure : kFigures)
    add(figure.name, fmt::format("{:g}", machine.*figure.value));
  for (const Curve& curve : kCurves) {
    std::string points;
    for (const RateCurve::Point& point : (machine.*curve.value).points) {
      points += fmt::format("{:g}:{:g} ", point.x, point.gb_per_s);
    }
    add(curve.name, points + "(x : GB/s)");
  }
  out += "\nsources\n";
  for (const std::string& source : machine.sources) out += "  " + wrap(source, 2);
  return out;
}

Outcome run(const Options& options) {
  Json json = json_header("machines");
  json["machines"] = Json::array();
  if (!options.machine.empty()) {
    const Machine machine = load_machine(options.machine);
    if (!options.json) return {print(machine), kGood};
    json["machines"].push_back(to_json(machine));
    return {dump(json), kGood};
  }
  Table table({"machine", "GPUs", "SMs", "GEMM", "link"});
  std::string notes;
  for (const std::string& name : machine_names()) {
    const Machine machine = load_machine(name);
    json["machines"].push_back(to_json(machine));
    table.add({name, fmt::format("{} x {}", machine.nodes, machine.ranks_per_node),
               std::to_string(machine.sms), fmt::format("{:g} TFLOP/s", machine.gemm_tflops),
               fmt::format("{:g} GB/s", machine.link_gb_per_s)});
    notes += labelled(name, machine.description, 16);
  }
  if (options.json) return {dump(json), kGood};
  return {table.print() + '\n' + notes + "\nAll figures of one: stretto machines NAME\n", kGood};
}

}  // namespace

Verb machines_verb() {
  return {"machines", "List the machines, or all figures of one with their sources",
          [](CLI::App& app, Options& options) {
            app.add_option("name", options.machine, "A machine's name or file")->type_name("NAME");
          },
          run};
}

}  // namespace stretto::cli
