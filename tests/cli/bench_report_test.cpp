// What `bench` says of times: floors, speed-ups, what is exposed, SMs, spreads and cold runs.
#include "cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "stretto/machine.h"

namespace stretto::cli {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class BenchReport : public testing::Test {
 protected:
  BenchReport() {
    benched_.op = parse_operator("gemm-rs m=2048 n=4096 k=8192 ranks=4 dtype=bf16");
    benched_.machine = default_machine(4);
    benched_.library = {runtime::PathTimes{{100, 98, 103}, runtime::Spread{110, 108, 115}},
                        runtime::PathTimes{{60, 59, 64}, {}},
                        runtime::PathTimes{{160, 158, 165}, runtime::Spread{175, 171, 180}},
                        {}};
    benched_.link_floor_us = 80;
    add("sequential", {{150, 149, 152}, runtime::Spread{164, 160, 170}});
    add("tiles", {{125, 121, 129}, runtime::Spread{140, 139, 150}});
    benched_.strategies[1].measured.parts = runtime::RunParts{3, 90, 5, 2, 25};
  }

  BenchedStrategy& add(const std::string& name, const runtime::PathTimes& times) {
    BenchedStrategy& one = benched_.strategies.emplace_back();
    one.choice.name = name;
    one.choice.schedule = parse_schedules(name, benched_.op, benched_.machine);
    one.predicted_us = 120.04;
    one.compute_sms = 124;
    one.comm_sms = 8;
    one.measured.error = 1e-3;
    one.measured.times = times;
    return one;
  }

  Json strategy(size_t index) const { return to_json(benched_).at("strategies").at(index); }

