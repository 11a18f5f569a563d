// What `bench` measures on two GPUs, from one process and from one a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "timed_command.h"

namespace stretto {
namespace {

using nlohmann::json;

void expect_times(const json& times) {
  EXPECT_GT(times.at("low_us"), 0);
  EXPECT_LE(times.at("low_us"), times.at("time_us"));
  EXPECT_LE(times.at("time_us"), times.at("high_us"));
}

class BenchCommandOnGpus : public TimedCommand {};

TEST_P(BenchCommandOnGpus, TellsEveryTimeWarmAndColdWithItsFloorAndPrediction) {
  const std::string file = folder_.path("bench.json");
  const Said said =
      said_of("bench", {"--strategies", "auto;tiles;decomposed", "--against", "sequential",
                        "--rounds", "3", "--commit", "abc", "--json", "-o", file});
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const json all = json::parse(content_of(file));
  EXPECT_EQ(all.at("commit"), "abc");
  EXPECT_EQ(all.at("ranks"), 2);
  EXPECT_EQ(all.at("rounds"), 3);
  EXPECT_EQ(all.at("runs_per_graph"), 10);
  ASSERT_EQ(all.at("rows").size(), 1u);
  const json& row = all.at("rows").at(0);
  const double gemm = row.at("gemm_us");
  EXPECT_EQ(row.at("floor_us"), std::max(gemm, row.at("link_floor_us").get<double>()));
  for (const char* path : {"gemm", "collective", "sequential"}) {
    expect_times(row.at("library").at(path));
    expect_times(row.at("library").at(path).at("cold"));
  }
  std::set<std::string> names;
  for (const json& one : row.at("strategies")) {
    SCOPED_TRACE(one.dump());
    names.insert(one.at("strategy"));
    expect_times(one);
    // Not of runs that alternate between buffers: a graph has two of them.
    if (one.at("strategy") != "auto") expect_times(one.at("cold"));
    EXPECT_DOUBLE_EQ(one.at("exposed_us"), one.at("time_us").get<double>() - gemm);
    EXPECT_GT(one.at("predicted_us"), 0);
    EXPECT_GT(one.at("compute_sms").get<int>(), 0);
    EXPECT_LE(one.at("compute_sms").get<int>() + one.at("comm_sms").get<int>(), all.at("sms"));
    EXPECT_LT(one.at("error"), 5e-3);
  }
  EXPECT_EQ(names, (std::set<std::string>{"auto", "decomposed", "sequential", "tiles"}));
}

INSTANTIATE_TEST_SUITE_P(Gpu, BenchCommandOnGpus, testing::Bool(), name_of_processes);

}  // namespace
}  // namespace stretto
