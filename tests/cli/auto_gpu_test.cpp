// What `auto` does with an algorithm that the cuBLAS of this machine may not propose, on a GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "skip.h"

namespace stretto {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct Sizes {
  int m, n, k;
};

std::vector<std::string> line(const char* verb, const Sizes& of) {
  return {verb,      "ag-gemm",
          "--m",     std::to_string(of.m),
          "--n",     std::to_string(of.n),
          "--k",     std::to_string(of.k),
          "--ranks", "1",
          "--json"};
}

class AutoOnAGpu : public testing::TestWithParam<Sizes> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_timed(run_of("library")); !why.empty()) STRETTO_SKIP(why);
    const Sizes& of = GetParam();
    const std::string op =
        fmt::format("ag-gemm m={} n={} k={} ranks=1 dtype=bf16", of.m, of.n, of.k);
    const std::string measured = R"({"schedule": "library,algorithm=7", "time_us": 1, )"
                                 R"("low_us": 1, "high_us": 1})";
    tuning_ = folder_.file(
        "tuning.json", R"({"stretto_tuning": 1, "operators": [{"operator": ")" + op +
                           R"(", "machine": "h200x8", "library_us": 2, "measured": [)" + measured +
                           "]}]}");
    ::setenv("STRETTO_TUNING_FILE", tuning_.c_str(), 1);
  }
  void TearDown() override { ::unsetenv("STRETTO_TUNING_FILE"); }

  static std::vector<std::string> run_of(const std::string& schedule) {
    return line("run", GetParam()) +
           std::vector<std::string>{"--target", "cuda", "--schedule", schedule};
  }
  static Said run(const std::string& schedule) { return stretto_says(run_of(schedule)); }
  // As its schedule or, where that is refused, the first, with the reason.
  static void expect_chosen(const json& result, bool is_proposed) {
    const std::string schedule = result.at("schedule"), reason = result.at("reason");
    EXPECT_THAT(reason, HasSubstr("measured on this shape"));
    if (is_proposed) {
      EXPECT_THAT(schedule, HasSubstr("algorithm=7"));
      EXPECT_THAT(reason, Not(HasSubstr("algorithm")));
    } else {
      EXPECT_THAT(schedule, Not(HasSubstr("algorithm")));
      EXPECT_THAT(reason, HasSubstr("with algorithm=0 instead of 7, for cuBLAS proposes only "));
    }
  }

  ScratchFolder folder_;
  std::string tuning_;
};

TEST_P(AutoOnAGpu, TakesTheFirstWhereNamingTheAlgorithmIsRefused) {
  const Said named = run("library,algorithm=7");
  const bool is_proposed = named.exit_code == 0;
  std::cout << "algorithm=7 is " << (is_proposed ? "proposed\n" : "not proposed\n");
  if (!is_proposed) {
    EXPECT_EQ(named.exit_code, 2);
    EXPECT_THAT(named.err, HasSubstr("algorithm=7: cuBLAS proposes "));
  }
  const Said ran = run("auto");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const json said = json::parse(ran.out);
  expect_chosen(said.at("results").at(0), is_proposed);
  if (std::getenv("STRETTO_FABRIC") == nullptr) {
    EXPECT_EQ(said.at("fabric"), "peer");
  }

  const Said benched = stretto_says(
      line("bench", GetParam()) +
      std::vector<std::string>{"--strategies", "auto;library,algorithm=7", "--rounds", "1"});
  ASSERT_EQ(benched.exit_code, 0) << benched.err;
  const json strategies = json::parse(benched.out).at("rows").at(0).at("strategies");
  expect_chosen(strategies.at(0), is_proposed);
  EXPECT_TRUE(strategies.at(0).contains("time_us"));
  EXPECT_EQ(strategies.at(1).contains("refused"), !is_proposed);
}

// For large products cuBLAS proposes many, for the smallest few.
INSTANTIATE_TEST_SUITE_P(Gpu, AutoOnAGpu,
                         testing::Values(Sizes{4096, 4096, 4096}, Sizes{16, 16, 64}, Sizes{1, 8, 8},
                                         Sizes{3, 24, 8}),
                         [](const auto& i) {
                           return fmt::format("{}x{}x{}", i.param.m, i.param.n, i.param.k);
                         });

}  // namespace
}  // namespace stretto
