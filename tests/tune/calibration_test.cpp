// The simulation against everything in the shipped tuning files. Prints the tables of
// docs/simulation.md, which must have them line by line; to renew them:
//   test_tune --gtest_filter='Calibration.*' | grep '^|'
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/embedded_text.h"
#include "core/file.h"
#include "core/text.h"
#include "schedule/short_text.h"
#include "stretto/tune.h"
#include "tune/predict.h"

namespace stretto {
namespace {

constexpr int64_t kMostRows = 2048;  // larger plans take too long for a test
// Below, launches and NCCL's latency decide, and the errors are counted apart.
constexpr int64_t kFewRows = 512;

struct Errors {
  std::vector<double> ratios;  // predicted over measured
  void add(double ratio) { ratios.push_back(ratio); }
  // Of ascending values, the one below which `share` of them lie.
  static double at(std::vector<double> values, double share) {
    std::sort(values.begin(), values.end());
    return values[std::min(values.size() - 1, static_cast<size_t>(share * values.size()))];
  }
  double off(double share) const {
    std::vector<double> off;
    for (const double ratio : ratios) off.push_back(std::abs(ratio - 1));
    return at(off, share);
  }
  // The farthest from what was measured, to either side.
  double worst() const {
    return *std::max_element(ratios.begin(), ratios.end(),
                             [](double a, double b) { return std::abs(a - 1) < std::abs(b - 1); });
  }
  std::string cells() const {
    return fmt::format("{} | {:.2f} | {:.2f}-{:.2f} | {:.0f} % | {:.0f} % |", ratios.size(),
                       at(ratios, 0.5), at(ratios, 0), at(ratios, 1), 100 * off(0.5),
                       100 * off(0.9));
  }
  // Of the table that the page begins with.
  std::string summary() const {
    return fmt::format("{} | {:.0f} % | {:.0f} % | {:.2f} |", ratios.size(), 100 * off(0.5),
                       100 * off(0.9), worst());
  }
};

struct Case {
  const TunedOperator* tuned;
  const Schedule* schedule;
  double predicted_us, measured_us;
  double off() const { return std::abs(predicted_us / measured_us - 1); }
};

// The worst of so many, each as a row.
class WorstCases {
 public:
  void add(const Case& one, const Machine& machine) {
    if (rows_.size() == kMost && one.off() <= rows_.rbegin()->first) return;
    rows_.emplace(
        one.off(),
        fmt::format("| {} | `{}` | {:.1f} | {:.1f} | {:.2f} |\n", to_string(one.tuned->op),
                    short_text(*one.schedule, one.tuned->op, machine), one.measured_us,
                    one.predicted_us, one.predicted_us / one.measured_us));
    if (rows_.size() > kMost) rows_.erase(std::prev(rows_.end()));
  }
  std::string rows() const {
    std::string all;
    for (const auto& [off, row] : rows_) all += row;
    return all;
  }

