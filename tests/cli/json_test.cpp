// The objects of --json, field by field as docs/cli.md has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/command.h"

namespace stretto {
namespace {

using Json = nlohmann::json;

Json says(std::vector<std::string> arguments, int exit_code = 0) {
  arguments.push_back("--json");
  const Said said = stretto_says(arguments);
  EXPECT_EQ(said.exit_code, exit_code) << said.err;
  Json json = Json::parse(said.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << said.out;
  EXPECT_EQ(json.value("schema", 0), 1);
  EXPECT_EQ(json.value("verb", ""), arguments.front());
  return json;
}

TEST(Json, Run) {
  const Json json = says(std::vector<std::string>{"run"} + small_operator() +
                         std::vector<std::string>{"--strategy", "all", "--seeds", "2"});
  EXPECT_TRUE(json.at("good"));
  EXPECT_EQ(json.at("operator"), Json::parse(R"({"kind": "gemm-rs", "m": 192, "n": 160, "k": 128,
                                                "ranks": 4, "dtype": "bf16"})"));
  EXPECT_EQ(json.at("machine"), "h200x8");
  ASSERT_GE(json.at("results").size(), 5u);
  size_t executed = 0;
  for (const Json& result : json.at("results")) {
    EXPECT_TRUE(result.at("strategy").is_string());
    if (!result.at("refused").empty()) continue;
    ++executed;
    EXPECT_TRUE(result.at("good")) << result.dump(1);
    EXPECT_TRUE(result.at("check").at("clean"));
    EXPECT_TRUE(result.at("emulate").at("verified"));
    EXPECT_TRUE(result.at("emulate").at("reproducible"));
    ASSERT_EQ(result.at("emulate").at("seeds").size(), 2u);
    EXPECT_EQ(result.at("emulate").at("seeds").at(1).at("seed"), 2);
    EXPECT_GT(result.at("simulate").at("total_us"), 0.0);
    EXPECT_GT(result.at("simulate").at("speedup_over_sequential"), 0.0);
    EXPECT_GT(result.at("plan").at("tasks"), 0);
  }
  EXPECT_GE(executed, 5u);
}

// Of the others there is none.
TEST(Json, RunSaysWhyAutoChose) {
  const Json json = says(std::vector<std::string>{"run"} + small_operator() +
                         std::vector<std::string>{"--strategy", "auto,tiles"});
  EXPECT_THAT(json.at("results").at(0).at("reason").get<std::string>(),
              testing::HasSubstr("the fastest"));
  EXPECT_FALSE(json.at("results").at(1).contains("reason"));
  for (const char* verb : {"check", "simulate"}) {
    const Json looked = says(std::vector<std::string>{verb} + small_operator() +
                             std::vector<std::string>{"--strategy", "auto,tiles"});
    EXPECT_EQ(looked.at("results").at(0).at("reason"), json.at("results").at(0).at("reason"));
    EXPECT_FALSE(looked.at("results").at(1).contains("reason"));
  }
  const Json plan = says(std::vector<std::string>{"plan"} + small_operator() +
                         std::vector<std::string>{"--strategy", "auto"});
  EXPECT_EQ(plan.at("reason"), json.at("results").at(0).at("reason"));
}

TEST(Json, Plan) {
  const std::vector<std::string> arguments = std::vector<std::string>{"plan"} + small_operator();
  const Json json = says(arguments);
  EXPECT_EQ(json.at("text"), stretto_says(arguments).out);
  EXPECT_EQ(json.at("strategy"), "tiles");
  EXPECT_GT(json.at("plan").at("waits"), 0);
}

TEST(Json, CheckOfABrokenPlan) {
  std::string text = stretto_says(std::vector<std::string>{"plan"} + small_operator()).out;
  const size_t wait = text.find("\n  wait ");
  ASSERT_NE(wait, std::string::npos);
  text.erase(wait + 1, text.find('\n', wait + 1) - wait);
  const ScratchFolder scratch;
  const Json json = says({"check", scratch.file("broken.plan", text)}, 1);
  EXPECT_FALSE(json.at("clean"));
  const Json& diagnostics = json.at("results").at(0).at("check").at("diagnostics");
  ASSERT_FALSE(diagnostics.empty());
  for (const char* field : {"kind", "message", "hint"}) {
    EXPECT_TRUE(diagnostics.at(0).at(field).is_string()) << field;
  }
  EXPECT_THAT(diagnostics.at(0).at("where").at("lane").get<std::string>(),
              testing::HasSubstr("rank"));
}

TEST(Json, Simulate) {
  const Json json = says(std::vector<std::string>{"simulate"} + small_operator());
  const Json& simulate = json.at("results").at(0).at("simulate");
  for (const char* field : {"total_us", "compute_us", "communication_us", "exposed_us", "floor_us",
                            "efficiency", "compute_occupancy"}) {
    EXPECT_TRUE(simulate.at(field).is_number()) << field;
  }
  EXPECT_FALSE(simulate.at("lanes").empty());
  EXPECT_FALSE(simulate.at("critical_path").empty());
}

// Whether that is one of the plans, or made for this alone.
TEST(Json, SpeedUpsAreOverSequential) {
  const auto results_of = [](const std::string& strategies) {
    return says(std::vector<std::string>{"simulate"} + small_operator() +
                std::vector<std::string>{"--strategy", strategies})
        .at("results");
  };
  const auto speed_up = [](const Json& result) {
    return result.at("simulate").at("speedup_over_sequential").get<double>();
  };
  const Json both = results_of("tiles,sequential"), alone = results_of("tiles");
  EXPECT_EQ(speed_up(both.at(1)), 1);
  EXPECT_EQ(speed_up(both.at(0)), speed_up(alone.at(0)));
  EXPECT_EQ(speed_up(alone.at(0)), both.at(1).at("simulate").at("total_us").get<double>() /
                                       alone.at(0).at("simulate").at("total_us").get<double>());
}

TEST(Json, Explore) {
  const Json clean = says({"explore", "all_to_all", "--seeds", "3", "--threads", "8"});
  EXPECT_TRUE(clean.at("clean"));
  EXPECT_EQ(clean.at("results").at(0).at("seeds_run"), 3);
  EXPECT_EQ(clean.at("results").at(0).at("shape").at("threads"), 8);
  EXPECT_TRUE(clean.at("results").at(0).at("finding").is_null());
  const Json found = says({"explore", "slot_clash"}, 1);
  EXPECT_FALSE(found.at("clean"));
  const Json& finding = found.at("results").at(0).at("finding");
  EXPECT_EQ(finding.at("kind"), "race");
  EXPECT_EQ(finding.at("smallest").at("threads"), 1);
  EXPECT_GT(finding.at("place").at("line"), 0);
  EXPECT_GT(finding.at("other").at("line"), 0);
}

// Whatever a schedule's text says, `strategies` explains.
TEST(Json, StrategiesKnowEveryCoordinateOfASchedule) {
  std::set<std::string> known, used;
  const Json json = says({"strategies"});
  for (const char* list : {"coordinates", "parameters"}) {
    for (const Json& one : json.at(list)) known.insert(one.at("name"));
  }
  for (const auto& [kind, schedule] :
       {std::pair{"gemm-rs", "library,collectives=low-latency,algorithm=3"},
        std::pair{"gemm-rs", "tiles,rows=bucket,split-k=2"},
        std::pair{"ag-gemm", "tiles,mover=comm-blocks,k-phases=2,own=gathered"}}) {
    const Json plan = says({"plan", kind, "--m", "256", "--n", "256", "--k", "512", "--ranks", "2",
                            "--schedule", schedule});
    std::stringstream text(plan.at("schedule").get<std::string>());
    for (std::string part; std::getline(text, part, ',');) {
      if (part.find('=') != std::string::npos) used.insert(part.substr(0, part.find('=')));
    }
  }
  EXPECT_GE(used.size(), 19u);
  EXPECT_THAT(known, testing::IsSupersetOf(used));
}

TEST(Json, Lists) {
  EXPECT_GE(says({"explore"}).at("kernels").size(), 50u);
  EXPECT_GE(says({"strategies"}).at("strategies").size(), 5u);
  EXPECT_GE(says({"strategies"}).at("coordinates").size(), 6u);
  EXPECT_GE(says({"machines"}).at("machines").size(), 4u);
  EXPECT_EQ(says({"machines", "h200x8"}).at("machines").at(0).at("sms"), 132);
  EXPECT_FALSE(says({"env"}).at("variables").empty());
}

}  // namespace
}  // namespace stretto
