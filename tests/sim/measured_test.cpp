// The model against what was measured. Prints the table of docs/simulation.md; to renew it:
//   test_sim --gtest_filter='Measured.*' | grep '^|'
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "measured_rows.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

using testing_sim::kMeasured;
using testing_sim::MeasuredRow;

double predicted(const MeasuredRow& row, const std::string& schedule, const Machine& machine) {
  Segment op;
  op.kind = row.kind;
  op.m = row.m;
  op.n = row.n;
  op.k = row.k;
  op.ranks = 8;
  return simulate(lower(op, parse_schedule(schedule, op, machine), machine), machine).total_us;
}

std::string cells(double measured, double predicted_us) {
  if (measured == 0) return fmt::format("- | {:.0f} | - |", predicted_us);
  return fmt::format("{:.0f} | {:.0f} | {:+.0f} % |", measured, predicted_us,
                     100 * (predicted_us / measured - 1));
}

TEST(Measured, TheLibraryComesOutNearOnEveryShape) {
  const Machine machine = load_machine("h200x8");
  std::string table =
      "| operator M N K | baseline measured | predicted | off | PK measured | tiles predicted | "
      "off |\n"
      "|---|---|---|---|---|---|---|\n";
  std::vector<double> off;
  for (const MeasuredRow& row : kMeasured) {
    const double library = predicted(row, "library", machine);
    off.push_back(std::abs(library / row.sequential - 1));
    EXPECT_LT(off.back(), 0.16) << row.m << " " << row.n << " " << row.k;
    table += fmt::format("| {} {} {} {} | {}", to_string(row.kind), row.m, row.n, row.k,
                         cells(row.sequential, library));
    if (row.parallel_kittens > 0) {
      table += fmt::format(" {}", cells(row.parallel_kittens, predicted(row, "tiles", machine)));
    } else {
      table += " - | - | - |";
    }
    table += "\n";
  }
  std::sort(off.begin(), off.end());
  EXPECT_LT(off[off.size() / 2], 0.04);
  EXPECT_LT(off[off.size() * 9 / 10], 0.12);
  fmt::print("{}", table);
  fmt::print("median {:.1f} %, nine in ten within {:.1f} %, worst {:.1f} %\n",
             100 * off[off.size() / 2], 100 * off[off.size() * 9 / 10], 100 * off.back());
}

}  // namespace
}  // namespace stretto
