// What is refused is called what it is, and the advice that follows is not refused in its turn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "cli/command.h"
#include "core/file.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

// The one line of what is refused.
std::string refusal(const Words& words, int exit_code = 2) {
  const Said said = stretto_says(words);
  EXPECT_EQ(said.exit_code, exit_code) << said.err;
  EXPECT_EQ(said.out, "");
  EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
  return said.err;
}

Words norm_with(const std::string& schedule) {
  return {"run", "gemm-ar-norm", "m=40", "n=64", "k=64", "--ranks", "2", "--schedule", schedule};
}

TEST(Advice, RowsBehindAProductAreNoEdge) {
  EXPECT_THAT(refusal(norm_with("tiles/out:waves")),
              AllOf(HasSubstr("out has rows behind a product, which move nothing"),
                    HasSubstr("leave it out; beside tiles"), HasSubstr("out:mover=epilogue"),
                    Not(HasSubstr("edge"))));
  EXPECT_EQ(stretto_says(norm_with("tiles/out:mover=epilogue")).exit_code, 0);
}

// Nobody said rows=bucket here, and neither rows=bucket nor rows=fixed would help.
TEST(Advice, FewerRowsOfSeveralProductsAreAnotherOperator) {
  const Words mlp = {"run", "mlp", "h=64", "f=64", "--ranks", "2"};
  for (const char* schedule : {"tiles", "tiles,rows=fixed"}) {
    EXPECT_THAT(refusal(mlp + Words{"m=300", "--rows", "77", "--schedule", schedule}),
                AllOf(HasSubstr("--rows '77' of mlp: operators of one product serve fewer rows"),
                      HasSubstr("leave --rows out, or give m=77"), Not(HasSubstr("rows=bucket"))));
  }
  EXPECT_EQ(stretto_says(mlp + Words{"m=77"}).exit_code, 0);
}

TEST(Advice, PlanFilesOfSeveralProductsAreToldOfNoSchedule) {
  const ScratchFolder scratch;
  const std::string plan = scratch.path("mlp.plan");
  ASSERT_EQ(stretto_says({"plan", "mlp", "64x64x64@2", "-o", plan}).exit_code, 0);
  EXPECT_THAT(
      refusal({"run", plan, "--rows", "7"}),
      AllOf(HasSubstr("operators of one product serve fewer rows"), Not(HasSubstr("rows=bucket"))));
}

TEST(Advice, WhatNoStrategyServesIsSaidOnce) {
  const std::string fewer = refusal({"run", "dispatch-combine", "t=300", "h=64", "experts=8", "k=2",
                                     "--ranks", "3", "--rows", "77", "--strategy", "all"});
  EXPECT_THAT(fewer, HasSubstr("leave --rows out, or give t=77"));
  EXPECT_LT(fewer.size(), 200u);
  // Rows of a scatter need equal shards, whatever else the presets lack.
  const std::string uneven =
      refusal({"run", "gemm-rs", "65x64x64@2", "--rows", "7", "--strategy", "all"});
  EXPECT_THAT(uneven, HasSubstr("slices cannot serve this: rows=bucket for m=65"));
  EXPECT_THAT(uneven, Not(HasSubstr("mover=nccl")));
}

TEST(Advice, RoutingsThatAreNoFilesAreNotMissing) {
  const auto with = [](const std::string& routing) {
    return Words{"run", "moe-tp",  "t=8", "h=16",      "f=16", "experts=4",
                 "k=2", "--ranks", "1",   "--routing", routing};
  };
  const ScratchFolder scratch;
  EXPECT_THAT(refusal(with("/dev/null")), HasSubstr("'/dev/null' is a pipe or a device"));
  EXPECT_THAT(refusal(with(scratch.path("")), 3), HasSubstr("Is a directory"));
  ASSERT_EQ(::mkfifo(scratch.path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal(with(scratch.path("pipe"))), HasSubstr("is a pipe or a device"));
  EXPECT_THAT(refusal(with("absent")), HasSubstr("nor is there a file of that name"));
}

TEST(Advice, PlanFilesAreNoOperatorsOfVerbsThatPlan) {
  const ScratchFolder scratch;
  const std::string plan = scratch.path("a.plan");
  ASSERT_EQ(stretto_says({"plan", "gemm-rs", "64x64x64@2", "-o", plan}).exit_code, 0);
  for (const char* verb : {"bench", "tune", "compile"}) {
    for (const std::string& file : {plan, std::string("absent.plan")}) {
      EXPECT_THAT(refusal({verb, file}),
                  AllOf(HasSubstr("'" + file + "' is no operator and no graph file"),
                        HasSubstr("a plan file goes with run, check, simulate and report"),
                        Not(HasSubstr("nearest"))));
    }
  }
  EXPECT_THAT(refusal({"check", "absent.plan"}), HasSubstr("there is no plan file 'absent.plan'"));
}

TEST(Advice, EmptyWordsAreCalledEmpty) {
  EXPECT_THAT(refusal({"run", "gemm-rs", "m=", "n=64", "k=64"}), HasSubstr("m is empty: give a"));
  EXPECT_THAT(refusal({"run", "", "64x64x64"}), HasSubstr("a word in place of OP|FILE is empty"));
  EXPECT_THAT(refusal({"run", "gemm-rs", "64x64x64@"}),
              HasSubstr("'64x64x64@' has no number of ranks behind @: give one, as 64x64x64@8"));
}

TEST(Advice, WordsThatAreWrongAlikeAreToldOnce) {
  const std::string said = refusal({"plan", "mlp", "64x64x64@2", "--schedule", "/"});
  EXPECT_EQ(said.find("an empty schedule"), said.rfind("an empty schedule"));
}

TEST(Advice, WhatHasNoEndIsNoPlan) {
  EXPECT_THAT(refusal({"check", "/dev/zero"}), HasSubstr("'/dev/zero' is a device; a file"));
}

TEST(Advice, PartsStandBeforeTheSchedule) {
  EXPECT_THAT(refusal(norm_with("tiles,split=2")),
              HasSubstr("split=2 stands before the schedule of all rows, as in split=2/tiles"));
  EXPECT_EQ(stretto_says(norm_with("split=2/tiles")).exit_code, 0);
}

// Where no id is an expert, every result is 0, which is a result like others.
TEST(Advice, ZerosOfTokensWithoutExpertsAreRight) {
  const ScratchFolder scratch;
  write_file(scratch.path("routing"), "-1 -1\n");
  const Said said =
      stretto_says({"run", "moe-ep", "t=1", "h=72", "f=72", "experts=4", "k=2", "--ranks", "2",
                    "--routing", scratch.path("routing"), "--strategy", "all"});
  EXPECT_EQ(said.exit_code, 0) << said.out;
}

}  // namespace
}  // namespace stretto
