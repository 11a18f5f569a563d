// Where output goes, and that nothing of it is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"

namespace stretto {
namespace {

using testing::HasSubstr, testing::Not;

TEST(Output, GoesToTheFile) {
  const ScratchFolder scratch;
  const std::vector<std::string> arguments = std::vector<std::string>{"plan"} + small_operator();
  const std::string file = scratch.file("a.plan", "old");
  const Said said = stretto_says(arguments + std::vector<std::string>{"-o", file});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(said.out, "");
  EXPECT_EQ(content_of(file), stretto_says(arguments).out);
}

TEST(Output, ToAMinusIsStandardOutput) {
  EXPECT_EQ(stretto_says({"strategies", "-o", "-"}).out, stretto_says({"strategies"}).out);
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST(Output, NeverTakesThePlaceOfAMachineFileThatIsRead) {
  const ScratchFolder scratch;
  const std::string machine = scratch.file("mine.json", "{}");
  for (const char* option : {"-o", "--perfetto"}) {
    const Said said = stretto_says(std::vector<std::string>{"simulate"} + small_operator() +
                                   std::vector<std::string>{"--machine", machine, option, machine});
    EXPECT_EQ(said.exit_code, 2);
    EXPECT_THAT(said.err, HasSubstr("is read, and the result would take its place"));
  }
  ::setenv("STRETTO_MACHINE_PATH", scratch.path("").c_str(), 1);
  const Said by_name = stretto_says({"machines", "mine", "-o", machine});
  ::unsetenv("STRETTO_MACHINE_PATH");
  EXPECT_EQ(by_name.exit_code, 2);
  EXPECT_THAT(by_name.err, HasSubstr("is read, and the result would take its place"));
  EXPECT_EQ(content_of(machine), "{}");
}

TEST(Output, NeverTakesThePlaceOfTheTuningFile) {
  const ScratchFolder scratch;
  const std::string empty = R"({"stretto_tuning": 1, "operators": []})";
  const std::string tuning = scratch.file("tuning.json", empty);
  ::setenv("STRETTO_TUNING_FILE", tuning.c_str(), 1);
  for (const char* option : {"--output", "--perfetto"}) {
    const Said said = stretto_says(std::vector<std::string>{"simulate"} + small_operator() +
                                   std::vector<std::string>{"--strategy", "auto", option, tuning});
    EXPECT_EQ(said.exit_code, 2);
    EXPECT_THAT(said.err, HasSubstr(std::string(option) + " names the tuning file"));
  }
  ::unsetenv("STRETTO_TUNING_FILE");
  EXPECT_EQ(content_of(tuning), empty);
}

TEST(Output, OfTwoResultsMayGoToADevice) {
  const Said said =
      stretto_says(std::vector<std::string>{"simulate"} + small_operator() +
                   std::vector<std::string>{"--perfetto", "/dev/null", "-o", "/dev/null"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
}

TEST(Output, UnwritablePathIsASystemFaultBeforeTheWork) {
  for (const char* option : {"-o", "--perfetto"}) {
    const Said said = stretto_says(std::vector<std::string>{"simulate"} + small_operator() +
                                   std::vector<std::string>{option, "/nonexistent/folder/out"});
    EXPECT_EQ(said.exit_code, 3);
    EXPECT_EQ(said.out, "");
    EXPECT_THAT(said.err, HasSubstr("cannot write '/nonexistent/folder/out'"));
  }
}

TEST(Output, FullDeviceIsASystemFaultAndTheResultIsKept) {
  const Said said = stretto_says({"strategies", "-o", "/dev/full"});
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err, HasSubstr("went to standard output"));
  EXPECT_EQ(said.out, stretto_says({"strategies"}).out);
}

TEST(Output, BeyondTheLimitOfFileSizesIsASystemFaultAndTheOldFileStays) {
  const ScratchFolder scratch;
  const std::string file = scratch.file("a.plan", "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1024;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Said said = stretto_says(
      std::vector<std::string>{"plan"} + small_operator() + std::vector<std::string>{"-o", file},
      ">/dev/null");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err, HasSubstr("cannot write '" + file + "'"));
  EXPECT_EQ(content_of(file), "old");
}

TEST(Output, LostOnItsWayIsASystemFault) {
  for (const char* verb : {"strategies", "--help", "--version"}) {
    for (const char* redirection : {">/dev/full", ">&-"}) {
      const Said said = stretto_says({verb}, redirection);
      EXPECT_EQ(said.exit_code, 3) << verb << redirection;
      EXPECT_THAT(said.err, HasSubstr("cannot write to standard output"));
    }
  }
}

TEST(Output, MessagesMayHaveNowhereToGo) {
  for (const char* redirection : {"2>/dev/full", "2>&-"}) {
    EXPECT_EQ(stretto_says({"run", "gem-rs"}, redirection).exit_code, 2) << redirection;
  }
}

TEST(Output, PerfettoIsJson) {
  const ScratchFolder scratch;
  const Said said = stretto_says(std::vector<std::string>{"simulate"} + small_operator() +
                                 std::vector<std::string>{"--perfetto", scratch.path("t.json")});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_FALSE(
      nlohmann::json::parse(content_of(scratch.path("t.json")), nullptr, false).is_discarded());
}

TEST(Output, IsSilentOnStandardErrorWhenAllIsWell) {
  const Said said = stretto_says(std::vector<std::string>{"run"} + small_operator());
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_EQ(said.err, "");
}

TEST(Output, TablesFitIn100Columns) {
  const std::vector<std::vector<std::string>> commands = {
      std::vector<std::string>{"run"} + small_operator() +
          std::vector<std::string>{"--strategy", "all"},
      std::vector<std::string>{"simulate"} + small_operator(),
      {"strategies"},
      {"machines"},
      {"machines", "h200x8"},
      {"env"}};
  for (const auto& command : commands) {
    const std::string out = stretto_says(command).out;
    for (size_t begin = 0; begin < out.size();) {
      const size_t end = std::min(out.find('\n', begin), out.size());
      const std::string line = out.substr(begin, end - begin);
      // Characters, not bytes: continuation bytes of UTF-8 take no column.
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
      });
      EXPECT_LE(columns, 100) << line;
      begin = end + 1;
    }
  }
}

// What names no expert, or no row of a table, is left out, and told.
TEST(Output, OfRunsSaysHowManyNumbersNameNothing) {
  const auto said = [](const std::vector<std::string>& words, const std::string& routing) {
    const Said of_run = stretto_says(
        std::vector<std::string>{"run"} + words +
        std::vector<std::string>{"--ranks", "2", "--strategy", "tiles", "--routing", routing});
    EXPECT_EQ(of_run.exit_code, 0) << of_run.err;
    return of_run.out;
  };
  const std::vector<std::string> bags = {"embedding-a2a", "bags=20", "tables=4",
                                         "rows=9",        "dim=8",   "pool=3"};
  EXPECT_THAT(said(bags, "adversarial"), HasSubstr(" of a run are no row of their table, and not"));
  EXPECT_THAT(said(bags, "uniform"), Not(HasSubstr("indices ")));
  EXPECT_THAT(said({"moe-ep", "t=20", "h=16", "f=16", "experts=4", "k=2"}, "adversarial"),
              HasSubstr(" of a run are no expert's, and not -1 for none"));
}

}  // namespace
}  // namespace stretto
