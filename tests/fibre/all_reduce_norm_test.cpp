// All-reduce + residual + RMSNorm in its three kernels: the residual exact on integers, the norm
// within its bound, the same bits on all ranks, over calls with different numbers of tokens.
#include "fibre/scenarios/all_reduce_norm.h"

#include "fibre/expect_clean.h"

namespace stretto::fibre {
namespace {

using namespace stretto::device;

class AllReduceNorm : public testing::TestWithParam<std::tuple<NormKernel, bool>> {};

TEST_P(AllReduceNorm, CallAfterCall) {
  const auto [how, fp8] = GetParam();
  auto scenario = [how = how, fp8 = fp8](World& world) { all_reduce_norm_calls(world, how, fp8); };
  expect_clean({.ranks = 3, .blocks = 2, .threads = 4}, scenario, 30);
  expect_clean({.ranks = 5, .blocks = 1, .threads = 2, .warp_size = 2}, scenario, 10);
  expect_clean({.ranks = 2, .blocks = 3, .threads = 1, .warp_size = 1}, scenario, 10);
}

std::string name_of(const testing::TestParamInfo<std::tuple<NormKernel, bool>>& of) {
  constexpr const char* kNames[] = {"OneShot", "OneShotInTwo", "TwoShot", "TwoShotOwnRows",
                                    "ScatterGather"};
  return std::string(kNames[int(std::get<0>(of.param))]) + (std::get<1>(of.param) ? "Fp8" : "Bf16");
}

INSTANTIATE_TEST_SUITE_P(
    All, AllReduceNorm,
    testing::Combine(testing::Values(NormKernel::kOneShot, NormKernel::kOneShotInTwo,
                                     NormKernel::kTwoShot, NormKernel::kTwoShotOwnRows,
                                     NormKernel::kScatterGather),
                     testing::Bool()),
    name_of);

// A negative zero would be taken for what has not come.
TEST(Fp8Norms, AreNeverNegativeZeros) {
  for (const float smallest : {-0.0f, -0x1p-149f, -0x1p-11f, -0x1.fffffep-11f, -0x1p-10f}) {
    const float values[8] = {0, smallest, 0, smallest, 0, smallest, 0, smallest};
    EXPECT_EQ(fp8_of(values, 1), 0u) << smallest;
  }
  const float values[8] = {-0x1.000002p-10f, -1, -448, 1, 0, 0, 0, 0};
  EXPECT_EQ(fp8_of(values, 1), 0x38feb881u);
}

}  // namespace
}  // namespace stretto::fibre
