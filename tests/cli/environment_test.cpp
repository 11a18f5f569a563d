// Files of the user's that environment variables name, and that are missing or broken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(TuningOfTheUser, ThatIsNotThereIsMissedByThoseWhoChooseByIt) {
  const ScratchFolder scratch;
  const Variable named("STRETTO_TUNING_FILE", scratch.path("absent.json"));
  for (const char* verb : {"run", "plan", "check", "simulate", "compile"}) {
    const std::string option = std::string(verb) == "compile" ? "--strategies" : "--strategy";
    const Said said = stretto_says(Words{verb} + small_operator() + Words{option, "auto"});
    EXPECT_EQ(said.exit_code, 2) << verb;
    EXPECT_EQ(said.out, "") << verb;
    EXPECT_THAT(said.err, AllOf(HasSubstr("STRETTO_TUNING_FILE names '" +
                                          scratch.path("absent.json") + "', which is not there"),
                                HasSubstr("stretto tune")));
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
  }
  EXPECT_EQ(stretto_says(Words{"plan"} + small_operator()).exit_code, 0);
}

// GPUs are hidden, so it ends there; the file does not stop it before.
TEST(TuningOfTheUser, ThatIsNotThereIsBegunByTune) {
  const ScratchFolder scratch;
  const Variable named("STRETTO_TUNING_FILE", scratch.path("below/absent.json"));
  const Variable hidden("CUDA_VISIBLE_DEVICES", "");
  const Said said = stretto_says(Words{"tune"} + small_operator());
  EXPECT_EQ(said.exit_code, 3) << said.err;
  EXPECT_THAT(said.err, Not(HasSubstr("STRETTO_TUNING_FILE")));
  EXPECT_TRUE(std::filesystem::exists(scratch.path("below")));
}

TEST(MachinesOfTheUser, ThatAreNotFoundMayBeSoughtInNoFolder) {
  const ScratchFolder scratch;
  const Variable folders("STRETTO_MACHINE_PATH", scratch.path("") + ":" + scratch.path("absent"));
  const Said said = stretto_says({"machines", "mine"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("; STRETTO_MACHINE_PATH names '" + scratch.path("absent") +
                                  "', which is no folder\n"));
  EXPECT_EQ(stretto_says({"machines"}).exit_code, 0);
}

TEST(MachinesOfTheUser, ThatAreBrokenHideNoOthers) {
  const ScratchFolder scratch;
  const std::string bad = scratch.file("a-bad.json", "{");
  std::filesystem::create_symlink(scratch.path("absent"), scratch.path("gone.json"));
  scratch.file("mine.json", content_of(STRETTO_TEST_DIR "/../../machines/h100x8.json"));
  const Variable folder("STRETTO_MACHINE_PATH", scratch.path(""));
  const Said said = stretto_says({"machines"});
  EXPECT_EQ(said.exit_code, 3);  // the link's; the other's alone is 2
  for (const char* name : {"h100x8", "h200x64", "mine"}) EXPECT_THAT(said.out, HasSubstr(name));
  EXPECT_THAT(said.out, Not(HasSubstr("a-bad")));
  EXPECT_THAT(said.err, AllOf(HasSubstr("stretto: machine file '" + bad),
                              HasSubstr("stretto: cannot read '" + scratch.path("gone.json"))));
  EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 2) << said.err;

  std::filesystem::remove(scratch.path("gone.json"));
  const Said listed = stretto_says({"machines", "--json"});
  EXPECT_EQ(listed.exit_code, 2);
  const auto json = nlohmann::json::parse(listed.out);
  ASSERT_EQ(json.at("broken").size(), 1u);
  EXPECT_THAT(json.at("broken").at(0).get<std::string>(), HasSubstr(bad));
  EXPECT_GE(json.at("machines").size(), 6u);
}

TEST(FolderOfKernels, ThatCannotBeWrittenIsNamedWithItsVariable) {
  const Variable folder("STRETTO_CACHE_PATH", "/dev/null");
  const Said said = stretto_says(Words{"compile"} + small_operator());
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err, AllOf(HasSubstr("the folder of kernels '/dev/null' (cannot write"),
                              HasSubstr("set STRETTO_CACHE_PATH to one that can be written")));
}

// A pipe that nobody writes has nothing to read for ever.
TEST(FilesOfTheUser, ThatArePipesAreRefusedAtOnce) {
  const ScratchFolder scratch;
  const std::string pipe = scratch.path("pipe.json");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string refused = "'" + pipe + "' is a pipe or a device; a file is needed";
  const auto expect_refused = [&](const Words& words) {
    const Said said = stretto_says(words);
    EXPECT_EQ(said.exit_code, 2) << said.err;
    EXPECT_EQ(said.out, "");
    EXPECT_EQ(said.err, "stretto: " + refused + "\n");
  };
  expect_refused(Words{"plan"} + small_operator() + Words{"--machine", pipe});
  {
    const Variable named("STRETTO_TUNING_FILE", pipe);
    expect_refused(Words{"plan"} + small_operator() + Words{"--strategy", "auto"});
  }
  const Variable named("STRETTO_MACHINE_PATH", scratch.path(""));
  expect_refused(Words{"plan"} + small_operator() + Words{"--machine", "pipe"});
  const Said listed = stretto_says({"machines"});
  EXPECT_THAT(listed.out + listed.err, HasSubstr(refused));
}

}  // namespace
}  // namespace stretto
