// What is measured of operators of several products, where `auto` is not sure.
#include "tune/graph_shortlist.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tune/expected_schedule.h"

namespace stretto {
namespace {

constexpr size_t kMost = 8;

TEST(GraphShortlist, BeginsWithWhatAutoTakesAndHasWhatAChoiceMustNotLoseTo) {
  const Tuning tuning = shipped_tuning();
  for (const char* words : {"mlp m=512 h=1024 f=2048 ranks=2 dtype=bf16",
                            "mlp-ar m=64 h=1024 f=2048 ranks=4 dtype=bf16",
                            "gemm-ar-norm m=256 n=1024 k=2048 ranks=8 dtype=bf16",
                            "moe-ep t=256 h=256 f=256 experts=8 k=2 ranks=2 dtype=bf16"}) {
    const Operator op = parse_operator(words);
    const Machine machine = default_machine(op.ranks);
    Predictions predictions(machine);
    const auto found = graph_shortlist(op, machine, tuning, kMost, predictions);
    ASSERT_GE(found.size(), 3u) << words;
    EXPECT_LE(found.size(), kMost);
    EXPECT_EQ(to_string(found.front()),
              to_string(auto_schedules(op, machine, tuning, predictions).schedule));
    for (const char* name : {"library", "tiles"}) {
      const OperatorSchedule preset = schedule_of(find_preset(name), op, machine);
      const bool has = std::find(found.begin(), found.end(), preset) != found.end();
      EXPECT_EQ(has, legal(op, preset, machine).empty()) << words << " " << name;
    }
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(legal(op, found[i], machine).empty()) << to_string(found[i]);
      EXPECT_EQ(parse_schedules(to_string(found[i]), op, machine), found[i]) << "as it travels";
      EXPECT_EQ(std::count(found.begin(), found.end(), found[i]), 1) << to_string(found[i]);
    }
    EXPECT_EQ(graph_shortlist(op, machine, tuning, 2, predictions).size(), 2u);
  }
}

// A graph of a caller's own with a shipped one's name is another operator.
TEST(GraphShortlist, MeasurementsAreOfTheGraphAndNotOfItsName) {
  const Machine machine = default_machine(2);
  TunedSchedules measured;
  measured.machine = machine.name;
  measured.library_us = 200;
  measured.measured = {{"up:tiles/down:slices", 100, 100, 110, {}, {}}};
  Tuning tuning;
  const Operator mlp = make_operator("mlp", {{"m", 512}, {"h", 512}, {"f", 1024}}, 2);
  tuning.add(mlp, measured);
  const auto known = measured_schedules(mlp, machine, tuning);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->sureness, (Sureness{Evidence::measured, 0.01}));
  const Operator larger = make_operator("mlp", {{"m", 1024}, {"h", 512}, {"f", 1024}}, 2);
  EXPECT_FALSE(measured_schedules(larger, machine, tuning));
  EXPECT_EQ(auto_schedules(larger, machine, tuning).sureness, Sureness{}) << "nobody knows";
  const Operator own = make_graph(
      parse_graph("graph mlp m h f\ninput x [m, h] rows\ninput wu [f, h] rows\n"
                  "input wd [h, f] cols\nup = gemm x wu\ny = gemm up wd\noutput y rows\n"),
      {{"m", 512}, {"h", 512}, {"f", 1024}}, 2, DType::bf16);
  EXPECT_FALSE(measured_schedules(own, machine, tuning));
}

}  // namespace
}  // namespace stretto
