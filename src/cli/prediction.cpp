#include "cli/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/table.h"
#include "stretto/lower.h"

namespace stretto::cli {

Simulation predict(const NamedPlan& named, const Machine& machine) {
  if (named.file == nullptr) return simulate_lowered(*named.plan, machine);
  try {
    return simulate(*named.plan, machine);
  } catch (const EndlessPlan& error) {
    throw EndlessPlan(place(named.file, error.where) + error.what(), error.where);
  }
}

std::optional<double> hidden_share(const Simulation& simulation) {
  if (simulation.communication_us <= 0) return std::nullopt;
  return std::clamp(1 - simulation.exposed_us / simulation.communication_us, 0.0, 1.0);
}

namespace {

std::optional<double> speed_up(const Simulation& simulation, std::optional<double> sequential_us) {
  if (!sequential_us || simulation.total_us <= 0) return std::nullopt;
  return *sequential_us / simulation.total_us;
}

}  // namespace

std::optional<double> sequential_us(const Request& request) {
  const OperatorSchedule schedule =
      schedule_of(find_preset("sequential"), request.op, request.machine);
  if (!legal(request.op, schedule, request.machine).empty()) return std::nullopt;
  return simulated_us(lower(request.op, schedule, request.machine), request.machine);
}

std::vector<std::string> prediction_header() {
  return {"predicted", "GEMM", "exposed", "hidden", "speed-up", "efficiency"};
}

std::vector<std::string> prediction_units() { return {"us", "us", "us", "%", "x", "%"}; }

std::vector<std::string> prediction_cells(const Simulation& simulation,
                                          std::optional<double> sequential_us) {
  const auto hidden = hidden_share(simulation);
  const auto faster = speed_up(simulation, sequential_us);
  return {fmt::format("{:.1f}", simulation.total_us),
          fmt::format("{:.1f}", simulation.compute_us),
          fmt::format("{:.1f}", simulation.exposed_us),
          hidden ? fmt::format("{:.0f}", 100 * *hidden) : "-",
          faster ? fmt::format("{:.2f}", *faster) : "-",
          fmt::format("{:.0f}", 100 * simulation.efficiency)};
}

std::string prediction_legend(const Machine& machine, size_t label_width) {
  return labelled("predicted",
                  fmt::format("simulated on {} until the last rank is done, not measured "
                              "(docs/simulation.md)",
                              machine.name),
                  label_width) +
         labelled("GEMM", "the GEMM of the slowest rank alone, on all SMs", label_width) +
         labelled("exposed", "predicted - GEMM: communication that nothing hides", label_width) +
         labelled("hidden", "share of the communication that runs behind the GEMM", label_width) +
         labelled("speed-up", "over `sequential`: the whole GEMM, then one NCCL collective",
                  label_width) +
         labelled("efficiency", "floor / predicted; floor = max(GEMM, least bytes / link rate)",
                  label_width);
}

Json prediction_json(const Simulation& simulation, std::optional<double> sequential_us) {
  Json json = to_json(simulation);
  const auto hidden = hidden_share(simulation);
  const auto faster = speed_up(simulation, sequential_us);
  json["hidden_share"] = hidden ? Json(*hidden) : Json();
  json["speedup_over_sequential"] = faster ? Json(*faster) : Json();
  return json;
}

}  // namespace stretto::cli
