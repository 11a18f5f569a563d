#include "cli/tune_run.h"

#include <algorithm>
#include <iterator>

namespace stretto::cli {
namespace {

std::vector<Measured> measurements_of(const BenchedOperator& benched) {
  std::vector<Measured> all;
  for (const BenchedStrategy& one : benched.strategies) {
    if (!one.timed()) continue;
    const runtime::PathTimes& times = one.measured.times;
    Measured measured{to_string(one.choice.schedule),
                      times.warm.median,
                      times.warm.low,
                      times.warm.high,
                      {},
                      one.predicted_us};
    if (times.cold) measured.cold_us = times.cold->median;
    all.push_back(std::move(measured));
  }
  return all;
}

std::vector<Choice> choices_of(const std::vector<Measured>& all, const Operator& op,
                               const Machine& machine) {
  std::vector<Choice> choices;
  for (const Measured& one : all) {
    choices.push_back({one.schedule, parse_schedules(one.schedule, op, machine)});
  }
  return choices;
}

// 0: nothing stands for it.
double library_us(const BenchedOperator& benched) {
  return benched.library.sequential ? benched.library.sequential->warm.median : 0;
}

// Measures who may be the fastest among themselves.
void measure_finals(BenchRun& bench, Swept& swept, runtime::BenchOptions timing,
                    const std::function<void(double)>& progress) {
  const std::vector<Measured> last = finalists(swept.measured);
  if (last.empty()) return;
  const Turns turns = turns_of_finals(last, {timing.rounds, timing.turn_us});
  timing.rounds = turns.rounds;
  timing.turn_us = turns.turn_us;
  BenchedOperator& all = swept.benched;
  BenchedOperator finals =
      bench.run(all.op, all.machine, choices_of(last, all.op, all.machine), timing, progress);
  swept.turn_ms = timing.turn_us / 1e3;
  swept.library_us = library_us(finals);
  for (const BenchedStrategy& one : finals.strategies) {
    if (one.timed()) continue;
    std::erase_if(swept.measured, [&](const Measured& measured) {
      return measured.schedule == to_string(one.choice.schedule);
    });
  }
  swept.measured = with_finals(std::move(swept.measured), measurements_of(finals));
  std::move(finals.strategies.begin(), finals.strategies.end(), std::back_inserter(all.strategies));
}

}  // namespace

// What is measured after the sweep goes by times that all processes know alike.
Swept sweep_on_gpus(BenchRun& bench, const Operator& op, const Machine& machine,
                    std::vector<Choice> choices, const runtime::BenchOptions& timing,
                    const std::function<void(double)>& progress) {
  // The shares of the sweep, of other algorithms and of the finals.
  constexpr double kSweeps = 0.6, kAlgorithms = 0.15, kFinals = 0.25;
  Swept swept;
  BenchedOperator& benched = swept.benched;
  benched = bench.run(op, machine, std::move(choices), timing,
                      [&](double part) { progress(kSweeps * part); });
  swept.turn_ms = timing.turn_us / 1e3;
  swept.library_us = library_us(benched);
  std::vector<Choice> algorithms;
  if (const Segment* only = op.only_product()) {
    for (const Schedule& one : algorithms_to_measure(*only, machine, measurements_of(benched))) {
      algorithms.push_back({to_string(one), one});
    }
  }
  if (!algorithms.empty()) {
    BenchedOperator more = bench.run(op, machine, std::move(algorithms), timing,
                                     [&](double part) { progress(kSweeps + kAlgorithms * part); });
    std::move(more.strategies.begin(), more.strategies.end(),
              std::back_inserter(benched.strategies));
  }
  swept.measured = measurements_of(benched);
  measure_finals(bench, swept, timing, [&](double part) { progress(1 - kFinals * (1 - part)); });
  return swept;
}

}  // namespace stretto::cli
