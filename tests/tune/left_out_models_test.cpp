// Regret on models that nobody has measured: of `auto` by itself, and where making an operation
// measures its shortlist. Prints the table of docs/tuning.md; to renew it:
//   STRETTO_THOROUGH=1 test_tune --gtest_filter='LeftOutModels.*' | grep '^|'
#include "left_out_models.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "thorough.h"
#include "tune/expected_schedule.h"
#include "tune/near_measurements.h"
#include "tune/shortlist.h"

namespace stretto {
namespace {

constexpr size_t kShortlist = 8, kSampled = 3;

// The fastest of a shortlist, of those that were measured; 0: none was.
double fastest_us(const TunedOperator& tuned, const std::vector<Schedule>& shortlist,
                  const Machine& machine) {
  double fastest = 0;
  for (const Schedule& one : shortlist) {
    const double us = measured_us(tuned, one, machine);
    if (us > 0 && (fastest == 0 || us < fastest)) fastest = us;
  }
  return fastest;
}

struct Row {
  Regrets chosen, measured, tried;
  int slower_than_library = 0;
};

const char* products_of(bool gathers) { return gathers ? "gathers" : "reductions"; }

std::string name_of(const Segment& op) {
  return fmt::format("{} | {}", products_of(op.kind == kAgGemm),
                     op.m < kFewRows     ? fmt::format("< {}", kFewRows)
                     : op.m <= kMostRows ? fmt::format("{} to {}", kFewRows, kMostRows)
                                         : fmt::format("> {}", kMostRows));
}

std::string cells(const Regrets& of) {
  return fmt::format("{} | {:.1f} % | {:.1f} % | {:.1f} %", of.all.size(), 100 * of.median(),
                     100 * of.at(0.9), 100 * of.worst());
}

// The shortlist as it were if nothing but what the operator's sweep tried were candidates.
std::vector<Schedule> shortlist_of_tried(const TunedOperator& tuned, const Machine& machine,
                                         const Tuning& left, Predictions& predictions) {
  std::vector<Expectation> tried =
      expected_nearby(tuned.op, left, machine, RowCount::fixed, RowsFrom::host, predictions)
          .schedules;
  std::erase_if(tried, [&](const Expectation& one) {
    return measured_us(tuned, one.schedule, machine) == 0;
  });
  std::stable_sort(tried.begin(), tried.end(),
                   [](const Expectation& a, const Expectation& b) { return a.us < b.us; });
  return shortlist_of(tried, tuned.op, machine, RowCount::fixed, kShortlist);
}

void expect_small_regret(bool of_gathers, int64_t least_rows, int64_t most_rows) {
  const Machine machine = load_machine("h200x8");
  const Tuning shipped = shipped_tuning();
  const std::vector<TunedOperator>& all = shipped.operators();
  Predictions predictions(machine);
  std::map<std::string, Row> rows;
  std::map<double, Regrets> by_claim;  // by how sure the choice said it was
  std::vector<TunedOperator> asked;
  for (const TunedOperator& tuned : all) {
    if ((tuned.op.kind == kAgGemm) != of_gathers) continue;
    if (tuned.op.m >= least_rows && tuned.op.m <= most_rows) asked.push_back(tuned);
  }
  for (size_t i = 0; i < asked.size(); i += sweep_step(kSampled)) {
    const TunedOperator& tuned = asked[i];
    const Tuning left = without(all, kItsModel, tuned.op);
    const AutoSchedule chosen =
        expected_schedule(tuned.op, machine, left, RowCount::fixed, RowsFrom::host, predictions);
    const std::vector<Schedule> measured =
        shortlist(tuned.op, machine, left, RowCount::fixed, kShortlist, predictions);
    ASSERT_FALSE(measured.empty());
    EXPECT_EQ(measured.front(), chosen.schedule) << "what auto takes is measured too";
    const double best = fastest_measured_us(tuned, machine),
                 us = measured_us(tuned, chosen.schedule, machine);
    Row& row = rows[name_of(tuned.op)];
    row.chosen.add(us, best);
    // A choice that says it is sure is not measured.
    const bool is_sure = chosen.sureness.is_sure() && us > 0;
    row.measured.add(is_sure ? us : fastest_us(tuned, measured, machine), best);
    const auto tried = shortlist_of_tried(tuned, machine, left, predictions);
    row.tried.add(is_sure ? us : fastest_us(tuned, tried, machine), best);
    row.slower_than_library += us > 1.02 * tuned.library_us;
    by_claim[chosen.sureness.within].add(us, best);
  }
  fmt::print(
      "| products | M | choices measured | median | nine in ten | worst | after measuring | median "
      "| nine in ten | worst | of what was tried | median | nine in ten | worst "
      "| slower than cuBLAS and NCCL |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& [name, row] : rows) {
    fmt::print("| {} | {} | {} | {} | {} |\n", name, cells(row.chosen), cells(row.measured),
               cells(row.tried), row.slower_than_library);
    EXPECT_LE(row.chosen.median(), 0.04) << name;
    EXPECT_LE(row.measured.median(), 0.02) << name;
    EXPECT_LE(row.tried.median(), 0.02) << name;
    EXPECT_LE(row.tried.worst(), 0.08) << name;
    // Of gathers of many rows nearly half of a shortlist was never measured, and counts as lost.
    const bool is_sparse = of_gathers && name.find('<') == std::string::npos;
    EXPECT_LE(row.measured.at(0.9), is_sparse ? 0.1 : 0.02) << name;
    EXPECT_LE(row.measured.worst(), is_sparse ? 0.17 : 0.08) << name;
    EXPECT_EQ(row.slower_than_library, 0) << name;
  }
  fmt::print("| products | said to be within | choices | were |\n|---|---|---|---|\n");
  for (const auto& [within, regrets] : by_claim) {
    fmt::print("| {} | {:.0f} % | {} | {:.0f} % |\n", products_of(of_gathers), 100 * within,
               regrets.all.size(), 100 * regrets.share_within(within));
    // Nine in ten; of few a single one more.
    const double allowed = 0.1 + 1 / static_cast<double>(regrets.all.size());
    EXPECT_GE(regrets.share_within(within), 1 - allowed) << within;
  }
}

constexpr int64_t kAnyRows = int64_t{1} << 40;

TEST(LeftOutModels, RegretOfGathersIsSmallAndWhatIsSureIsSo) {
  expect_small_regret(true, 0, kMostRows);
}

TEST(LeftOutModels, RegretOfGathersOfMoreRowsIsSmallAndWhatIsSureIsSo) {
  expect_small_regret(true, kMostRows + 1, kAnyRows);
}

TEST(LeftOutModels, RegretOfReductionsIsSmallAndWhatIsSureIsSo) {
  expect_small_regret(false, 0, kAnyRows);
}

}  // namespace
}  // namespace stretto
