// stretto tune: measures a sweep of the schedule space and keeps it for `auto`.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/tune_run.h"
#include "cli/verb.h"
#include "core/file.h"
#include "core/text.h"
#include "core/today.h"
#include "schedule/short_text.h"
#include "stretto/error.h"
#include "stretto/tune.h"
#include "tune/limits.h"
#include "tune/own_graph.h"

namespace stretto::cli {
namespace {

// What is to be measured and kept.
struct TuneRequest {
  std::vector<Operator> operators;
  runtime::BenchOptions timing;
  std::string commit, file;
  size_t more = 0;  // schedules beside the presets
};

// What the sweep of all operators gave.
struct TuneResult {
  Tuning found;
  std::vector<std::string> wrong, refused;  // the latter: operators that nothing was measured of
};

// Of one product what follows it tile by tile changes little: it is tuned as the product alone, as
// that is what `auto` asks for.
Operator as_filed(const Operator& op, const std::string& subject) {
  if (op.text == find_graph(op.name())) return op;
  if (!can_be_filed(op)) {
    throw UsageError(
        fmt::format("tuning files hold graphs of up to {} characters, and products of one weight "
                    "that ranks share, not {}: time it with `stretto bench`",
                    kMostTunedGraph, quote(subject, 200)));
  }
  const Segment* const only = op.only_product();
  return only != nullptr ? Operator(*only) : op;
}

TuneRequest request_of(const Options& options) {
  TuneRequest request;
  request.operators = resolve_operators(options);
  for (Operator& op : request.operators) op = as_filed(op, options.subject);
  request.timing = resolve_timing(options);
  request.commit = resolve_commit(options);
  request.more = static_cast<size_t>(whole_number("--more", options.more, 4, 0, 500));
  request.file = options.tuning_file.empty() ? default_tuning_file() : options.tuning_file;
  if (request.file.empty()) {
    throw UsageError("there is no home folder to keep the tuning in: give --file FILE");
  }
  check_tuning_file(request.file);
  return request;
}

// Before a GPU is looked for.
void require_some_preset(const Operator& op, const Machine& machine) {
  constexpr bool kNeedAll = false;
  std::vector<Choice> choices = resolve_strategies("all", op, machine);
  refuse_what_no_gpu_runs(choices, op, op.rows(), machine);
  require_served(choices, kNeedAll);
}

std::vector<Choice> choices_of(const Operator& op, const Machine& machine, size_t more) {
  std::vector<Choice> choices;
  for (const GraphCandidate& candidate : candidates_to_measure(op, machine, more)) {
    choices.push_back({to_string(candidate.schedule), candidate.schedule});
  }
  return choices;
}

TunedSchedules tuned_of(const Swept& swept, const std::string& gpu, const std::string& commit) {
  TunedSchedules tuned;
  tuned.machine = swept.benched.machine.name;
  tuned.gpu = gpu;
  tuned.commit = commit;
  tuned.date = today();
  tuned.turn_ms = swept.turn_ms;
  tuned.library_us = swept.library_us;
  tuned.measured = swept.measured;
  return tuned;
}

void add_what_is_wrong(const Swept& swept, std::vector<std::string>& wrong) {
  for (const BenchedStrategy& one : swept.benched.strategies) {
    if (one.measured.problem.empty()) continue;
    wrong.push_back(fmt::format("{} {}: {}", to_string(swept.benched.op), one.choice.name,
                                one.measured.problem));
  }
}

std::string why_not_measured(const Swept& swept) {
  const std::string& problem = swept.benched.library.problem;
  if (!swept.measured.empty()) {
    return fmt::format("{}: nothing stands for cuBLAS and NCCL{}{}", to_string(swept.benched.op),
                       problem.empty() ? "" : ": ", problem);
  }
  std::string why = "no schedule was right";
  for (const BenchedStrategy& one : swept.benched.strategies) {
    if (!one.choice.refused.empty()) why = join(one.choice.refused, "; ");
  }
  return fmt::format("{}: {}", to_string(swept.benched.op), why);
}

TuneResult measure(BenchRun& bench, const Machine& machine, const TuneRequest& request) {
  const std::vector<Operator>& operators = request.operators;
  Progress progress;
  // Of all before the first is measured: an operator that cannot be served ends no long sweep.
  std::vector<std::vector<Choice>> choices;
  for (const Operator& op : operators) {
    progress.show("simulating " + to_string(op), 0);
    choices.push_back(choices_of(op, machine, request.more));
  }
  TuneResult result;
  const double share = 1.0 / static_cast<double>(operators.size());
  for (size_t i = 0; i < operators.size(); ++i) {
    const Operator& op = operators[i];
    const double done = share * static_cast<double>(i);
    const Swept swept = sweep_on_gpus(
        bench, op, machine, choices[i], request.timing,
        [&](double part) { progress.show("measuring " + to_string(op), done + share * part); });
    add_what_is_wrong(swept, result.wrong);
    if (swept.measured.empty() || swept.library_us <= 0) {
      result.refused.push_back(why_not_measured(swept));
      continue;
    }
    result.found.add(op, tuned_of(swept, bench.gpu(), request.commit));
    // After every operator: a long sweep that ends early has not been for nothing.
    if (bench.speaks()) add_to_tuning(request.file, result.found);
  }
  return result;
}

std::string print(const TuneResult& result, const Machine& machine, const std::string& file) {
  Table table({"operator", "fastest", "x library", "predicted", "measured"});
  table.add({"", "us", "", "us", "schedules"});
  std::string schedules;
  const auto add = [&](const Operator& op, const TunedSchedules& tuned) {
    const Measured& best = tuned.measured.front();
    table.add({to_string(op), fmt::format("{:.1f}", best.time_us),
               fmt::format("{:.2f}", tuned.library_us / best.time_us),
               best.predicted_us ? fmt::format("{:.1f}", *best.predicted_us) : "-",
               fmt::format("{}", tuned.measured.size())});
    const OperatorSchedule schedule = parse_schedules(best.schedule, op, machine);
    std::string sizes;
    for (const auto& [name, size] : op.sizes) sizes += fmt::format(" {}={}", name, size);
    schedules += fmt::format(" {}: {}\n", sizes, short_text(schedule, op, machine));
  };
  for (const TunedOperator& tuned : result.found.operators()) add(tuned.op, tuned);
  for (const TunedGraph& tuned : result.found.graphs()) add(tuned.op, tuned);
  std::string out = table.print() + '\n' + schedules + '\n';
  for (const std::string& line : result.wrong) out += "WRONG: " + wrap(line, 2);
  for (const std::string& line : result.refused) out += "not tuned: " + wrap(line, 2);
  return out + fmt::format("plans for {} with {} SMs; kept in {}\n", machine.name, machine.sms,
                           quote(file, 200));
}

std::string print_json(const TuneResult& result, const Machine& machine, const std::string& file) {
  Json json = json_header("tune");
  json["file"] = file;
  json["sms"] = machine.sms;
  json["wrong"] = result.wrong;
  json["refused"] = result.refused;
  json["tuning"] = Json::parse(print_tuning(result.found));
  return dump(json);
}

Outcome run(const Options& options) {
  const TuneRequest request = request_of(options);
  const int ranks = ranks_of_all(request.operators);
  Machine machine = resolve_machine(options, ranks);
  for (const Operator& op : request.operators) require_some_preset(op, machine);
  BenchRun bench(ranks);
  limit_sms(machine, bench.sms());
  const TuneResult result = measure(bench, machine, request);
  const bool found = !result.found.operators().empty() || !result.found.graphs().empty();
  if (!found && result.wrong.empty()) {
    throw UsageError("no schedule of the sweep can run on these GPUs: " + result.refused.back());
  }
  const ExitCode code = result.wrong.empty() ? kGood : kWrong;
  if (!bench.speaks()) return {"", code};
  return {options.json ? print_json(result, machine, request.file)
                       : print(result, machine, request.file),
          code};
}

}  // namespace

Verb tune_verb() {
  return {"tune", "Measure a sweep of schedules on GPUs, for `auto` to choose from",
          [](CLI::App& app, Options& options) {
            add_shapes(app, options);
            add_option(app, "--more", options.more,
                       "Schedules beside the presets, the fastest by simulation [4]", "COUNT",
                       "Measurement");
            add_option(app, "--file", options.tuning_file,
                       "Tuning file that is added to [STRETTO_TUNING_FILE, see: stretto env]",
                       "FILE", "Measurement");
            add_timing(app, options);
          },
          run, "stretto tune gemm-rs --m 4096 --n 8192 --k 14336 --ranks 4"};
}

}  // namespace stretto::cli