  BenchedOperator benched_;
};

TEST_F(BenchReport, TablesCompareWithTheLibraryPathOrAStrategy) {
  // time, spread, cold, speed-up, exposed, floor / time, predicted, SMs
  EXPECT_THAT(print(benched_, "library"),
              AllOf(ContainsRegex("cuBLAS alone +100.0 +98.0-103.0 +110.0 +1.60 +0.0 +1.00 "),
                    ContainsRegex("NCCL alone +60.0 +59.0-64.0 +- "),
                    ContainsRegex("library path +160.0 +158.0-165.0 +175.0 +1.00 +60.0 +0.6[23] "),
                    ContainsRegex("tiles +125.0 +121.0-129.0 +140.0 +1.28 +25.0 +0.80 +120.0 "
                                  "+124\\+8")));
  EXPECT_THAT(print(benched_, "sequential"),
              ContainsRegex("tiles +125.0 +121.0-129.0 +140.0 +1.20 +25.0 "));
  EXPECT_THAT(print(benched_, "slices"), ContainsRegex("tiles +125.0 +121.0-129.0 +140.0 +- "));
}

TEST_F(BenchReport, WhatCouldNotBeMeasuredSaysWhy) {
  benched_.problem = "no memory";
  EXPECT_EQ(print(benched_, "library"),
            "gemm-rs m=2048 n=4096 k=8192 ranks=4 dtype=bf16\n\nnot measured: no memory\n\n");
  EXPECT_EQ(to_json(benched_).at("problem"), "no memory");
  EXPECT_TRUE(to_json(benched_).at("strategies").empty());
}

TEST_F(BenchReport, TheFloorIsTheLongerOfTheGemmAndTheLink) {
  EXPECT_EQ(to_json(benched_).at("floor_us"), 100);
  benched_.link_floor_us = 112.5;
  EXPECT_EQ(to_json(benched_).at("floor_us"), 112.5);
  EXPECT_THAT(print(benched_, "library"), ContainsRegex("tiles .* 0.90 +120.0 "));
}

// Look-ups multiply nothing, and no library makes them.
TEST_F(BenchReport, TheFloorOfLookUpsIsWhatTheyRead) {
  benched_.op =
      parse_operator("embedding-a2a bags=64 tables=4 rows=100 dim=64 pool=2 ranks=4 dtype=bf16");
  benched_.library.gemm.reset();
  benched_.look_up_floor_us = 90;
  const std::string table = print(benched_, "library");
  EXPECT_THAT(table, AllOf(Not(HasSubstr("cuBLAS alone")), HasSubstr("library path"),
                           ContainsRegex("tiles +125.0 +121.0-129.0 +140.0 +1.28 +35.0 +0.72 "),
                           ContainsRegex("look-ups +no library has a call for them"),
                           ContainsRegex("floor is 90.0\\s+us")));
  const Json json = to_json(benched_);
  EXPECT_EQ(json.at("look_up_floor_us"), 90);
  EXPECT_EQ(json.at("floor_us"), 90);
  EXPECT_EQ(strategy(1).at("exposed_us"), 35);
  EXPECT_FALSE(json.contains("gemm_us") || json.at("library").contains("gemm"));
  benched_.link_floor_us = 95;
  EXPECT_EQ(to_json(benched_).at("floor_us"), 95);
}

// Of experts cuBLAS alone is no floor: it takes them one at a time.
TEST_F(BenchReport, TheFloorOfExpertsIsThatOfTheirProducts) {
  benched_.op = parse_operator("moe-ep t=64 h=64 f=64 experts=4 k=2 ranks=4 dtype=bf16");
  for (BenchedStrategy& one : benched_.strategies) {
    one.choice.schedule = parse_schedules(one.choice.name, benched_.op, benched_.machine);
  }
  benched_.expert_floor_us = 90;
  benched_.routing = "zipf";
  const std::string table = print(benched_, "library");
  EXPECT_THAT(table,
              AllOf(ContainsRegex("cuBLAS alone +100.0 "),
                    ContainsRegex("tiles +125.0 +121.0-129.0 +140.0 +1.28 +35.0 +0.72 "),
                    HasSubstr("routing zipf;"), HasSubstr("cuBLAS takes sizes from the host"),
                    ContainsRegex("products +their floor is 90.0 us: "),
                    ContainsRegex("cuBLAS +alone: an expert at a time")));
  const Json json = to_json(benched_);
  EXPECT_EQ(json.at("expert_floor_us"), 90);
  EXPECT_EQ(json.at("routing"), "zipf");
  EXPECT_EQ(json.at("floor_us"), 90);
  EXPECT_EQ(strategy(1).at("exposed_us"), 35);
  benched_.link_floor_us = 95;
  EXPECT_EQ(to_json(benched_).at("floor_us"), 95);
}

TEST_F(BenchReport, JsonHasEveryTimeWithItsSpreadAndPrediction) {
  const Json json = to_json(benched_);
  EXPECT_EQ(json.at("gemm_us"), 100);
  EXPECT_EQ(json.at("nccl_us"), 60);
  EXPECT_EQ(json.at("sequential_us"), 160);
  EXPECT_EQ(json.at("link_floor_us"), 80);
  EXPECT_EQ(json.at("library").at("sequential").at("cold").at("high_us"), 180);
  EXPECT_FALSE(json.at("library").at("collective").contains("cold"));
  const Json tiles = strategy(1);
  EXPECT_EQ(tiles.at("strategy"), "tiles");
  EXPECT_EQ(tiles.at("short"), "tiles");
  EXPECT_EQ(parse_schedules(tiles.at("schedule").get<std::string>(), benched_.op, benched_.machine),
            benched_.strategies[1].choice.schedule);
  for (const auto& [field, value] : {std::pair{"time_us", 125.0},
                                     {"low_us", 121.0},
                                     {"high_us", 129.0},
                                     {"exposed_us", 25.0},
                                     {"predicted_us", 120.04},
                                     {"compute_sms", 124.0},
                                     {"comm_sms", 8.0},
                                     {"error", 1e-3}}) {
    EXPECT_EQ(tiles.at(field), value) << field;
  }
  EXPECT_EQ(tiles.at("cold").at("time_us"), 140);
  EXPECT_EQ(tiles.at("parts").at("multiplying_us"), 90);
  EXPECT_THAT(print(benched_, "library"), HasSubstr("an SM waits 3.0 us, multiplies 90.0"));
}

TEST_F(BenchReport, WhoIsWrongOrRefusedHasNoTimes) {
  BenchedStrategy& wrong = add("slices", {});
  wrong.measured.problem = "wrong by 0.5";
  BenchedStrategy& refused = add("waves", {});
  refused.choice.refused = {"one reason", "another"};
  const std::string table = print(benched_, "library");
  EXPECT_THAT(table, AllOf(HasSubstr("WRONG: wrong by 0.5"),
                           HasSubstr("cannot serve this: one reason; another")));
  EXPECT_EQ(strategy(2).at("wrong"), "wrong by 0.5");
  EXPECT_EQ(strategy(3).at("refused").size(), 2);
  for (const size_t index : {2, 3}) EXPECT_FALSE(strategy(index).contains("time_us"));
  EXPECT_EQ(benched_.fastest()->choice.name, "tiles");
  EXPECT_THAT(table, Not(HasSubstr("auto")));
}

// Of operators that no calls of libraries make one after the other, a plan stands for them, or
// none.
TEST_F(BenchReport, ALibraryPathMayBeMissing) {
  benched_.library.sequential.reset();
  EXPECT_THAT(print(benched_, "library"),
              AllOf(Not(HasSubstr("library path")),
                    ContainsRegex("tiles +125.0 +121.0-129.0 +140.0 +- +25.0 ")));
  EXPECT_FALSE(to_json(benched_).contains("sequential_us"));
  benched_.library.problem = "wrong results";
  EXPECT_THAT(print(benched_, "library"), ContainsRegex("library path +wrong results"));
  EXPECT_EQ(to_json(benched_).at("library").at("problem"), "wrong results");
}

TEST_F(BenchReport, WhatAutoTookIsSaid) {
  BenchedStrategy& chosen = add("tiles,comm-sms=4", {{110, 108, 112}, {}});
  chosen.choice.name = "auto";
  chosen.choice.reason = "measured";
  EXPECT_THAT(print(benched_, "library"), ContainsRegex("auto +tiles,comm-sms=4: measured"));
  EXPECT_EQ(strategy(2).at("reason"), "measured");
  EXPECT_EQ(benched_.fastest()->choice.name, "auto");
}

}  // namespace
}  // namespace stretto::cli
