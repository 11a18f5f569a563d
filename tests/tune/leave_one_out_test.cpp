// What `auto` chooses for shapes and numbers of ranks that nobody has measured: each shipped
// operator is asked for as if its own measurements, or more of them, did not exist. Prints the
// table of docs/tuning.md; to renew it:
//   test_tune --gtest_filter='LeaveOneOut.*' | grep '^|'
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "stretto/tune.h"
#include "tune/expected_schedule.h"

namespace stretto {
namespace {

constexpr int64_t kMostRows = 2048;  // larger plans take too long for a test
constexpr int64_t kFewRows = 512;

struct Without {
  const char* name;
  std::function<bool(const Operator& one, const Operator& asked)> takes_away;
};

const Without kWithout[] = {
    {"the operator", [](const Operator& one, const Operator& asked) { return one == asked; }},
    {"its N and K, whatever the rows and ranks",
     [](const Operator& one, const Operator& asked) {
       return one.n == asked.n && one.k == asked.k;
     }},
    {"its number of ranks, and N and K of a rank",
     [](const Operator& one, const Operator& asked) {
       const bool multiplies_alike =
           one.local_n() == asked.local_n() && one.local_k() == asked.local_k();
       return one.ranks == asked.ranks || multiplies_alike;
     }},
    {"anything", [](const Operator&, const Operator&) { return true; }}};

// cuBLAS tiles products by itself.
bool is_same(Schedule a, Schedule b) {
  for (Schedule* one : {&a, &b}) {
    if (one->gemm != GemmBy::library) continue;
    one->tile_m = one->tile_n = one->swizzle = 0;
  }
  return a == b;
}

// Microseconds that the schedule took; 0 where it was not measured.
double measured_us(const TunedOperator& tuned, const Schedule& schedule, const Machine& machine) {
  for (const Measured& one : tuned.measured) {
    if (is_same(parse_schedule(one.schedule, tuned.op, machine), schedule)) return one.time_us;
  }
  return is_same(schedule, find_preset("library").make(tuned.op, machine)) ? tuned.library_us : 0;
}

// Of what `auto` can take from elsewhere: all but algorithms that cuBLAS does not propose first.
double best_us(const TunedOperator& tuned, const Machine& machine) {
  double best = tuned.library_us;
  for (const Measured& one : tuned.measured) {
    if (parse_schedule(one.schedule, tuned.op, machine).algorithm != 0) continue;
    best = std::min(best, one.time_us);
  }
  return best;
}

struct Tally {
  int asked = 0, known = 0, tenth_slower = 0, slower_than_library = 0;
  double log_of_best = 0, log_of_library = 0, worst = 1;

  void add(double us, double best_us, double library_us) {
    ++asked;
    if (us == 0) return;
    ++known;
    worst = std::min(worst, best_us / us);
    log_of_best += std::log(best_us / us);
    log_of_library += std::log(library_us / us);
    tenth_slower += us > 1.1 * best_us;
    slower_than_library += us > 1.02 * library_us;  // beyond what a repetition differs by
  }
  double mean_of_best() const { return std::exp(log_of_best / known); }
  std::string cells() const {
    return fmt::format("{} of {} | {:.3f} | {:.2f} | {} | {} | {:.2f} |", known, asked,
                       mean_of_best(), worst, tenth_slower, slower_than_library,
                       std::exp(log_of_library / known));
  }
};

Tally tally(const std::vector<TunedOperator>& all, const Without& without, int ranks, bool few_rows,
            const Machine& machine, Predictions& predictions) {
  Tally found;
  for (const TunedOperator& tuned : all) {
    if (tuned.op.ranks != ranks || (tuned.op.m < kFewRows) != few_rows) continue;
    Tuning left;
    for (const TunedOperator& one : all) {
      if (!without.takes_away(one.op, tuned.op)) left.add(one);
    }
    const AutoSchedule chosen =
        expected_schedule(tuned.op, machine, left, RowCount::fixed, RowsFrom::host, predictions);
    found.add(measured_us(tuned, chosen.schedule, machine), best_us(tuned, machine),
              tuned.library_us);
  }
  return found;
}

TEST(LeaveOneOut, ChoicesAreNearTheBestAndNotBehindTheLibrary) {
  const Machine machine = load_machine("h200x8");
  std::vector<TunedOperator> all;
  const Tuning shipped = shipped_tuning();
  for (const TunedOperator& tuned : shipped.operators()) {
    ASSERT_EQ(tuned.machine, machine.name);
    if (tuned.op.m <= kMostRows) all.push_back(tuned);
  }
  Predictions predictions(machine);
  fmt::print(
      "| not known | ranks | M | choices measured | best / chosen | worst | 10 % slower "
      "| slower than cuBLAS and NCCL | x these |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const Without& without : kWithout) {
    for (const int ranks : {2, 4}) {
      for (const bool few_rows : {true, false}) {
        const Tally found = tally(all, without, ranks, few_rows, machine, predictions);
        fmt::print("| {} | {} | {} {} | {}\n", without.name, ranks, few_rows ? "<" : ">=", kFewRows,
                   found.cells());
        ASSERT_GT(found.asked, 30);
        EXPECT_GT(found.known, found.asked * 3 / 4);
        EXPECT_GT(found.mean_of_best(), few_rows ? 0.98 : 0.94);
        EXPECT_LE(found.slower_than_library, found.asked / 30);
      }
    }
  }
}

}  // namespace
}  // namespace stretto
