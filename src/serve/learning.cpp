#include "serve/learning.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/text.h"
#include "core/today.h"
#include "schedule/set_rows.h"
#include "serve/measured_with.h"
#include "stretto/error.h"
#include "tune/expected_schedule.h"
#include "tune/graph_shortlist.h"
#include "tune/shortlist.h"

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

// As it was measured, for a plan of such rows; nothing where it cannot serve these.
std::optional<OperatorSchedule> as_learnt(const Measured& one, const Operator& op,
                                          const Machine& machine, RowCount rows) {
  try {
    OperatorSchedule schedule = parse_schedules(one.schedule, op, machine);
    set_rows(schedule, rows);
    if (legal(op, schedule, machine).empty()) return schedule;
  } catch (const UsageError&) {  // by a file of this build, of a machine that is another now
  }
  return std::nullopt;
}

// The fastest of what was learnt that can serve.
std::optional<Verdict::Chosen> fastest_of(const TunedSchedules& learnt, const Operator& op,
                                          const Machine& machine, RowCount rows) {
  for (const Measured& one : learnt.measured) {
    const auto schedule = as_learnt(one, op, machine, rows);
    if (schedule) {
      return Verdict::Chosen{to_string(*schedule), fmt::format("{:.1f} us", one.time_us), {}};
    }
  }
  return std::nullopt;
}

