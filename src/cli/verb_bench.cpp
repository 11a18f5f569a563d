// stretto bench: times strategies on GPUs beside NCCL and cuBLAS.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/bench_report.h"
#include "cli/bench_run.h"
#include "cli/execution.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "core/file.h"
#include "core/text.h"
#include "core/today.h"
#include "gpu/device.h"
#include "measure/expert_rows.h"
#include "stretto/error.h"
#include "stretto/tune.h"

namespace stretto::cli {
namespace {

// What is timed: the list, and what speed-ups are over where that is not in it.
std::vector<Choice> contestants_of(const std::string& strategies, const std::string& against,
                                   const Operator& op, const Machine& machine) {
  std::vector<Choice> choices = resolve_strategies(strategies, op, machine);
  const auto is_it = [&](const Choice& choice) { return choice.name == against; };
  if (against == kLibrary || std::any_of(choices.begin(), choices.end(), is_it)) return choices;
  std::vector<Choice> added;
  try {
    added = resolve_strategies(against, op, machine, RowCount::fixed, kAutoWords);
  } catch (const UsageError& error) {
    throw UsageError(
        fmt::format("--against takes a strategy or library (cuBLAS, then NCCL): {}", error.what()));
  }
  if (added.size() != 1) {
    throw UsageError(
        fmt::format("--against {} is {} strategies; take one of them, or library (cuBLAS, then "
                    "NCCL)",
                    quote(against), added.size()));
  }
  choices.push_back(std::move(added.front()));
  return choices;
}

// What --routing says is of ids that the caller gives; it is not for a router, nor for look-ups,
// whose bags are full.
Routing resolve_routing(const Options& options, const std::vector<Operator>& operators) {
  if (options.routing.empty()) return {};
  const Routing routing = routing_from(options.routing);
  for (const Operator& op : operators) {
    require_routing_of(routing, op, runtime::takes_routing(op));
  }
  return routing;
}

// Of every operator, each of which some must serve. Looked at before there are GPUs.
std::vector<std::vector<Choice>> all_contestants(const std::vector<Operator>& operators,
                                                 const std::string& strategies,
                                                 const std::string& against,
                                                 const Machine& machine) {
  constexpr bool kNeedAll = false;
  std::vector<std::vector<Choice>> all;
  for (const Operator& op : operators) {
    all.push_back(contestants_of(strategies, against, op, machine));
    refuse_what_no_gpu_runs(all.back(), op, op.rows(), machine);
    require_served(all.back(), kNeedAll);
  }
  return all;
}

// A wrong result is worse than none of them being served by these GPUs.
ExitCode exit_code_of(const std::vector<BenchedOperator>& rows) {
  ExitCode worst = kGood;
  for (const BenchedOperator& row : rows) {
    if (!row.problem.empty()) {
      worst = kSystemFault;
      continue;
    }
    const auto& all = row.strategies;
    const auto is_refused = [](const auto& one) { return !one.choice.refused.empty(); };
    const auto is_wrong = [](const auto& one) { return !one.measured.problem.empty(); };
    if (std::any_of(all.begin(), all.end(), is_wrong)) return kWrong;
    if (std::all_of(all.begin(), all.end(), is_refused)) worst = std::max(worst, kBadUsage);
  }
  return worst;
}

// One that cannot be measured, for want of memory say, does not end a list; where none can any
// more, as after a GPU's fault, the second does.
BenchedOperator bench_or_problem(const std::function<BenchedOperator()>& bench, const Operator& op,
                                 const Machine& machine, bool may_fail) {
  try {
    return bench();
  } catch (const SystemError& error) {
    if (!may_fail) throw;
    BenchedOperator failed;
    failed.op = op;
    failed.machine = machine;
    failed.problem = error.what();
    return failed;
  }
}

Outcome run(const Options& options) {
  const std::vector<Operator> operators = resolve_operators(options);
  runtime::BenchOptions timing = resolve_timing(options);
  timing.parts = true;
  timing.routing = resolve_routing(options, operators);
  const std::string commit = resolve_commit(options);
  const std::string strategies = options.strategy.empty() ? "all" : options.strategy;
  const std::string against = options.against.empty() ? std::string(kLibrary) : options.against;
  const int ranks = ranks_of_all(operators);
  Machine machine = resolve_machine(options, ranks, {.name = cuda::gpu_name()});
  auto choices = all_contestants(operators, strategies, against, machine);
  BenchRun bench(ranks);
  if (bench.sms() < machine.sms) {
    limit_sms(machine, bench.sms());
    choices = all_contestants(operators, strategies, against, machine);
  }
  std::vector<BenchedOperator> rows;
  const auto results = [&] {
    Json json = json_header("bench");
    json["benchmark"] = "fused";
    json["machine"] = bench.gpu();
    json["plans_for"] = machine.name;
    json["sms"] = machine.sms;
    json["ranks"] = ranks;
    json["commit"] = commit;
    json["date"] = today();
    json["data"] = "standard normal";
    json["runs_per_graph"] = timing.runs_per_graph;
    json["rounds"] = timing.rounds;
    json["turn_ms"] = std::lround(timing.turn_us / 1e3);
    json["rows"] = Json::array();
    for (const BenchedOperator& row : rows) json["rows"].push_back(to_json(row));
    return dump(json);
  };
  // What ends a long benchmark before its end does not take what was measured with it.
  const bool keeps = options.json && !options.output.empty() && bench.speaks();
  {
    Progress progress;
    const double share = 1.0 / static_cast<double>(operators.size());
    for (size_t i = 0; i < operators.size(); ++i) {
      const auto measured = [&] {
        return bench.run(operators[i], machine, choices[i], timing, [&](double part) {
          progress.show("measuring " + to_string(operators[i]),
                        share * (static_cast<double>(i) + part));
        });
      };
      const bool may_fail = operators.size() > 1 && (rows.empty() || rows.back().problem.empty());
      rows.push_back(bench_or_problem(measured, operators[i], machine, may_fail));
      if (keeps) write_file(options.output, results());
    }
  }
  const ExitCode code = exit_code_of(rows);
  if (!bench.speaks()) return {"", code};
  if (!options.json) {
    std::string out;
    for (const BenchedOperator& row : rows) out += print(row, against);
    return {out + legend(bench.gpu(), options, machine, timing, against), code};
  }
  return {results(), code};
}

}  // namespace

Verb bench_verb() {
  return {
      "bench", "Time strategies on GPUs beside cuBLAS and NCCL",
      [](CLI::App& app, Options& options) {
        add_shapes(app, options);
        add_option(app, "--strategy", options.strategy,
                   "Presets and schedules (tiles,decomposed), auto, all or sweep [all]", "LIST",
                   "Measurement");
        add_option(
            app, "--against", options.against,
            "Speed-ups are over library (cuBLAS, then NCCL) or a strategy, which is timed too "
            "[library]",
            "NAME", "Measurement");
        add_option(app, "--routing", options.routing,
                   "Experts that rows choose: uniform, zipf, one-hot, adversarial, or a file with "
                   "a line of them for each row [uniform]",
                   "ROUTING", "Measurement");
        add_kernels(app, options, "Measurement");
        add_timing(app, options);
      },
      run,
      "stretto bench gemm-rs --m 4096 --n 8192 --k 14336 --ranks 4 --strategy sequential,tiles"};
}

}  // namespace stretto::cli
