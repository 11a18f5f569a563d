// A job of one process a GPU, by every launcher that there is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"
#include "skip.h"

namespace stretto {
namespace {

using nlohmann::json;
using testing::AnyOf;

struct Launcher {
  const char* name;
  std::string probe, command;
};

void PrintTo(const Launcher& launcher, std::ostream* out) { *out << launcher.name; }

int returned_by(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class LaunchersOnGpus : public testing::TestWithParam<Launcher> {
 protected:
  static constexpr const char* kRun =
      " run gemm-rs --m 517 --n 960 --k 576 --ranks 2 --target cuda "
      "--strategy tiles,decomposed,low-latency";

  void SetUp() override {
    if (std::getenv("STRETTO_RANKS_A_GPU") != nullptr) STRETTO_SKIP("processes share no GPU");
    if (returned_by(GetParam().probe + " >/dev/null 2>&1") != 0) {
      STRETTO_SKIP(std::string(GetParam().name) + " is not installed");
    }
    const Said here = stretto_says({"run", "gemm-rs", "--m", "512", "--n", "512", "--k", "512",
                                    "--ranks", "2", "--target", "cuda"});
    if (here.exit_code == 3) STRETTO_SKIP(here.err);
  }

  ScratchFolder folder_;
};

TEST_P(LaunchersOnGpus, StartJobsWhoseResultsAreRight) {
  const std::string out = folder_.path("run.json"), log = folder_.path("log");
  const std::string command = "timeout 120 " + GetParam().command + " '" + STRETTO_BINARY + "'" +
                              kRun + " --json -o '" + out + "' >'" + log + "' 2>&1 </dev/null";
  ASSERT_EQ(returned_by(command), 0) << content_of(log);
  const json said = json::parse(content_of(out));
  EXPECT_EQ(said.at("good"), true);
  EXPECT_THAT(said.at("fabric").get<std::string>(), AnyOf("windows", "exported"));
  ASSERT_EQ(said.at("results").size(), 3u);
  for (const json& result : said.at("results")) {
    EXPECT_EQ(result.at("cuda").at("verified"), true) << result;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Gpu, LaunchersOnGpus,
    testing::Values(Launcher{"Stretto", "true", std::string(STRETTO_BINARY) + " launch -n 2 --"},
                    Launcher{"Mpirun", "command -v mpirun",
                             "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                             "mpirun -n 2"},
                    Launcher{"Torchrun", "python3 -c 'import torch'",
                             "python3 -m torch.distributed.run --standalone --nproc-per-node 2 "
                             "--no-python"}),
    [](const auto& launcher) { return std::string(launcher.param.name); });

}  // namespace
}  // namespace stretto
