// Operators of several products against what was measured of them on 2 H200s: the simulation of
// what ran, and what `auto` takes. Prints a row for each.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "stretto/tune.h"
#include "tune/predict.h"
#include "tune/together.h"

namespace stretto {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr int64_t kMostRows = 2048, kFewRows = 512;  // larger plans take too long for a test

nlohmann::json measured_rows(const char* name = "layers_h200_x2.json") {
  const auto results = std::filesystem::path(STRETTO_TEST_DIR) / "../../bench/results";
  return nlohmann::json::parse(read_file((results / name).string(), kMostBytes)).at("rows");
}

double predicted(const Operator& op, const std::string& schedule, const Machine& machine) {
  return predicted_us(op, {parse_schedules(schedule, op, machine)}, machine).front();
}

// Tiles that gather rows of a wide gated product read its weights for nearly every row of tiles.
TEST(MeasuredLayers, AreSimulatedAsTheyWere) {
  const Machine machine = load_machine("h200x8");
  std::vector<double> off;
  double off_by_layers = 0, off_where_apart = 0;  // of MLPs and layers, at most
  for (const auto& row : measured_rows()) {
    const Operator op = parse_operator(row.at("operator").get<std::string>());
    if (op.rows() > kMostRows || op.rows() < kFewRows || op.only_product() != nullptr) continue;
    const auto schedule = row.at("schedules").at("stretto").get<std::string>();
    const double us = predicted(op, schedule, machine);
    const double measured = row.at("us").at("stretto").at(0);
    fmt::print("| {} | {:.1f} | {:.1f} | {:.2f} |\n", to_string(op), measured, us, us / measured);
    off.push_back(std::abs(us / measured - 1));
    const bool is_norm = op.name().ends_with("norm");
    // By cuBLAS gate and up were two products then, of few waves each; they are simulated as one.
    const auto of_products = parse_schedules(schedule, op, machine).products;
    const bool was_apart = of_products.front().gemm == GemmBy::library;
    double& at_most = was_apart ? off_where_apart : off_by_layers;
    if (!is_norm) at_most = std::max(at_most, off.back());
  }
  ASSERT_GE(off.size(), 14u);
  std::sort(off.begin(), off.end());
  EXPECT_LT(off[off.size() / 2], 0.05);
  EXPECT_LT(off.back(), 0.16);
  EXPECT_LT(off_by_layers, 0.07);
  EXPECT_LT(off_where_apart, 0.14);
}

// us of one run of each, in the same rounds: `auto` of then, by communication blocks, and presets.
struct Ways {
  const char* op;
  double auto_us, sequential_us, library_us;
};
constexpr Ways kWays[] = {
    {"mlp m=2048 h=8192 f=28672 ranks=2 dtype=bf16", 2391.8, 2299.1, 2461.4},
    {"mlp m=2048 h=4096 f=14336 ranks=2 dtype=bf16", 562.7, 635.6, 668.9},
};
constexpr const char* kAutoOfThen =
    "up:tiles,order=arrival,comm-sms=4,tile=128x256,start=wave/down:tiles,tile=128x256,comm-sms=0";

TEST(MeasuredLayers, AreSimulatedInTheOrderOfTheirTimes) {
  const Machine machine = load_machine("h200x8");
  for (const Ways& ways : kWays) {
    const Operator op = parse_operator(ways.op);
    const double tiles = predicted(op, kAutoOfThen, machine);
    const double sequential = predicted(op, "sequential", machine);
    const double library = predicted(op, "library", machine);
    EXPECT_LT(sequential, library) << ways.op;
    EXPECT_LT(tiles, 1.03 * library) << ways.op;  // whose gate and up were two products then
    if (ways.sequential_us < ways.auto_us) EXPECT_LT(sequential, tiles) << ways.op;
    EXPECT_NEAR(tiles / ways.auto_us, 1, 0.06) << ways.op;
  }
}

TEST(MeasuredLayers, HaveMixturesWhereThoseAreFaster) {
  const Operator op = parse_operator(kWays[0].op);
  const Machine machine = load_machine("h200x8");
  const AutoSchedules chosen = auto_schedules(op, machine, shipped_tuning());
  const auto& products = chosen.schedule.products;
  // Alone cuBLAS is the fastest for the up half: so the plan took 2289 us, by tiles 2185.
  EXPECT_EQ(products[0].gemm, GemmBy::tiles) << to_string(chosen.schedule);
  EXPECT_EQ(products[1].mover, Mover::epilogue) << to_string(chosen.schedule);
  EXPECT_LT(predicted(op, to_string(chosen.schedule), machine), 2299.1);
}

bool is_chain(const OperatorSchedule& schedule) {
  return std::all_of(schedule.products.begin(), schedule.products.end(),
                     [](const Schedule& one) { return one.gemm == GemmBy::tiles; });
}

// MLPs of up to 512 rows: where their two operators, with an activation between, were measured
// beside one plan of other schedules, that was not 1 % faster in any of twelve rows. So what is
// left is left for what is expected to be clearly faster: 512 x 4096 x 14336 then took 154 us for
// 163; or for a chain of kernels of tiles that is expected to be as fast.
TEST(MeasuredLayers, HaveWhatEachOperatorHasUnlessItDoesNotGoTogether) {
  const Machine machine = load_machine("h200x8");
  const Tuning tuning = shipped_tuning();
  int same = 0, other = 0;
  for (const auto& row : measured_rows("layers_passes_h200_x2.json")) {
    const Operator op = parse_operator(row.at("operator").get<std::string>());
    if (op.name() != "mlp" || op.rows() > kFewRows) continue;
    const AutoSchedules chosen = auto_schedules(op, machine, tuning);
    OperatorSchedule of_parts;
    of_parts.names = chosen.schedule.names;
    for (const OperatorSegment& segment : op.segments) {
      if (!segment.product) continue;
      const Segment product = of_one_weight(*segment.product);
      of_parts.products.push_back(
          for_weights_of(*segment.product, auto_schedule(product, machine, tuning).schedule));
    }
    if (chosen.schedule == of_parts) {
      ++same;
      continue;
    }
    ++other;
    const std::vector<double> us = predicted_us(op, {chosen.schedule, of_parts}, machine);
    const double clearly = is_chain(chosen.schedule) ? -0.03 : 0.07;
    EXPECT_LT(us[0] + std::min(clearly * us[0], 60.0), us[1]) << to_string(op);
  }
  EXPECT_GE(same, 3);
  EXPECT_EQ(same + other, 6);
}

// All were the fastest of those that ran. Where one was expected to take 6 % longer it is not
// taken.
TEST(MeasuredLayers, AreChainsOfTilesWhereTheseAreExpectedAlike) {
  const Machine machine = load_machine("h200x8");
  const Tuning tuning = shipped_tuning();
  int chains = 0;
  for (const auto& row : measured_rows("mlp_ways_h200_x2.json")) {
    const Operator op = parse_operator(row.at("operator").get<std::string>());
    if (op.rows() > kFewRows) continue;
    double chain_us = 0, other_us = 0;
    for (const auto& one : row.at("strategies")) {
      const double us = one.at("time_us");
      double& least = is_chain(parse_schedules(one.at("schedule").get<std::string>(), op, machine))
                          ? chain_us
                          : other_us;
      least = least == 0 ? us : std::min(least, us);
    }
    EXPECT_LT(chain_us, 0.99 * other_us) << to_string(op);
    chains += is_chain(auto_schedules(op, machine, tuning).schedule);
  }
  EXPECT_EQ(chains, 2);
}

}  // namespace
}  // namespace stretto
