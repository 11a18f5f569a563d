// What `stretto doctor` finds on machines that stubs of CUDA's libraries play.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "stub_environment.h"

namespace stretto {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Doctor : public StubEnvironment {
 protected:
  void SetUp() override {
    set("LD_LIBRARY_PATH", stubs_ + "/driver");
    set("STRETTO_NCCL_PATH", stubs_ + "/none");
    set("STRETTO_CACHE_PATH", folder_.path("cache"));
    set("STUB_GPUS", "NVIDIA H200:132:9.0;NVIDIA H200:132:9.0");
  }

  static json examined() {
    const Said said = stretto_says({"doctor", "--json"});
    EXPECT_EQ(said.exit_code, 0) << said.err;
    return json::parse(said.out);
  }
  static json finding(const std::string& name) {
    const json found = examined();
    for (const json& one : found.at("findings")) {
      if (one.at("name") == name) return one;
    }
    return {};
  }

  ScratchFolder folder_;
};

TEST_F(Doctor, GpusAndWhetherTheyReachEachOther) {
  EXPECT_EQ(finding("GPUs").at("found"), "2 x NVIDIA H200, 132 SMs, sm_90a");
  EXPECT_EQ(finding("peer access").at("state"), "ok");
  set("STUB_NO_PEERS", "1");
  EXPECT_EQ(finding("peer access").at("state"), "WRONG");
  EXPECT_EQ(finding("peer access").at("found"), "GPU 0 cannot reach GPU 1's memory");
}

TEST_F(Doctor, GpusThatRunNoPlansAndGpusOfTwoKinds) {
  set("STUB_GPUS", "NVIDIA A100:108:8.0");
  EXPECT_EQ(finding("GPUs").at("state"), "none");
  EXPECT_THAT(std::string(finding("GPUs").at("to_do")), HasSubstr("Hopper"));
  set("STUB_GPUS", "NVIDIA H200:132:9.0;NVIDIA H100 PCIe:114:9.0");
  EXPECT_EQ(finding("GPUs").at("state"), "WRONG");
  EXPECT_THAT(std::string(finding("GPUs").at("found")), HasSubstr("mixed: NVIDIA H200"));
}

TEST_F(Doctor, WithoutAHomeNamesNoFileOfMeasurements) {
  set("HOME", "");
  set("STRETTO_TUNING_FILE", "");
  EXPECT_THAT(std::string(finding("tuning").at("found")), HasSubstr("there is no home folder"));
}

TEST_F(Doctor, WithoutADriverSaysWhatWorksAllTheSame) {
  set("LD_LIBRARY_PATH", stubs_ + "/old_driver");
  const Said said = stretto_says({"doctor"});
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.out, HasSubstr("none   driver"));
  EXPECT_THAT(said.out, HasSubstr("too old"));
  EXPECT_THAT(said.out, HasSubstr("-> install NVIDIA's driver"));
  EXPECT_THAT(said.out, HasSubstr("yes    plan, check, simulate"));
  EXPECT_THAT(said.out, HasSubstr("no     bench and tune: it lacks driver, GPUs"));
}

TEST_F(Doctor, BrokenTuningFileIsWrongAndSaysHowToMendIt) {
  set("STRETTO_TUNING_FILE", folder_.file("tuning.json", "{"));
  EXPECT_EQ(finding("tuning").at("state"), "WRONG");
  EXPECT_THAT(std::string(finding("tuning").at("to_do")), HasSubstr("STRETTO_TUNING_FILE"));
}

TEST_F(Doctor, VariablesThatCannotBeReadAreWrongAndNamed) {
  EXPECT_EQ(finding("variables").at("state"), "ok");
  const std::pair<const char*, const char*> wrong[] = {{"STRETTO_FABRIC", "foo"},
                                                       {"STRETTO_MEASURE_MS", "-5"},
                                                       {"STRETTO_JOIN_SECONDS", "abc"},
                                                       {"STRETTO_RANKS_A_GPU", "0"}};
  for (const auto& [variable, value] : wrong) set(variable, value);
  const json found = finding("variables");
  EXPECT_EQ(found.at("state"), "WRONG");
  for (const auto& [variable, value] : wrong) {
    EXPECT_THAT(std::string(found.at("found")), HasSubstr(variable));
    EXPECT_THAT(std::string(found.at("found")), HasSubstr(std::string("'") + value + "'"));
  }
  EXPECT_THAT(std::string(found.at("to_do")), HasSubstr("stretto env"));
}

TEST_F(Doctor, VariablesThatAreSetAndNoSecret) {
  set("STRETTO_JOB_SECRET", "word");
  const Said said = stretto_says({"doctor"});
  EXPECT_THAT(said.out, HasSubstr("STRETTO_CACHE_PATH='"));
  EXPECT_THAT(said.out, HasSubstr("STRETTO_JOB_SECRET='(hidden)'"));
  EXPECT_THAT(said.out, testing::Not(HasSubstr("word")));
}

}  // namespace
}  // namespace stretto
