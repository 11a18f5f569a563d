// What `tune` keeps of a sweep and its finals, on two GPUs: from one process, or from one a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "timed_command.h"

namespace stretto {
namespace {

using nlohmann::json;

class TuneOnGpus : public TimedCommand {};

TEST_P(TuneOnGpus, KeepsEveryScheduleOnceTheFastestFirst) {
  const std::string file = folder_.path("tuning.json");
  const Said said =
      said_of("tune", {"--more", "0", "--rounds", "2", "--turn", "2", "--no-cold", "--file", file});
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const json operators = json::parse(content_of(file)).at("operators");
  ASSERT_EQ(operators.size(), 1u);
  const json& measured = operators.at(0).at("measured");
  EXPECT_GE(measured.size(), 4u);
  std::set<std::string> schedules;
  double before = 0;
  for (const json& one : measured) {
    const double time = one.at("time_us"), low = one.at("low_us"), high = one.at("high_us");
    EXPECT_GT(low, 0);
    EXPECT_LE(low, time);
    EXPECT_LE(before, time);
    EXPECT_LE(time, high);
    EXPECT_TRUE(one.contains("predicted_us"));
    EXPECT_FALSE(one.contains("cold_us"));
    EXPECT_TRUE(schedules.insert(one.at("schedule")).second) << one.at("schedule");
    before = time;
  }

  ::setenv("STRETTO_TUNING_FILE", file.c_str(), 1);
  const Said planned = stretto_says(line("plan", {"--strategy", "auto", "--json"}));
  ::unsetenv("STRETTO_TUNING_FILE");
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_EQ(json::parse(planned.out).at("schedule"), measured.at(0).at("schedule"));
}

INSTANTIATE_TEST_SUITE_P(Gpu, TuneOnGpus, testing::Bool(), name_of_processes);

}  // namespace
}  // namespace stretto
