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
#include "schedule/short_text.h"
#include "stretto/error.h"
#include "stretto/tune.h"

namespace stretto::cli {
namespace {

// Before a GPU is looked for.
void require_some_preset(const Operator& op, const Machine& machine) {
  constexpr bool kNeedAll = false;
  std::vector<Choice> choices = resolve_strategies("all", op, machine);
  refuse_what_no_gpu_runs(choices, op, op.m, machine);
  require_served(choices, kNeedAll);
}

std::vector<Choice> choices_of(const Operator& op, const Machine& machine, size_t more) {
  std::vector<Choice> choices;
  for (const Candidate& candidate : sweep_candidates(op, machine, more)) {
    choices.push_back({to_string(candidate.schedule), candidate.schedule});
  }
  return choices;
}

TunedOperator tuned_of(const Swept& swept, const std::string& gpu, const std::string& commit) {
  TunedOperator tuned;
  tuned.op = swept.benched.op;
  tuned.machine = swept.benched.machine.name;
  tuned.gpu = gpu;
  tuned.commit = commit;
  tuned.date = today();
  tuned.turn_ms = swept.turn_ms;
  tuned.library_us = swept.library_us;
  tuned.measured = swept.measured;
  return tuned;
}

std::string print(const Tuning& found, const Machine& machine,
                  const std::vector<std::string>& wrong, const std::vector<std::string>& refused,
                  const std::string& file) {
  Table table({"operator", "fastest", "x library", "predicted", "measured"});
  table.add({"", "us", "", "us", "schedules"});
  std::string schedules;
  for (const TunedOperator& tuned : found.operators()) {
    const Measured& best = tuned.measured.front();
    table.add({to_string(tuned.op), fmt::format("{:.1f}", best.time_us),
               fmt::format("{:.2f}", tuned.library_us / best.time_us),
               best.predicted_us ? fmt::format("{:.1f}", *best.predicted_us) : "-",
               fmt::format("{}", tuned.measured.size())});
    const Schedule schedule = parse_schedule(best.schedule, tuned.op, machine);
    schedules += fmt::format("  m={} n={} k={}: {}\n", tuned.op.m, tuned.op.n, tuned.op.k,
                             short_text(schedule, tuned.op, machine));
  }
  std::string out = table.print() + '\n' + schedules + '\n';
  for (const std::string& line : wrong) out += "WRONG: " + wrap(line, 2);
  for (const std::string& line : refused) out += "not tuned: " + wrap(line, 2);
  return out + fmt::format("plans for {} with {} SMs; kept in {}\n", machine.name, machine.sms,
                           quote(file, 200));
}

Outcome run(const Options& options) {
  const std::vector<Operator> operators = resolve_operators(options);
  const runtime::BenchOptions timing = resolve_timing(options);
  const std::string commit = resolve_commit(options);
  const auto more = static_cast<size_t>(whole_number("--more", options.more, 4, 0, 500));
  const std::string file =
      options.tuning_file.empty() ? default_tuning_file() : options.tuning_file;
  if (file.empty()) {
    throw UsageError("there is no home folder to keep the tuning in: give --file FILE");
  }
  check_tuning_file(file);
  const int ranks = ranks_of_all(operators);
  Machine machine = resolve_machine(options, ranks);
  for (const Operator& op : operators) require_some_preset(op, machine);
  BenchRun bench(ranks);
  limit_sms(machine, bench.sms());
  Tuning found;
  std::vector<std::string> wrong, refused;  // the latter: operators that nothing was measured of
  Progress progress;
  // Of all before the first is measured: an operator that cannot be served ends no long sweep.
  std::vector<std::vector<Choice>> choices;
  for (const Operator& op : operators) {
    progress.show("simulating " + to_string(op), 0);
    choices.push_back(choices_of(op, machine, more));
  }
  const double share = 1.0 / static_cast<double>(operators.size());
  for (size_t i = 0; i < operators.size(); ++i) {
    const Operator& op = operators[i];
    const double done = share * static_cast<double>(i);
    const Swept swept = sweep_on_gpus(bench, op, machine, choices[i], timing, [&](double part) {
      progress.show("measuring " + to_string(op), done + share * part);
    });
    for (const BenchedStrategy& one : swept.benched.strategies) {
      if (!one.measured.problem.empty()) {
        wrong.push_back(
            fmt::format("{} {}: {}", to_string(op), one.choice.name, one.measured.problem));
      }
    }
    if (swept.measured.empty()) {
      std::string why = "no schedule was right";
      for (const BenchedStrategy& one : swept.benched.strategies) {
        if (!one.choice.refused.empty()) why = join(one.choice.refused, "; ");
      }
      refused.push_back(fmt::format("{}: {}", to_string(op), why));
      continue;
    }
    found.add(tuned_of(swept, bench.gpu(), commit));
    if (!bench.speaks()) continue;
    // After every operator: a long sweep that ends early has not been for nothing.
    add_to_tuning(file, found);
  }
  if (found.operators().empty() && wrong.empty()) {
    throw UsageError("no schedule of the sweep can run on these GPUs: " + refused.back());
  }
  const ExitCode code = wrong.empty() ? kGood : kWrong;
  if (!bench.speaks()) return {"", code};
  if (!options.json) return {print(found, machine, wrong, refused, file), code};
  Json json = json_header("tune");
  json["file"] = file;
  json["sms"] = machine.sms;
  json["wrong"] = wrong;
  json["refused"] = refused;
  json["tuning"] = Json::parse(print_tuning(found));
  return {dump(json), code};
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