// A line for people, and how sure it is, where that is known.
std::string with_sureness(std::string reason, const Sureness& sureness) {
  return sureness.within < 1 ? reason + "; " + to_string(sureness) : reason;
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

AutoSchedules Learning::unlearnt(const Operator& op, RowCount rows) {
  AutoSchedules chosen = rows == RowCount::bucket
                             ? auto_schedules(op, of_.machine, of_.tuning, rows)
                             : auto_schedules(op, of_.machine, of_.tuning, predictions_);
  as_context_runs(chosen.schedule);
  return chosen;
}

bool Learning::is_swept(const Operator& op, RowCount rows) const {
  const Segment* const only = op.only_product();
  if (only != nullptr) return measured_schedule(*only, of_.machine, of_.tuning, rows).has_value();
  return measured_schedules(op, of_.machine, of_.tuning).has_value();
}

// Of several products no sweep says how good the best of a few is.
Sureness Learning::sureness_of(const TunedSchedules& learnt, const Operator& op, RowCount rows) {
  if (op.only_product() == nullptr) return {Evidence::measured, 1};
  if (learnt.measured.size() >= kEnough) return kLearnt;
  return {Evidence::measured, unlearnt(op, rows).sureness.within};
}

std::vector<OperatorSchedule> Learning::worth_measuring(const Operator& op, RowCount rows) {
  std::vector<OperatorSchedule> all;
  if (const Segment* const only = op.only_product()) {
    for (const Schedule& one :
         shortlist(*only, of_.machine, of_.tuning, rows, kMostMeasured, predictions_)) {
      all.emplace_back(one);
    }
  } else {
    all = graph_shortlist(op, of_.machine, of_.tuning, kMostMeasured, predictions_);
  }
  for (OperatorSchedule& one : all) as_context_runs(one);
  return all;
}

// What others run on SMs left to them may stand between the two SMs of a cluster.
void Learning::as_context_runs(OperatorSchedule& schedule) const {
  if (of_.fabric.device(of_.fabric.first_rank()).free_sms() == 0) return;
  for (Schedule& product : schedule.products) product.cluster = 1;
}

std::optional<Verdict::Chosen> Learning::known(const Operator& op, RowCount rows) {
  const auto learnt = file_->find(op, of_.machine, rows);
  if (!learnt) return std::nullopt;
  auto found = fastest_of(*learnt, op, of_.machine, rows);
  if (!found) return std::nullopt;
  found->sureness = sureness_of(*learnt, op, rows);
  found->reason = with_sureness(
      fmt::format("the fastest of {} measured before: {}", learnt->measured.size(), found->reason),
      found->sureness);
  return found;
}

Verdict Learning::verdict_on(const Operator& op, RowCount rows, double budget_ms) {
  const auto start = std::chrono::steady_clock::now();
  Verdict verdict;
  verdict.kind = Verdict::Kind::take;
  const bool swept = is_swept(op, rows);
  if (!swept) {
    if (auto found = known(op, rows)) {
      verdict.chosen = std::move(*found);
      return verdict;
    }
  }
  const AutoSchedules chosen = unlearnt(op, rows);
  verdict.chosen = {to_string(chosen.schedule), chosen.reason, chosen.sureness};
  if (!swept && !file_->note().empty()) verdict.chosen.reason += "; " + file_->note();
  if (swept || budget_ms <= 0 || chosen.sureness.is_sure()) return verdict;
  verdict.kind = Verdict::Kind::measure;
  verdict.budget_ms = budget_ms;
  for (const OperatorSchedule& one : worth_measuring(op, rows)) {
    const std::string text = to_string(one);
    const auto& known = verdict.schedules;
    if (std::find(known.begin(), known.end(), text) == known.end()) {
      verdict.schedules.push_back(text);
    }
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  verdict.chosen_ms = took.count();
  return verdict;
}

// Of one product what follows it tile by tile changes little: it is known as the product alone, but
// for a gate, whose two weights no product has.
AutoSchedules Learning::choose(const Operator& asked, RowCount rows, double budget_ms) {
  const Segment* const only = asked.only_product();
  const bool is_plain = only != nullptr && only->weights == 1 && !only->on_every_rank;
  const Operator op = is_plain ? Operator(*only) : asked;
  const auto has_product = [](const OperatorSegment& one) { return one.product.has_value(); };
  if (std::none_of(op.segments.begin(), op.segments.end(), has_product)) return unlearnt(op, rows);
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
  if (verdict.kind == Verdict::Kind::keep) return unlearnt(op, rows);
  if (verdict.kind == Verdict::Kind::take) return taken(verdict.chosen, "", op, rows);
  for (const std::string& one : all) {
    const std::string why = fabric::one_line(one.substr(0, one.find('\n')), kMostWords);
    if (!why.empty()) return taken(verdict.chosen, "not measured: " + why, op, rows);
  }
  return measured(op, rows, verdict);
}

AutoSchedules Learning::taken(const Verdict::Chosen& chosen, const std::string& more,
                              const Operator& op, RowCount rows) {
  AutoSchedules taken;
  try {
    of_.fabric.group().together("taking what rank 0's process chose", [&] {
      taken.schedule = parse_schedules(chosen.schedule, op, of_.machine);
      set_rows(taken.schedule, rows);
    });
  } catch (const UsageError& error) {
    taken = unlearnt(op, rows);
    taken.reason += fmt::format("; what rank 0's process chose cannot be taken: {}", error.what());
    return taken;
  }
  taken.reason = more.empty() ? chosen.reason : chosen.reason + "; " + more;
  taken.sureness = chosen.sureness;
  return taken;
}

AutoSchedules Learning::measured(const Operator& op, RowCount rows, const Verdict& verdict) {
  fabric::HostGroup& group = of_.fabric.group();
  runtime::QuickOptions options;
  options.budget_ms = verdict.budget_ms;
  options.chosen_ms = verdict.chosen_ms;
  options.timeout_ns = std::min(of_.timeout_ns, options.timeout_ns);
  runtime::QuickTimes times;
  try {
    std::vector<OperatorSchedule> schedules;
    group.together("reading what to measure", [&] {
      for (const std::string& one : verdict.schedules) {
        schedules.push_back(parse_schedules(one, op, of_.machine));
        set_rows(schedules.back(), rows);
      }
    });
    times = runtime::quick_times(op, of_.machine, schedules, of_.fabric, of_.compiler, of_.kernels,
                                 options);
  } catch (const std::runtime_error& error) {
    if (group.has_failed()) throw;  // nor would the others go on
    return taken(verdict.chosen, fmt::format("not measured: {}", error.what()), op, rows);
  }
  if (times.measured.empty()) {
    return taken(verdict.chosen, "measured nothing: " + runtime::in_words(times), op, rows);
  }
  std::string mine = to_string(Verdict{});
  try {
    if (decides()) mine = to_string(verdict_of(times, op, rows));
  } catch (const std::exception&) {
    // As above.
  }
  const Verdict of_rank_0 =
      parse_verdict(group.all_gather("what rank 0 takes of what was measured", mine).front());
  if (of_rank_0.kind == Verdict::Kind::take) return taken(of_rank_0.chosen, "", op, rows);
  return taken(verdict.chosen, "what was the fastest cannot serve", op, rows);
}

Verdict Learning::verdict_of(const runtime::QuickTimes& times, const Operator& op, RowCount rows) {
  TunedSchedules learnt;
  learnt.machine = of_.machine.name;
  learnt.date = today();
  learnt.library_us = times.library_us;
  learnt.measured = times.measured;
  Verdict verdict;
  const auto found = fastest_of(learnt, op, of_.machine, rows);
  if (!found) return verdict;
  verdict.kind = Verdict::Kind::take;
  verdict.chosen = *found;
  verdict.chosen.sureness = sureness_of(learnt, op, rows);
  std::string reason =
      fmt::format("the fastest when measured, {}: {}", found->reason, runtime::in_words(times));
  if (is_whole(times)) {
    file_->add(op, std::move(learnt), rows);
    if (!file_->note().empty()) reason += "; " + file_->note();
  } else {
    file_->keep(op, std::move(learnt), rows);
    reason += "; the next process measures again";
  }
  verdict.chosen.reason = with_sureness(std::move(reason), verdict.chosen.sureness);
  return verdict;
}

}  // namespace stretto
