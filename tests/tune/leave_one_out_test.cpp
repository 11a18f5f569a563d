// What `auto` chooses for shapes and numbers of ranks that nobody has measured: each shipped
// operator is asked for as if its own measurements, or more of them, did not exist. Prints the
// table of docs/tuning.md; to renew it:
//   test_tune --gtest_filter='LeaveOneOut.*' | grep '^|'
#include "leave_one_out.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/tune.h"
#include "tune/expected_schedule.h"

namespace stretto {
namespace {

Tally tally(const std::vector<TunedOperator>& all, const Without& what, int ranks, bool few_rows,
            const Machine& machine, Predictions& predictions) {
  Tally found;
  for (const TunedOperator& tuned : all) {
    if (tuned.op.ranks != ranks || (tuned.op.m < kFewRows) != few_rows) continue;
    const AutoSchedule chosen = expected_schedule(tuned.op, machine, without(all, what, tuned.op),
                                                  RowCount::fixed, RowsFrom::host, predictions);
    found.add(measured_us(tuned, chosen.schedule, machine), fastest_measured_us(tuned, machine),
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
  for (const Without& what : kWithout) {
    for (const int ranks : {2, 4}) {
      for (const bool few_rows : {true, false}) {
        const Tally found = tally(all, what, ranks, few_rows, machine, predictions);
        fmt::print("| {} | {} | {} {} | {}\n", what.name, ranks, few_rows ? "<" : ">=", kFewRows,
                   found.cells());
        ASSERT_GT(found.asked, 30);
        // Sweeps of four ranks are older than the kernel of few rows, which is taken there by what
        // two ranks say; without those, by simulation alone.
        if (ranks == 2 || !few_rows) {
          EXPECT_GE(10 * found.known, 7 * found.asked);
        }
        const bool on_other_ranks = std::string_view(what.name).starts_with("its number of ranks");
        EXPECT_GT(found.mean_of_best(), few_rows && !on_other_ranks ? 0.98 : 0.93);
        EXPECT_LE(found.slower_than_library, found.asked / 30);
      }
    }
  }
}

}  // namespace
}  // namespace stretto
