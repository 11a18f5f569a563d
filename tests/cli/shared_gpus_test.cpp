// Ranks that share GPUs, as far as the command gets without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/command.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class SharedGpusOfACommand : public testing::Test {
 protected:
  void SetUp() override { setenv("STRETTO_RANKS_A_GPU", "4", 1); }
  void TearDown() override {
    unsetenv("STRETTO_RANKS_A_GPU");
    unsetenv("STRETTO_RANK");
    unsetenv("STRETTO_RANKS");
  }
  static void expect_refused(const std::vector<std::string>& arguments,
                             const testing::Matcher<const std::string&>& why) {
    const Said said = stretto_says(arguments);
    EXPECT_EQ(said.exit_code, 2) << said.err;
    EXPECT_THAT(said.out, IsEmpty());
    EXPECT_THAT(said.err, why);
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
  }
};

TEST_F(SharedGpusOfACommand, TimesAreNotTaken) {
  for (const char* verb : {"bench", "tune"}) {
    expect_refused({verb, "gemm-rs", "--m", "64", "--n", "64", "--k", "64", "--ranks", "2"},
                   AllOf(HasSubstr("STRETTO_RANKS_A_GPU=4"), HasSubstr("unset it to measure")));
  }
  expect_refused({"run", "gemm-rs", "--m", "64", "--n", "64", "--k", "64", "--ranks", "2",
                  "--target", "cuda", "--timeline"},
                 HasSubstr("unset it to measure"));
}

TEST_F(SharedGpusOfACommand, ProcessesDoNotShare) {
  setenv("STRETTO_RANK", "0", 1);
  setenv("STRETTO_RANKS", "2", 1);
  setenv("STRETTO_JOB", "shared_gpus_test", 1);
  expect_refused(
      {"run", "gemm-rs", "--m", "64", "--n", "64", "--k", "64", "--ranks", "2", "--target", "cuda"},
      AllOf(HasSubstr("ranks of one process"), HasSubstr("stretto started 2")));
}

TEST_F(SharedGpusOfACommand, OtherNumbersAreRefusedWhereTheyMatter) {
  setenv("STRETTO_RANKS_A_GPU", "9", 1);
  const std::vector<std::string> run = {"run", "gemm-rs", "--m", "64",      "--n",
                                        "64",  "--k",     "64",  "--ranks", "2"};
  expect_refused(run + std::vector<std::string>{"--target", "cuda"},
                 HasSubstr("a number from 1 to 8"));
  EXPECT_EQ(stretto_says(run).exit_code, 0) << "the emulator shares no GPUs";
}

}  // namespace
}  // namespace stretto
