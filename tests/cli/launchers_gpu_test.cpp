// A job of one process a GPU, by every launcher that there is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "cli/command.h"
#include "skip.h"

namespace stretto {
namespace {

using nlohmann::json;
using testing::AnyOf;

struct Launcher {
  const char* name;
  std::string probe;                // succeeds where it is installed
  std::string command, of_program;  // before and behind the number of processes
};

void PrintTo(const Launcher& launcher, std::ostream* out) { *out << launcher.name; }

int returned_by(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class LaunchersOnGpus : public testing::TestWithParam<std::tuple<Launcher, int>> {
 protected:
  void SetUp() override {
    if (std::getenv("STRETTO_RANKS_A_GPU") != nullptr) STRETTO_SKIP("processes share no GPU");
    if (returned_by(launcher_.probe + " >/dev/null 2>&1") != 0) {
      STRETTO_SKIP(std::string(launcher_.name) + " is not installed");
    }
    const Said here = stretto_says({"run", "gemm-rs", "--m", "512", "--n", "512", "--k", "512",
                                    "--ranks", ranks_, "--target", "cuda"});
    if (here.exit_code == 3) STRETTO_SKIP(here.err);
  }

  const Launcher launcher_ = std::get<0>(GetParam());
  const std::string ranks_ = std::to_string(std::get<1>(GetParam()));
  ScratchFolder folder_;
};

TEST_P(LaunchersOnGpus, StartJobsWhoseResultsAreRight) {
  const std::string out = folder_.path("run.json"), log = folder_.path("log");
  const std::string command = "timeout 120 " + launcher_.command + " " + ranks_ +
                              launcher_.of_program + " '" + STRETTO_BINARY +
                              "' run gemm-rs --m 517 --n 960 --k 576 --target cuda --strategy "
                              "tiles,decomposed,waves,low-latency --ranks " +
                              ranks_ + " --json -o '" + out + "' >'" + log + "' 2>&1 </dev/null";
  ASSERT_EQ(returned_by(command), 0) << content_of(log) << content_of(out);
  const json said = json::parse(content_of(out));
  EXPECT_EQ(said.at("good"), true);
  EXPECT_THAT(said.at("fabric").get<std::string>(), AnyOf("windows", "exported"));
  ASSERT_EQ(said.at("results").size(), 4u);
  for (const json& result : said.at("results")) {
    EXPECT_EQ(result.at("cuda").at("verified"), true) << result;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Gpu, LaunchersOnGpus,
    testing::Combine(testing::Values(Launcher{"Stretto", "true",
                                              std::string(STRETTO_BINARY) + " launch -n", " --"},
                                     Launcher{"Mpirun", "command -v mpirun",
                                              "env OMPI_ALLOW_RUN_AS_ROOT=1 "
                                              "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n",
                                              ""},
                                     Launcher{"Torchrun", "python3 -c 'import torch'",
                                              "python3 -m torch.distributed.run --standalone "
                                              "--nproc-per-node",
                                              " --no-python --"}),
                     testing::Values(2, 4)),
    [](const auto& tested) {
      return std::get<0>(tested.param).name + std::to_string(std::get<1>(tested.param));
    });

}  // namespace
}  // namespace stretto