 private:
  static constexpr size_t kMost = 3;
  std::multimap<double, std::string, std::greater<>> rows_;  // by how far off
};

std::string kind_of(const Segment& op, const Schedule& schedule) {
  const bool quick = schedule.collectives == CollectivesBy::low_latency;
  return fmt::format("{} {} by {}{}{}", to_string(op.kind), to_string(schedule.granularity),
                     quick ? to_string(schedule.collectives) : to_string(schedule.mover),
                     schedule.comm_sms > 0 ? " and comm SMs" : "",
                     schedule.gemm == GemmBy::library ? ", cuBLAS" : "");
}

TEST(Calibration, PredictionsAreNearWhatWasMeasured) {
  std::map<std::string, Errors> by_kind;
  std::map<int64_t, Errors> by_rows;
  Errors all, few_rows, few_rows_quick;
  WorstCases worst, worst_of_few_rows;
  size_t operators = 0, chosen_well = 0;
  for (const EmbeddedText& shipped : shipped_tunings()) {
    const Tuning tuning = parse_tuning(shipped.text, shipped.name);
    for (const TunedOperator& tuned : tuning.operators()) {
      if (tuned.op.m > kMostRows) continue;
      const Machine machine = load_machine(tuned.machine);
      std::vector<Schedule> schedules;
      std::vector<double> measured;
      for (const Measured& m : tuned.measured) {
        const Schedule schedule = parse_schedule(m.schedule, tuned.op, machine);
        if (!legal(tuned.op, schedule, machine).empty()) continue;
        if (schedule.algorithm != 0) continue;  // the model knows cuBLAS's first choice
        schedules.push_back(schedule);
        measured.push_back(m.time_us);
      }
      if (schedules.empty()) continue;
      const std::vector<double> predicted = predicted_us(tuned.op, schedules, machine);
      if (tuned.op.m < kFewRows) {
        for (size_t i = 0; i < schedules.size(); ++i) {
          const bool quick = schedules[i].collectives == CollectivesBy::low_latency;
          if (quick) few_rows_quick.add(predicted[i] / measured[i]);
          if (schedules[i].mover == Mover::nccl) continue;
          few_rows.add(predicted[i] / measured[i]);
          worst_of_few_rows.add({&tuned, &schedules[i], predicted[i], measured[i]}, machine);
        }
        continue;
      }
      for (size_t i = 0; i < schedules.size(); ++i) {
        const double ratio = predicted[i] / measured[i];
        by_kind[kind_of(tuned.op, schedules[i])].add(ratio);
        by_rows[tuned.op.m].add(ratio);
        all.add(ratio);
        worst.add({&tuned, &schedules[i], predicted[i], measured[i]}, machine);
      }
      const auto best = std::min_element(predicted.begin(), predicted.end()) - predicted.begin();
      ++operators;
      chosen_well += measured[static_cast<size_t>(best)] <=
                     1.05 * *std::min_element(measured.begin(), measured.end());
    }
  }
  std::string table = fmt::format("| our schedules on 2, 4 and 8 H200s, {} rows and more | {}\n",
                                  kFewRows, all.summary());
  table += fmt::format("| fewer than {} rows, without NCCL | {}\n", kFewRows, few_rows.summary());
  table +=
      fmt::format("| fewer than {} rows, `low-latency` | {}\n", kFewRows, few_rows_quick.summary());
  table +=
      "| what | measured | predicted / measured, median | range | off, median | nine in ten |\n";
  for (const auto& [kind, errors] : by_kind)
    table += fmt::format("| {} | {}\n", kind, errors.cells());
  for (const auto& [rows, errors] : by_rows) {
    if (errors.ratios.size() > 10) table += fmt::format("| M = {} | {}\n", rows, errors.cells());
  }
  table += fmt::format("| M < {}, without NCCL | {}\n", kFewRows, few_rows.cells());
  table += fmt::format("| M < {}, low-latency | {}\n", kFewRows, few_rows_quick.cells());
  table += fmt::format("| all from M = {} | {}\n", kFewRows, all.cells());
  table += fmt::format("| simulated best within 5 % of the measured best | {} of {} | | | | |\n",
                       chosen_well, operators);
  table += "| the worst | schedule | measured, us | predicted, us | predicted / measured |\n";
  table += worst.rows() + worst_of_few_rows.rows();
  fmt::print("{}", table);
  const std::string page = read_file(STRETTO_TEST_DIR "/../../docs/simulation.md", size_t{1} << 20);
  for (const std::string_view line : split(table, '\n')) {
    EXPECT_THAT(page, testing::HasSubstr(std::string(line) + "\n")) << "renew the page";
  }
  EXPECT_THAT(
      page, testing::HasSubstr(fmt::format("best on {} of {} operators.", chosen_well, operators)));
  ASSERT_GT(operators, 20u);
  EXPECT_LT(all.off(0.5), 0.10);
  EXPECT_LT(all.off(0.9), 0.25);
  EXPECT_LT(all.off(1), 0.50);  // gathers with many ranges of K (docs/simulation.md)
  EXPECT_LT(few_rows.off(0.5), 0.10);
  EXPECT_LT(few_rows.off(0.9), 0.25);
  EXPECT_LT(few_rows_quick.off(0.5), 0.10);
  EXPECT_LT(few_rows_quick.off(0.9), 0.25);
  EXPECT_GT(static_cast<double>(chosen_well), 0.5 * static_cast<double>(operators));
}

}  // namespace
}  // namespace stretto
