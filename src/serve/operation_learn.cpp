// Operations learn while a server is idle: buckets that nobody has measured, the most used first.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/text.h"
#include "gpu/beside_captures.h"
#include "serve/operation_state.h"
#include "stretto/error.h"

namespace stretto {
namespace {

constexpr size_t kMostWords = 300;  // of why a process cannot learn
// Of the time that is left, as making an operation has it: three times as long for choosing and
// making plans.
constexpr double kShareOfRuns = 0.25;
constexpr double kMostLearningMs = 3'600'000;

}  // namespace

// What rank 0's process says to the others; 0 rows: it is enough.
struct Operation::State::Next {
  int64_t rows = 0;
  int64_t budget_us = 0;  // of runs
  int64_t left = 0;       // buckets that nobody has measured

  std::string text() const { return fmt::format("{} {} {}", rows, budget_us, left); }
  static Next of(std::string_view text) {
    const std::vector<std::string_view> words = split(text, ' ');
    Next next;
    int64_t* const numbers[] = {&next.rows, &next.budget_us, &next.left};
    for (size_t i = 0; i < 3; ++i) {
      const auto number = i < words.size() ? int_from(words[i]) : std::nullopt;
      if (!number || *number < 0) {
        throw SystemError(
            "rank 0 says what this process does not know: start one program on all "
            "ranks");
      }
      *numbers[i] = *number;
    }
    return next;
  }
};

Operation::State::Next Operation::State::next_to_learn(double left_ms) const {
  Next next;
  uint64_t most_runs = 0;
  for (const auto& [rows, bucket] : buckets) {  // ascending: of as many runs the larger
    if (bucket->is_settled) continue;
    ++next.left;
    if (next.rows != 0 && bucket->runs < most_runs) continue;
    next.rows = rows;
    most_runs = bucket->runs;
  }
  next.budget_us = static_cast<int64_t>(1e3 * kShareOfRuns * std::max(0.0, left_ms));
  if (next.budget_us == 0) next.rows = 0;
  return next;
}

// Who may not is named on all, before any waits for another.
void Operation::State::require_that_all_may_learn(double budget_ms) const {
  std::string why = context.why_not_wait();
  if (!(budget_ms >= 0 && budget_ms <= kMostLearningMs)) {
    why = fmt::format("the budget is {} ms; it is a number from 0 to {:.0f}", budget_ms,
                      kMostLearningMs);
  } else if (!why.empty()) {
    why += ": learn when the capture has ended";
  }
  const auto all =
      context.fabric->group().all_gather("beginning to learn", fabric::one_line(why, kMostWords));
  for (const std::string& one : all) {
    if (!one.empty()) throw UsageError("learn: " + fabric::one_line(one, kMostWords));
  }
}

int Operation::State::learn(double budget_ms) {
  const auto start = std::chrono::steady_clock::now();
  const cuda::BesideCaptures beside;
  fabric::HostGroup& group = context.fabric->group();
  require_that_all_may_learn(budget_ms);
  finish();
  for (;;) {
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    const std::string mine = next_to_learn(budget_ms - took.count()).text();
    const Next next = Next::of(group.all_gather("what rank 0 measures next", mine).front());
    if (next.rows == 0) return static_cast<int>(next.left);
    learn_bucket(next.rows, static_cast<double>(next.budget_us) / 1e3);
  }
}

void Operation::State::learn_bucket(int64_t rows, double budget_ms) {
  const auto found = buckets.find(rows);
  context.fabric->group().together("looking for a bucket to measure", [&] {
    if (found != buckets.end()) return;
    throw UsageError(
        fmt::format("learn: there is no plan for {} rows, which rank 0 has: make and "
                    "call operations alike on all ranks",
                    rows));
  });
  // Whatever comes of it: another time would tell no more.
  found->second->is_settled = true;
  AutoSchedules chosen = schedule_for(with_rows(op, rows), RowsFrom::host, budget_ms);
  std::string problem;
  if (!(chosen.schedule == found->second->chosen) && replace(rows, chosen, problem)) return;
  Planned& kept = buckets.at(rows)->of_host;
  if (problem.empty()) {
    kept.reason = std::move(chosen.reason);
  } else {
    kept.reason += fmt::format("; {} was measured to be faster, and is not taken: {}",
                               to_string(chosen.schedule), problem);
  }
}

// A graph of the caller's that holds the old plan goes on with it, and with its memory. Where a
// single plan has the workspace there is no fence between two, so then the new one has another.
bool Operation::State::replace(int64_t rows, const AutoSchedules& chosen, std::string& problem) {
  fabric::HostGroup& group = context.fabric->group();
  std::unique_ptr<Bucket>& place = buckets.at(rows);
  bool may_be_held = false;
  for (const Planned* planned : {&place->of_host, &place->of_memory}) {
    may_be_held = may_be_held || (planned->runner && planned->runner->was_captured());
  }
  const auto held = group.all_gather("whether graphs hold a plan", may_be_held ? "held" : "");
  for (const std::string& one : held) may_be_held = may_be_held || !one.empty();
  const bool is_apart = may_be_held && is_fixed() && own_workspace != nullptr;
  std::unique_ptr<OperationWorkspace> old_workspace;
  const auto take_workspace = [&](std::unique_ptr<OperationWorkspace> other) {
    std::swap(own_workspace, other);
    workspace = own_workspace.get();
    told_failures = workspace->failures();
    return other;
  };
  std::unique_ptr<Bucket> made;
  try {
    if (is_apart) old_workspace = take_workspace(context.make_workspace({}, true));
    made = bucket_with(chosen, rows);
  } catch (const std::runtime_error& error) {
    if (group.has_failed()) throw;  // nor would the others go on
    problem = fabric::one_line(error.what(), kMostWords);
  }
  for (const std::string& one : group.all_gather("whether a faster plan was made", problem)) {
    if (problem.empty()) problem = fabric::one_line(one, kMostWords);
  }
  if (!problem.empty()) {
    made.reset();
    if (old_workspace) take_workspace(std::move(old_workspace));
    return false;
  }
  made->is_settled = true;
  made->runs = place->runs;
  std::swap(place, made);
  if (may_be_held) {
    old_buckets.push_back(std::move(made));
    if (old_workspace) old_workspaces.push_back(std::move(old_workspace));
    return true;
  }
  for (const Planned* planned : {&made->of_host, &made->of_memory}) {
    if (!planned->runner) continue;
    gone_bad_ids += planned->runner->bad_ids();
    gone_copied_bytes += planned->runner->copied_bytes();
  }
  return true;
}

}  // namespace stretto
