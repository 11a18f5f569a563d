// The GEMM kernels of all legal configurations: no spills, and quick to compile. All of them take
// two hours of a core: ./dev kernels. Tests compile some of each sort.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/parallel.h"
#include "gpu/compiler_fixture.h"
#include "kernel_space.h"
#include "thorough.h"

namespace stretto::cuda {
namespace {

using device::GemmConfig;

class EveryKernel : public NeedsCompiler {
 protected:
  static void expect_good(const GemmConfig& config) {
    expect_no_spills_in_time(describe(config), gemm_source(config), "sm_90a");
  }
};

constexpr size_t kParts = 8;  // that tests of several processes share
class SomeOfEachSort : public EveryKernel, public testing::WithParamInterface<size_t> {};

TEST_P(SomeOfEachSort, DoNotSpillAndCompileInTime) {
  const std::vector<GemmConfig> some = kernels_of_each_sort();
  ASSERT_GT(some.size(), kParts);
  const size_t stride = is_thorough() ? kParts : 2 * kParts;  // each takes the host seconds
  for (size_t i = GetParam(); i < some.size(); i += stride) expect_good(some[i]);
}

INSTANTIATE_TEST_SUITE_P(GpuCompile, SomeOfEachSort, testing::Range(size_t{0}, kParts));

TEST_F(EveryKernel, DISABLED_DoNotSpillAndCompileInTime) {
  const std::vector<GemmConfig> all = every_kernel();
  for_each_in_parallel(all.size(), all.size(), [&](size_t i) {
    if (i % 100 == 0) fmt::print(stderr, "{} of {} kernels\n", i, all.size());
    expect_good(all[i]);
  });
}

TEST(KernelSpace, TheShortListHasOfEachSortOne) {
  const std::vector<GemmConfig> all = every_kernel(), some = kernels_of_each_sort();
  fmt::print("{} of {} kernels\n", some.size(), all.size());
  EXPECT_GT(all.size(), 15 * some.size());
  const auto is_one_of_all = [&](const GemmConfig& c) {
    return std::find(all.begin(), all.end(), c) != all.end();
  };
  EXPECT_TRUE(std::all_of(some.begin(), some.end(), is_one_of_all));
  const auto missing = [&](const auto& sort_of) {
    return std::count_if(all.begin(), all.end(), [&](const GemmConfig& one) {
      return std::none_of(some.begin(), some.end(),
                          [&](const GemmConfig& other) { return sort_of(other) == sort_of(one); });
    });
  };
  EXPECT_EQ(missing([](const GemmConfig& c) {
              return std::tuple(c.tile_m, c.tile_n, c.adds == kMostSources);
            }),
            0);
  EXPECT_EQ(missing([](const GemmConfig& c) { return std::pair(c.serves, sort_of_sources(c)); }),
            0);
  EXPECT_EQ(missing([](const GemmConfig& c) { return std::tuple(c.tile_m, c.tile_n, c.shared); }),
            0);
  EXPECT_EQ(missing([](const GemmConfig& c) { return std::pair(c.serves, c.splits); }), 0);
  EXPECT_EQ(missing([](const GemmConfig& c) { return std::pair(c.phases, c.moves); }), 0);
  EXPECT_EQ(missing([](const GemmConfig& c) { return std::pair(c.sources, c.moves); }), 0);
  EXPECT_EQ(missing([](const GemmConfig& c) { return std::pair(c.bf16, c.output); }), 0);
  EXPECT_EQ(missing([](const GemmConfig& c) { return std::tuple(c.tile_m, c.tile_n, c.follower); }),
            0);
  EXPECT_EQ(missing([](const GemmConfig& c) { return std::pair(c.follower, c.bias); }), 0);
}

}  // namespace
}  // namespace stretto::cuda
