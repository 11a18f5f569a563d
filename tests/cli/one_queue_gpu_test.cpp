// Plans of several streams on GPUs whose driver has one queue for all of them, as some training
// frameworks ask it to: in a process of its own, since the driver reads that when it starts.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/command.h"
#include "skip.h"

namespace stretto {
namespace {

constexpr const char* kQueues = "CUDA_DEVICE_MAX_CONNECTIONS";

class OneQueueOnGpus : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::getenv("STRETTO_RANKS_A_GPU") != nullptr)
      STRETTO_SKIP("ranks that share a GPU need many");
    ::setenv(kQueues, "1", 1);
  }
  void TearDown() override { ::unsetenv(kQueues); }
};

TEST_P(OneQueueOnGpus, HoldsUpNoRun) {
  for (const char* kind : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
    const Said said = stretto_says({"run", kind, "--m", "1024", "--n", "1024", "--k", "1024",
                                    "--ranks", "2", "--target", "cuda", "--schedule", GetParam()});
    if (said.exit_code == 3) STRETTO_SKIP(said.err);
    EXPECT_EQ(said.exit_code, 0) << kind << "\n" << said.err;
  }
}

INSTANTIATE_TEST_SUITE_P(Cli, OneQueueOnGpus,
                         testing::Values("decomposed", "decomposed,sync=flag", "two-chunk", "waves",
                                         "tiles,mover=copy-engine", "tiles,comm-sms=8"));

}  // namespace
}  // namespace stretto
