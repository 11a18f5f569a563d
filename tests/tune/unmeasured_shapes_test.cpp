// Shapes that nobody tuned, timed once on 3 and 4 H200s: what was fastest there of a few ways is in
// the shortlist that making an operation measures. Prints a row for each file.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "left_out_models.h"
#include "tune/expected_schedule.h"
#include "tune/shortlist.h"

namespace stretto {
namespace {

constexpr size_t kMostBytes = 1 << 20, kShortlist = 8;

nlohmann::json bench(const std::string& name) {
  const auto file =
      std::filesystem::path(STRETTO_TEST_DIR) / "../../bench/results" / (name + ".json");
  return nlohmann::json::parse(read_file(file.string(), kMostBytes));
}

// Of cuBLAS beside copy engines: with one buffer or two, which the test below looks at.
Schedule with_two_buffers(Schedule schedule) {
  if (schedule.gemm == GemmBy::library && schedule.mover == Mover::copy_engine) {
    schedule.reuse = Reuse::double_buffer;
  }
  return schedule;
}

TunedOperator timed(const nlohmann::json& row) {
  TunedOperator found;
  found.op = parse_segment(row.at("operator").get<std::string>());
  found.library_us = row.at("sequential_us");
  for (const auto& one : row.at("strategies")) {
    if (!one.contains("time_us")) continue;
    found.measured.push_back({one.at("schedule"), one.at("time_us"), 0, 0, {}, {}});
  }
  return found;
}

double us_of(const TunedOperator& timed, const Schedule& schedule, const Machine& machine) {
  for (const Measured& one : timed.measured) {
    const Schedule known = parse_schedule(one.schedule, timed.op, machine);
    if (is_same(with_two_buffers(known), with_two_buffers(schedule))) return one.time_us;
  }
  return is_same(schedule, find_preset("library").make(timed.op, machine)) ? timed.library_us : 0;
}

TEST(UnmeasuredShapes, TheFastestWayIsInTheShortlist) {
  const Machine machine = load_machine("h200x8");
  const Tuning shipped = shipped_tuning();
  Predictions predictions(machine);
  for (const char* name : {"unmeasured_shapes_h200_x3", "unmeasured_shapes_h200_x4"}) {
    const nlohmann::json file = bench(name);
    Regrets chosen, measured;
    for (const auto& row : file.at("rows")) {
      const TunedOperator here = timed(row);
      SCOPED_TRACE(to_string(here.op));
      double best = here.library_us, fastest = 0;
      for (const Measured& one : here.measured) best = std::min(best, one.time_us);
      const auto listed =
          shortlist(here.op, machine, shipped, RowCount::fixed, kShortlist, predictions);
      for (const Schedule& one : listed) {
        const double us = us_of(here, one, machine);
        if (us > 0 && (fastest == 0 || us < fastest)) fastest = us;
      }
      ASSERT_GT(fastest, 0);
      EXPECT_LE(fastest / best - 1, 0.08);
      measured.add(fastest, best);
      chosen.add(us_of(here, listed.front(), machine), best);
    }
    EXPECT_GE(measured.all.size(), 20u);
    EXPECT_LE(measured.at(0.9), 0.02);
    fmt::print("| {} | {} | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % |\n", name, chosen.all.size(),
               100 * chosen.median(), 100 * chosen.worst(), 100 * measured.median(),
               100 * measured.worst());
  }
}

// So one of the two stands for both.
TEST(UnmeasuredShapes, TwoBuffersAreHardlySlowerThanOne) {
  const Machine machine = load_machine("h200x8");
  int pairs = 0;
  const Tuning shipped = shipped_tuning();
  for (const TunedOperator& tuned : shipped.operators()) {
    for (const Measured& one : tuned.measured) {
      const Schedule acked = parse_schedule(one.schedule, tuned.op, machine);
      const double us = measured_us(tuned, with_two_buffers(acked), machine);
      if (acked == with_two_buffers(acked) || us == 0) continue;
      ++pairs;
      EXPECT_LE(us, 1.035 * one.time_us) << to_string(tuned.op) << " " << one.schedule;
    }
  }
  EXPECT_GE(pairs, 80);
}

}  // namespace
}  // namespace stretto
