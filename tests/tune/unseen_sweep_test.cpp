// Regret on bench/shapes/unseen.txt, of which nothing that ships was measured: what `auto` takes
// there now, and what making an operation would measure, looked up in a sweep on two H200s. Prints
// the tables of docs/tuning.md; to renew them:
//   STRETTO_THOROUGH=1 test_tune --gtest_filter='UnseenSweep.*' | grep '^|'
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "left_out_models.h"
#include "schedule/short_text.h"
#include "thorough.h"
#include "tune/expected_schedule.h"
#include "tune/shortlist.h"

namespace stretto {
namespace {

constexpr size_t kMostBytes = 1 << 20, kShortlist = 8, kSampled = 4;
constexpr double kWorthNaming = 0.04;

nlohmann::json rows_of(const std::string& name) {
  const auto file =
      std::filesystem::path(STRETTO_TEST_DIR) / "../../bench/results" / (name + ".json");
  return nlohmann::json::parse(read_file(file.string(), kMostBytes)).at("rows");
}

// A sweep, with what `auto` took in another session where the sweep has not tried that: a GPU that
// is warmer is slower, so what counts of that is its share of the library's time.
std::vector<TunedOperator> swept() {
  std::map<std::string, nlohmann::json> benched;
  for (const auto& row : rows_of("unseen_h200_x2")) benched[row.at("operator")] = row;
  const Machine machine = load_machine("h200x8");
  std::vector<TunedOperator> found;
  for (const auto& row : rows_of("unseen_sweep_h200_x2")) {
    TunedOperator one;
    one.op = parse_segment(row.at("operator").get<std::string>());
    one.library_us = row.at("library_us");
    for (const auto& measured : row.at("measured")) {
      one.measured.push_back({measured.at("schedule"), measured.at("time_us"), 0, 0, {}, {}});
    }
    const auto& other = benched.at(row.at("operator"));
    for (const auto& ran : other.at("strategies")) {
      const Schedule schedule =
          parse_schedule(ran.at("schedule").get<std::string>(), one.op, machine);
      if (!ran.contains("time_us") || measured_us(one, schedule, machine) > 0) continue;
      const double share =
          ran.at("time_us").get<double>() / other.at("sequential_us").get<double>();
      one.measured.push_back({ran.at("schedule"), share * one.library_us, 0, 0, {}, {}});
    }
    found.push_back(std::move(one));
  }
  return found;
}

std::string group_of(const Segment& op) {
  return fmt::format("{} | {} {}", to_string(op.kind), op.m < kMostRows ? "<" : ">=", kMostRows);
}

struct Row {
  // Against the best of the sweep, and of cuBLAS's first algorithms: others' numbers are a shape's
  // own, which nobody can know beforehand.
  Regrets chosen, of_first, measured;
  size_t tried = 0;
  double log_of_library = 0, worst_of_library = HUGE_VAL;

  void add_over_library(double times) {
    log_of_library += std::log(times);
    worst_of_library = std::min(worst_of_library, times);
  }
};

std::string cells(const Regrets& of) {
  return fmt::format("{} | {:.1f} % | {:.1f} % | {:.1f} %", of.all.size(), 100 * of.median(),
                     100 * of.at(0.9), 100 * of.worst());
}

TEST(UnseenSweep, ChoicesAreNearTheBest) {
  const Machine machine = load_machine("h200x8");
  const Tuning shipped = shipped_tuning();
  Predictions predictions(machine);
  std::map<std::string, Row> rows;
  std::map<double, Regrets> by_claim;  // by how sure the choice said it was
  std::string behind;
  const std::vector<TunedOperator> all = swept();
  EXPECT_GE(all.size(), 80u);
  for (size_t i = 0; i < all.size(); i += sweep_step(kSampled)) {
    const TunedOperator& here = all[i];
    SCOPED_TRACE(to_string(here.op));
    const AutoSchedule chosen =
        expected_schedule(here.op, machine, shipped, RowCount::fixed, RowsFrom::host, predictions);
    const auto listed =
        shortlist(here.op, machine, shipped, RowCount::fixed, kShortlist, predictions);
    double best = here.library_us, fastest = 0;
    std::string fastest_schedule = "library";
    for (const Measured& one : here.measured) {
      if (one.time_us >= best) continue;
      best = one.time_us;
      fastest_schedule = one.schedule;
    }
    const double us = measured_us(here, chosen.schedule, machine);
    for (const Schedule& one : listed) {
      const double its = measured_us(here, one, machine);
      if (its > 0 && (fastest == 0 || its < fastest)) fastest = its;
    }
    Row& row = rows[group_of(here.op)];
    row.chosen.add(us, best);
    const double first = fastest_measured_us(here, machine);
    row.of_first.add(us, first);
    row.measured.add(chosen.sureness.is_sure() && us > 0 ? us : fastest, first);
    by_claim[chosen.sureness.within].add(us, first);
    row.tried += here.measured.size();
    if (us > 0) row.add_over_library(here.library_us / us);
    if (us > 0 && us <= (1 + kWorthNaming) * best) continue;
    behind += fmt::format(
        "| {} | {} | {} | {} | {:.1f} | {:.1f} |\n", to_string(here.op),
        short_text(chosen.schedule, here.op, machine), us > 0 ? fmt::format("{:.1f}", us) : "-",
        short_text(parse_schedule(fastest_schedule, here.op, machine), here.op, machine), best,
        fastest);
  }
  fmt::print(
      "| operator | M | choices measured | median | nine in ten | worst | of cuBLAS's first "
      "algorithms | median | nine in ten | worst | after measuring | median | nine in ten | worst "
      "| x cuBLAS and NCCL (worst) | schedules tried |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& [name, row] : rows) {
    const auto known = static_cast<double>(row.chosen.all.size());
    fmt::print("| {} | {} | {} | {} | {:.2f} ({:.2f}) | {} |\n", name, cells(row.chosen),
               cells(row.of_first), cells(row.measured), std::exp(row.log_of_library / known),
               row.worst_of_library, row.tried);
    const bool of_few = name.find('<') != std::string::npos;
    EXPECT_LE(row.of_first.median(), of_few ? 0.02 : 0.06) << name;
    EXPECT_LE(row.of_first.worst(), 0.12) << name;
    EXPECT_LE(row.measured.median(), 0.02) << name;
    EXPECT_LE(row.measured.worst(), 0.08) << name;
    // Large products of a warm GPU differ by so much from round to round.
    EXPECT_GE(row.worst_of_library, of_few ? 0.995 : 0.95) << name;
  }
  fmt::print("| said to be within | choices | were |\n|---|---|---|\n");
  for (const auto& [within, regrets] : by_claim) {
    fmt::print("| {:.0f} % | {} | {:.0f} % |\n", 100 * within, regrets.all.size(),
               100 * regrets.share_within(within));
    // Nine in ten; of few a single one more.
    EXPECT_GE(regrets.share_within(within), 0.9 - 1.5 / static_cast<double>(regrets.all.size()));
  }
  fmt::print(
      "| behind by more than {:.0f} % | `auto` takes | us | best | us | after measuring |\n"
      "|---|---|---|---|---|---|\n{}",
      100 * kWorthNaming, behind);
}

}  // namespace
}  // namespace stretto
