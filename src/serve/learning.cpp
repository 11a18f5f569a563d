#include "serve/learning.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text.h"
#include "core/today.h"
#include "measure/quick_times.h"
#include "stretto/error.h"
#include "tune/expected_schedule.h"
#include "tune/nearness.h"
#include "tune/shortlist.h"
#include "tune/sureness.h"

namespace stretto {
namespace {

// The best of so many was within 2 % of the best of whole sweeps for nine in ten operators whose
// model nobody had measured (docs/tuning.md).
constexpr size_t kMostMeasured = 8;
// Of what a few rounds of so many schedules find; the GPU may still slow down. Fewer have hardly
// been a choice.
constexpr Sureness kLearnt = {Evidence::measured, 0.03};
constexpr size_t kEnough = 4;
constexpr int kRoundsToKeep = 2;

constexpr double kMostBudgetMs = 60'000;

// Times of ranks that share GPUs are of such ranks only.
std::string gpu_of(const fabric::Fabric& fabric) {
  const std::string name = fabric.device(fabric.first_rank()).name();
  if (fabric.ranks_a_gpu() == 1) return name;
  return fmt::format("{}, {} ranks a GPU", name, fabric.ranks_a_gpu());
}

// The fastest of what was learnt that can serve.
std::optional<AutoSchedule> fastest_of(const TunedOperator& learnt, const Segment& op,
                                       const Machine& machine, RowCount rows) {
  for (const Measured& one : learnt.measured) {
    const auto schedule = as_measured(learnt, one, op, machine, rows);
    if (!schedule) continue;
    return AutoSchedule{*schedule, fmt::format("{:.1f} us", one.time_us)};
  }
  return std::nullopt;
}

// Whether another time would find no more.
bool is_whole(const runtime::QuickTimes& times) {
  return times.rounds >= kRoundsToKeep && times.not_compiled == 0 && times.not_reached == 0;
}

}  // namespace

std::optional<double> measure_ms_of(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto ms = int_from(text);
  if (!ms || *ms < 0 || *ms > static_cast<int64_t>(kMostBudgetMs)) {
    throw UsageError(fmt::format(
        "STRETTO_MEASURE_MS is {}; it is a whole number of milliseconds from 0 to {:.0f}",
        quote(text), kMostBudgetMs));
  }
  return static_cast<double>(*ms);
}

Learning::Learning(const Of& of, double budget_ms)
    : of_(of),
      budget_ms_(budget_ms),
      file_(default_learnt_file(), gpu_of(of.fabric)),
      predictions_(of.machine) {}

double Learning::budget_ms(const std::optional<double>& asked) const {
  if (!asked) return budget_ms_;
  if (!(*asked >= 0 && *asked <= kMostBudgetMs)) {
    throw UsageError(
        fmt::format("measure_ms is {}; it is a number of milliseconds from 0 to {:.0f}", *asked,
                    kMostBudgetMs));
  }
  return *asked;
}

AutoSchedule Learning::unlearnt(const Segment& op, RowCount rows) {
  if (rows == RowCount::bucket) return served_schedule(op, of_.machine, of_.tuning);
  return auto_schedule(op, of_.machine, of_.tuning, predictions_);
}

Sureness Learning::sureness_of(const TunedOperator& learnt, RowCount rows) {
  return learnt.measured.size() >= kEnough ? kLearnt : unlearnt(learnt.op, rows).sureness;
}

Verdict Learning::verdict_on(const Segment& op, RowCount rows, double budget_ms) {
  Verdict verdict;
  if (!decides() || measured_schedule(op, of_.machine, of_.tuning, rows)) return verdict;
  verdict.known = file_.find(op, of_.machine, rows);
  if (verdict.known && fastest_of(*verdict.known, op, of_.machine, rows)) {
    verdict.kind = Verdict::Kind::known;
  } else if (budget_ms > 0 && !unlearnt(op, rows).sureness.is_sure()) {
    verdict.kind = Verdict::Kind::measure;
    verdict.budget_ms = budget_ms;
    for (const Schedule& one :
         shortlist(op, of_.machine, of_.tuning, rows, kMostMeasured, predictions_)) {
      verdict.schedules.push_back(to_string(one));
    }
  }
  return verdict;
}

AutoSchedule Learning::choose(const Segment& op, RowCount rows, double budget_ms) {
  std::string mine = to_string(Verdict{});
  try {
    mine = to_string(verdict_on(op, rows, budget_ms));
  } catch (const std::exception&) {
    // Nothing serves it, and all processes find that out below; or they do without: none may wait
    // for this one.
  }
  const Verdict verdict = parse_verdict(
      of_.fabric.group().all_gather("what rank 0 knows of an operator's times", mine).front());
  if (verdict.kind == Verdict::Kind::measure) return measured(op, rows, verdict);
  if (verdict.kind == Verdict::Kind::known) {
    if (auto found = fastest_of(*verdict.known, op, of_.machine, rows)) {
      found->reason = fmt::format("the fastest of {} measured when it was made before: {}",
                                  verdict.known->measured.size(), found->reason);
      return with_sureness(std::move(*found), sureness_of(*verdict.known, rows));
    }
  }
  AutoSchedule chosen = unlearnt(op, rows);
  if (!file_.note().empty()) chosen.reason += "; " + file_.note();
  return chosen;
}

AutoSchedule Learning::measured(const Segment& op, RowCount rows, const Verdict& verdict) {
  const auto without = [&](const std::string& why) {
    AutoSchedule chosen = unlearnt(op, rows);
    chosen.reason += "; " + why;
    return chosen;
  };
  std::vector<Schedule> schedules;
  for (const std::string& one : verdict.schedules) {
    schedules.push_back(parse_schedule(one, op, of_.machine));
    schedules.back().rows = rows;
  }
  runtime::QuickOptions options;
  options.budget_ms = verdict.budget_ms;
  options.timeout_ns = std::min(of_.timeout_ns, options.timeout_ns);
  runtime::QuickTimes times;
  try {
    times = runtime::quick_times(op, of_.machine, schedules, of_.fabric, of_.compiler, of_.kernels,
                                 options);
  } catch (const SystemError& error) {
    if (of_.fabric.group().has_failed()) throw;  // nor would the others go on
    return without(fmt::format("not measured: {}", error.what()));
  }
  if (times.measured.empty()) return without("measured nothing: " + runtime::in_words(times));
  TunedOperator learnt;
  learnt.op = op;
  learnt.machine = of_.machine.name;
  learnt.date = today();
  learnt.library_us = times.library_us;
  learnt.measured = times.measured;
  auto found = fastest_of(learnt, op, of_.machine, rows);
  if (!found) return without("what was the fastest cannot serve");
  found->reason =
      fmt::format("the fastest when it was made, {}: {}", found->reason, runtime::in_words(times));
  const Sureness sureness = sureness_of(learnt, rows);
  if (decides() && is_whole(times)) {
    file_.add(std::move(learnt), rows);
    if (!file_.note().empty()) found->reason += "; " + file_.note();
  } else if (decides()) {
    file_.keep(std::move(learnt), rows);
    found->reason += "; the next process measures again";
  }
  return with_sureness(std::move(*found), sureness);
}

}  // namespace stretto
