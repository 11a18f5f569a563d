// Ranks that share a GPU: how many may, and what each has.
#include "gpu/shared_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

using testing::HasSubstr;

TEST(SharedGpus, TheVariableIsANumberFromOneToEight) {
  EXPECT_EQ(ranks_a_gpu_from(""), 1);
  EXPECT_EQ(ranks_a_gpu_from("1"), 1);
  EXPECT_EQ(ranks_a_gpu_from("8"), 8);
  for (const char* wrong : {"0", "9", "-1", "two", "4 ", "99999999999999999999", "\n"}) {
    try {
      ranks_a_gpu_from(wrong);
      ADD_FAILURE() << "took " << wrong;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("STRETTO_RANKS_A_GPU="));
      EXPECT_THAT(error.what(), HasSubstr("from 1 to 8"));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

// Twelve stay free: one of each cluster of SMs, and four for small kernels.
TEST(SharedGpus, ARankHasItsShareOfTheSms) {
  EXPECT_EQ(sms_a_rank(132, 1), 132);
  for (int ranks = 2; ranks <= kMostRanksAGpu; ++ranks) {
    const int each = sms_a_rank(132, ranks);
    EXPECT_LE(ranks * each, 120);
    EXPECT_GT(ranks * (each + 1), 120);
  }
  EXPECT_EQ(sms_a_rank(132, 8), 15);
  EXPECT_EQ(sms_a_rank(4, 8), 1);
}

TEST(SharedGpus, TheDriverIsToldWhatTheUserHasNotSaid) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "16", 1);
  unsetenv("CUDA_MODULE_LOADING");
  prepare_driver_to_share();
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "16");
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "EAGER");
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  prepare_driver_to_share();
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
}

}  // namespace
}  // namespace stretto::cuda
