// From when the deadlines of waits count.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu_plans.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 2;

// The time that a rank multiplies is none that it waits.
TEST(DeadlinesOnGpus, BeginWithTheWait) {
  if (const std::string why = why_not_here(kRanks); !why.empty()) STRETTO_SKIP(why);
  fabric::Fabric& fabric = shared_fabric(kRanks);
  // 100 ms and more of multiplications; idle GPUs, whose clocks rise one after the other, come
  // apart by 10 ms. A rank that shares its GPU multiplies half as fast at the most, and the host
  // gives up a kernel that begins no run for 120 ms.
  const int k = 131072 / (cuda::ranks_a_gpu() * cuda::ranks_a_gpu());
  const Plan plan =
      plan_here(fmt::format("gemm-rs m=16384 n=32768 k={} ranks=2 dtype=bf16", k), "tiles");
  constexpr uint64_t kTimeoutNs = 40'000'000;
  PlanRunner runner(plan, fabric, shared_compiler(), {kTimeoutNs});
  const auto run = [&](uint64_t delay_ns) -> std::string {
    for (int rank = 0; rank < kRanks; ++rank) {
      fabric.device(rank).make_current();
      if (rank == 0) runner.delay(rank, delay_ns);
      runner.enqueue(rank);
    }
    try {
      runner.finish();
    } catch (const SystemError& error) {
      return error.what();
    }
    return "finished";
  };
  EXPECT_EQ(run(0), "finished");
  EXPECT_EQ(run(1'000'000), "finished");
  EXPECT_THAT(run(400'000'000), HasSubstr("waited 40 ms"));
  EXPECT_EQ(run(0), "finished");
}

}  // namespace
}  // namespace stretto::runtime
