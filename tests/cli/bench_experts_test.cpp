// `bench` of experts by a driver and libraries that compute nothing: what it asks cuBLAS for, and
// that results which nobody computed are wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>

#include "cli/command.h"
#include "stub_environment.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

class BenchOfExpertsByStubs : public StubEnvironment {
 protected:
  void SetUp() override {
    std::string folders;
    for (const char* stub : {"driver", "nccl", "nvrtc", "cublas", "cublas_lt"}) {
      folders += stubs_ + "/" + stub + ":";
    }
    set("LD_LIBRARY_PATH", folders);
    set("STRETTO_NCCL_PATH", stubs_ + "/nccl");
    set("STRETTO_CACHE_PATH", folder_.path("cache"));
    set("STUB_GPUS", "NVIDIA H200:132:9.0;NVIDIA H200:132:9.0");
    set("STUB_ELAPSED_MS", "0.5");
    set("STUB_GEMMS", folder_.path("gemms"));
    // Every token takes expert 0, and in turn one of three others; nobody takes the last two.
    for (int token = 0; token < 63; ++token)
      routing_ += "0 " + std::to_string(1 + token % 3) + "\n";
    file_ = folder_.file("routing", routing_);
  }

  Said bench(std::vector<std::string> op, const std::string& ranks) {
    return stretto_says(std::vector<std::string>{"bench"} + op +
                        std::vector<std::string>{"t=63", "h=256", "experts=6", "k=2", "--ranks",
                                                 ranks, "--strategy", "sequential", "--routing",
                                                 file_, "--rounds", "1", "--no-cold"});
  }
  // How often each shape was asked for: once ahead, and ten times in a graph.
  std::map<std::string, int> gemms() const {
    std::map<std::string, int> count;
    std::istringstream lines(content_of(folder_.path("gemms")));
    for (std::string line; std::getline(lines, line);) ++count[line];
    return count;
  }

  ScratchFolder folder_;
  std::string routing_, file_;
};

constexpr int kTimes = 11;

TEST_F(BenchOfExpertsByStubs, TakesThoseOfOneRankAtATime) {
  const Said said = bench({"moe-ep", "f=128"}, "1");
  EXPECT_EQ(said.exit_code, 1) << said.err;
  EXPECT_THAT(said.out,
              AllOf(ContainsRegex("cuBLAS alone +50.0 "), HasSubstr("routing of a file"),
                    ContainsRegex("library path +wrong results: run 0: rank 0 y.0,0.: got"),
                    ContainsRegex("sequential +WRONG: wrong results: run 0: rank 0 y")));
  EXPECT_THAT(gemms(),
              ElementsAre(Pair("21 128 256", 2 * 3 * kTimes), Pair("21 256 128", 3 * kTimes),
                          Pair("63 128 256", 2 * kTimes), Pair("63 256 128", kTimes)));
}

TEST_F(BenchOfExpertsByStubs, SendsRowsThatAreOnlyMovedWhereTheyAreNeeded) {
  for (const char* name : {"dispatch", "combine", "dispatch-combine"}) {
    const Said said = bench({name}, "2");
    EXPECT_EQ(said.exit_code, 1) << said.err;
    EXPECT_THAT(said.out,
                AllOf(ContainsRegex("NCCL alone +50.0 "), HasSubstr("routing of a file"),
                      HasSubstr("NCCL alone is an all-to-all"), Not(HasSubstr("cuBLAS alone")),
                      ContainsRegex("library path +wrong results: run 0: rank [01] "),
                      ContainsRegex("sequential +WRONG: wrong results: run 0: rank [01] ")))
        << name;
  }
}

TEST_F(BenchOfExpertsByStubs, TakesTheirRanksExpertsAlone) {
  const Said said = bench({"moe-ep", "f=128"}, "2");
  EXPECT_EQ(said.exit_code, 1) << said.err;
  EXPECT_THAT(said.out, ContainsRegex("NCCL alone +50.0 "));
  EXPECT_THAT(gemms(),
              ElementsAre(Pair("21 128 256", 2 * 3 * kTimes), Pair("21 256 128", 3 * kTimes),
                          Pair("63 128 256", 2 * kTimes), Pair("63 256 128", kTimes)));
}

TEST_F(BenchOfExpertsByStubs, TakesAShareOfEachThatRanksCut) {
  const Said said = bench({"moe-tp", "f=256"}, "2");
  EXPECT_EQ(said.exit_code, 1) << said.err;
  EXPECT_THAT(
      gemms(),
      ElementsAre(Pair("21 128 256", 2 * 2 * 3 * kTimes), Pair("21 256 128", 2 * 3 * kTimes),
                  Pair("63 128 256", 2 * 2 * kTimes), Pair("63 256 128", 2 * kTimes)));
}

}  // namespace
}  // namespace stretto
