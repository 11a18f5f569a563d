// stretto run: executes plans on real data, checks and simulates them, and compares them.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/diagnostics.h"
#include "cli/execution.h"
#include "cli/json.h"
#include "cli/prediction.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/run_on_gpus.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "core/text.h"
#include "stretto/check.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

constexpr size_t kDiagnosticsShown = 3;
constexpr size_t kLabelWidth = 12;

// All that is known of one plan, or why there is none.
struct Row : PlanRow {
  Json counts, check_json;
  CheckReport check;
  Execution execution;
  std::optional<Simulation> simulation;
  std::string no_simulation;  // why there is none

  bool good() const { return check.clean() && execution.good(must_reproduce); }
};

Row evaluate(const NamedPlan& named, const Request& request, const ExecutionOptions& options,
             Progress& progress, double done, double share) {
  Row row;
  row.describe(named);
  if (named.plan == nullptr) return row;
  const Plan& plan = *named.plan;
  row.counts = plan_counts(plan);
  row.check = check(plan, named.check_options());
  row.check_json = to_json(row.check, plan, named.lines());
  row.execution = execute(plan, options, [&](double part) {
    progress.show("emulating " + row.name, done + part * share);
  });
  try {
    row.simulation = predict(named, request.machine);
  } catch (const UsageError& error) {  // a plan that never ends has no timeline
    if (row.good()) throw;
    row.no_simulation = error.what();
  }
  return row;
}

Json row_json(const Row& row, const ExecutionOptions& options, std::optional<double> sequential) {
  Json json = {{"strategy", row.name}, {"schedule", row.schedule}};
  json["refused"] = row.refused;
  if (!row.refused.empty()) return json;
  if (!row.reason.empty()) json["reason"] = row.reason;
  json["good"] = row.good();
  json["plan"] = row.counts;
  json["check"] = row.check_json;
  Json seeds = Json::array();
  for (const EmulateResult& result : row.execution.by_seed) {
    seeds.push_back(to_json(result, options.emulate.seed + seeds.size(), row.file));
  }
  json["emulate"] = {{"verified", row.execution.verified},
                     {"reproducible", row.execution.reproducible},
                     {"must_reproduce", row.must_reproduce},
                     {"seeds", std::move(seeds)}};
  json["simulate"] = row.simulation ? prediction_json(*row.simulation, sequential) : Json();
  return json;
}

std::string_view how_compared(Fill fill) {
  switch (fill) {
    case Fill::integers:
      return "equals the plain reference";
    case Fill::specials:
      return "equals the plain reference, infinities and NaNs too";
    case Fill::random:
    case Fill::subnormals:
      return "lies within its error bound of the plain reference";
  }
  return "";
}

// `seconds`: of all strategies, under one seed.
std::string legend(const Request& request, const ExecutionOptions& options, double seconds) {
  const EmulateOptions& emulate = options.emulate;
  return labelled("verified",
                  fmt::format("every output element of {} consecutive runs on {} data {}, under {}",
                              emulate.runs, to_string(emulate.fill), how_compared(emulate.fill),
                              options.num_seeds == 1 ? fmt::format("seed {}", emulate.seed)
                                                     : fmt::format("{} seeds", options.num_seeds)),
                  kLabelWidth) +
         labelled("race-free",
                  "the checker proved every access ordered, within a run and between runs",
                  kLabelWidth) +
         prediction_legend(request.machine, kLabelWidth) +
         labelled("emulated",
                  fmt::format("in {:.1f} s a seed: the real arithmetic of all ranks, on this CPU",
                              seconds),
                  kLabelWidth);
}

std::string print(const std::vector<Row>& rows, const Request& request,
                  const ExecutionOptions& options, std::optional<double> sequential) {
  std::string out = fmt::format("{}\nmachine {}: {}\n\n", to_string(request.op),
                                request.machine.name, request.machine.description);
  Table table(joined({"strategy", "verified", "race-free"}, prediction_header()));
  table.add(joined({"", "", ""}, prediction_units()));
  std::string details;
  double seconds = 0;
  for (const Row& row : rows) {
    if (!row.refused.empty()) {
      table.add_remark(row.name, "cannot serve this: " + join(row.refused, "; "));
      continue;
    }
    std::vector<std::string> prediction(prediction_header().size(), "-");
    if (row.simulation) prediction = prediction_cells(*row.simulation, sequential);
    table.add(joined(
        {row.name, verdict(row.execution.good(row.must_reproduce)), verdict(row.check.clean())},
        prediction));
    seconds += row.execution.seconds;
    if (row.good()) continue;
    details += fmt::format("\n{}\n", row.name);
    details += explain(row.execution, row.file, options, row.must_reproduce);
    details += print_diagnostics(row.check, row.file, kDiagnosticsShown);
    if (!row.no_simulation.empty()) details += "  " + wrap(row.no_simulation, 2);
  }
  out += table.print() + details + '\n' + legend(request, options, seconds);
  int64_t bad_ids = 0;
  for (const Row& row : rows) {
    for (const EmulateResult& result : row.execution.by_seed) {
      bad_ids = std::max(bad_ids, result.bad_ids);
    }
  }
  out += bad_ids_note(request.op, static_cast<uint64_t>(bad_ids), kLabelWidth);
  if (rows.size() == 1) out += '\n' + labelled("schedule", rows.front().schedule, kLabelWidth);
  for (const Row& row : rows) {
    if (!row.reason.empty()) out += labelled(row.name, row.reason, kLabelWidth);
  }
  return out;
}

Outcome run(const Options& options) {
  const ExecutionOptions execution_options = resolve_execution(options);
  if (execution_options.target == Target::cuda) return run_on_gpus(options, execution_options);
  const Request request = resolve(options);
  require_routing(execution_options, request.op);
  const std::optional<double> sequential = sequential_us(request);
  const double share = 1.0 / static_cast<double>(request.num_plans());
  std::vector<Row> rows;
  {
    Progress progress;
    for_each_plan(request, progress, [&](const NamedPlan& named) {
      const double done = share * static_cast<double>(rows.size());
      rows.push_back(evaluate(named, request, execution_options, progress, done, share));
    });
  }
  bool good = true;
  for (const Row& row : rows) good &= !row.refused.empty() || row.good();
  const ExitCode code = good ? kGood : kWrong;
  if (!options.json) return {print(rows, request, execution_options, sequential), code};

  Json json = json_header("run");
  json["good"] = good;
  json["operator"] = to_json(request.op);
  json["machine"] = request.machine.name;
  json["target"] = "emu";
  json["fill"] = to_string(execution_options.emulate.fill);
  json["data_seed"] = execution_options.emulate.data_seed;
  json["runs"] = execution_options.emulate.runs;
  json["results"] = Json::array();
  for (const Row& row : rows)
    json["results"].push_back(row_json(row, execution_options, sequential));
  return {dump(json), code};
}

}  // namespace

Verb run_verb() {
  return {"run", "Execute on real data, verified, and compare strategies",
          [](CLI::App& app, Options& options) {
            add_subject(app, options);
            add_execution(app, options);
          },
          run};
}

}  // namespace stretto::cli
