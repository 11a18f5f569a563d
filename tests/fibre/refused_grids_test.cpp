// Grids that cannot work: refused by the host before a launch.
#include <gmock/gmock.h>

#include "lang/lang_kernel.h"
#include "stretto/error.h"

namespace stretto::fibre {
namespace {

using testing::HasSubstr;

template <class Check>
std::string refusal_of(Check check) {
  try {
    check();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(RefusedGrids, BlocksOfBrokenWarpsOrTooManyThreads) {
  const auto with = [](int threads) {
    return refusal_of([&] { cuda::check_block(threads, 512); });
  };
  EXPECT_EQ(with(32), "");
  EXPECT_EQ(with(512), "");
  EXPECT_THAT(with(48), HasSubstr("48 threads a block: a multiple of 32 is needed"));
  EXPECT_THAT(with(544), HasSubstr("544 threads a block: a multiple of 32 is needed, at most the "
                                   "512 that the kernel is compiled for"));
  EXPECT_NE(with(0), "");
  EXPECT_NE(with(-32), "");
}

TEST(RefusedGrids, MoreBlocksThanTheGroupHasMemoryForOrThanRunAtOnce) {
  const auto with = [](int blocks, const cuda::GridLimits& limits) {
    return refusal_of([&] { cuda::check_waiting_grid(blocks, 64, limits); });
  };
  const cuda::GridLimits roomy{256, 1000, false}, full{256, 132, false}, shared{256, 16, true};
  EXPECT_EQ(with(1, roomy), "");
  EXPECT_EQ(with(256, roomy), "");
  EXPECT_THAT(with(257, roomy), HasSubstr("257 blocks, but their symmetric heap was made for "
                                          "256: make it with max_blocks of 257"));
  EXPECT_THAT(with(0, roomy), HasSubstr("0 blocks: at least one is needed"));
  EXPECT_EQ(with(132, full), "");
  EXPECT_THAT(with(133, full), HasSubstr("133 blocks of 64 threads wait for each other and cannot "
                                         "all run at once: the GPU holds 132 of this kernel"));
  EXPECT_EQ(with(16, shared), "");
  EXPECT_THAT(with(17, shared), HasSubstr("has 16 SMs, so at most as many"));
}

}  // namespace
}  // namespace stretto::fibre
