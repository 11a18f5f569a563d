#include "serve/learning.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text.h"
#include "core/today.h"
#include "serve/measured_with.h"
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
constexpr size_t kMostWords = 300;  // of why a process cannot measure

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
  return times.rounds >= kRoundsToKeep && times.not_compiled == 0 && times.not_reached == 0 &&
         times.no_room == 0;
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
    : of_(of), budget_ms_(budget_ms), predictions_(of.machine) {}

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
  if (measured_schedule(op, of_.machine, of_.tuning, rows)) return verdict;
  if (const auto known = file_->find(op, of_.machine, rows)) {
    if (const auto found = fastest_of(*known, op, of_.machine, rows)) {
      verdict.kind = Verdict::Kind::take;
      verdict.chosen = {to_string(found->schedule),
                        fmt::format("the fastest of {} measured when it was made before: {}",
                                    known->measured.size(), found->reason),
                        sureness_of(*known, rows).within};
      return verdict;
    }
  }
  if (budget_ms <= 0 || unlearnt(op, rows).sureness.is_sure()) return verdict;
  verdict.kind = Verdict::Kind::measure;
  verdict.budget_ms = budget_ms;
  for (const Schedule& one :
       shortlist(op, of_.machine, of_.tuning, rows, kMostMeasured, predictions_)) {
    verdict.schedules.push_back(to_string(one));
  }
  return verdict;
}

AutoSchedule Learning::unlearnt_since(const std::string& why, const Segment& op, RowCount rows) {
  AutoSchedule chosen = unlearnt(op, rows);
  if (!why.empty()) chosen.reason += "; " + why;
  return chosen;
}

AutoSchedule Learning::choose(const Segment& op, RowCount rows, double budget_ms) {
  fabric::HostGroup& group = of_.fabric.group();
  if (!file_) {
    file_.emplace(default_learnt_file(), of_.fabric.device(of_.fabric.first_rank()).name(),
                  measured_with(of_.fabric));
  }
  // Each says why it cannot measure now, and rank 0's process what it found, below.
  std::string mine = "\n" + to_string(Verdict{});
  try {
    const std::string why = fabric::one_line(of_.why_not_now(), kMostWords);
    mine = why + "\n" + to_string(decides() ? verdict_on(op, rows, budget_ms) : Verdict{});
  } catch (const std::exception&) {
    // Nothing serves it, and all processes find that out below; or they do without: none may wait
    // for this one.
  }
  const auto all = group.all_gather("what rank 0 knows of an operator's times", mine);
  const Verdict verdict = parse_verdict(std::string_view(all[0]).substr(all[0].find('\n') + 1));
  if (verdict.kind == Verdict::Kind::take) return taken(verdict, op, rows);
  if (verdict.kind == Verdict::Kind::keep) return unlearnt_since(file_->note(), op, rows);
  for (const std::string& one : all) {
    const std::string why = fabric::one_line(one.substr(0, one.find('\n')), kMostWords);
    if (!why.empty()) return unlearnt_since("not measured: " + why, op, rows);
  }
  return measured(op, rows, verdict);
}

AutoSchedule Learning::taken(const Verdict& verdict, const Segment& op, RowCount rows) {
  AutoSchedule chosen;
  try {
    of_.fabric.group().together("taking what rank 0's process chose", [&] {
      chosen.schedule = parse_schedule(verdict.chosen.schedule, op, of_.machine);
      chosen.schedule.rows = rows;
    });
  } catch (const UsageError& error) {
    return unlearnt_since(fmt::format("what was measured cannot be taken: {}", error.what()), op,
                          rows);
  }
  chosen.reason = verdict.chosen.reason;
  return with_sureness(std::move(chosen), {Evidence::measured, verdict.chosen.within});
}

AutoSchedule Learning::measured(const Segment& op, RowCount rows, const Verdict& verdict) {
  fabric::HostGroup& group = of_.fabric.group();
  runtime::QuickOptions options;
  options.budget_ms = verdict.budget_ms;
  options.timeout_ns = std::min(of_.timeout_ns, options.timeout_ns);
  runtime::QuickTimes times;
  try {
    std::vector<Schedule> schedules;
    group.together("reading what to measure", [&] {
      for (const std::string& one : verdict.schedules) {
        schedules.push_back(parse_schedule(one, op, of_.machine));
        schedules.back().rows = rows;
      }
    });
    times = runtime::quick_times(op, of_.machine, schedules, of_.fabric, of_.compiler, of_.kernels,
                                 options);
  } catch (const std::runtime_error& error) {
    if (group.has_failed()) throw;  // nor would the others go on
    return unlearnt_since(fmt::format("not measured: {}", error.what()), op, rows);
  }
  if (times.measured.empty()) {
    return unlearnt_since("measured nothing: " + runtime::in_words(times), op, rows);
  }
  std::string mine = to_string(Verdict{});
  try {
    if (decides()) mine = to_string(verdict_of(times, op, rows));
  } catch (const std::exception&) {
    // As above.
  }
  const Verdict of_rank_0 =
      parse_verdict(group.all_gather("what rank 0 takes of what was measured", mine).front());
  if (of_rank_0.kind == Verdict::Kind::take) return taken(of_rank_0, op, rows);
  return unlearnt_since("what was the fastest cannot serve", op, rows);
}

Verdict Learning::verdict_of(const runtime::QuickTimes& times, const Segment& op, RowCount rows) {
  TunedOperator learnt;
  learnt.op = op;
  learnt.machine = of_.machine.name;
  learnt.date = today();
  learnt.library_us = times.library_us;
  learnt.measured = times.measured;
  Verdict verdict;
  const auto found = fastest_of(learnt, op, of_.machine, rows);
  if (!found) return verdict;
  verdict.kind = Verdict::Kind::take;
  verdict.chosen = {
      to_string(found->schedule),
      fmt::format("the fastest when it was made, {}: {}", found->reason, runtime::in_words(times)),
      sureness_of(learnt, rows).within};
  if (is_whole(times)) {
    file_->add(std::move(learnt), rows);
    if (!file_->note().empty()) verdict.chosen.reason += "; " + file_->note();
  } else {
    file_->keep(std::move(learnt), rows);
    verdict.chosen.reason += "; the next process measures again";
  }
  return verdict;
}

}  // namespace stretto
