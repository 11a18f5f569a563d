// All-to-alls by NCCL in chunks of rows, beside products of operators that they feed or drain.
#include <gmock/gmock.h>

#include "lost_syncs.h"
#include "small_plans.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

Plan plan_of(const char* name, int64_t rows, int ranks, const std::string& schedule) {
  const Operator op = make_operator(name, {{"m", rows}, {"n", 48}, {"k", 72}}, ranks);
  const Machine machine = small_machine(ranks);
  return lower(op, parse_schedules(schedule, op, machine), machine);
}

struct Counts {
  int collectives = 0, kernels = 0;  // of rank 0
};
Counts counts_of(const Plan& plan) {
  Counts counts;
  for (const Lane& lane : plan.lanes) {
    if (lane.rank != 0) continue;
    bool in_kernel = false;
    for (const Instr& instr : lane.instrs) {
      counts.collectives += instr.op == Opcode::collective;
      if (instr.op == Opcode::boundary) in_kernel = false;
      const bool begins = instr.op == Opcode::gemm && !in_kernel && lane.index == 0;
      counts.kernels += begins;
      in_kernel = in_kernel || begins;
    }
  }
  return counts;
}

class ExchangesOf : public testing::TestWithParam<const char*> {};

TEST_P(ExchangesOf, ChunksAreProvedAndRight) {
  for (const int ranks : {2, 3, 4, 8}) {
    // Whole tiles, ragged, fewer rows than ranks.
    for (const int64_t rows : {64, 101, 3}) {
      for (const char* schedule :
           {"two-chunk,tile=8x16", "two-chunk,tile=8x16,chunks=3,comm-sms=0",
            "two-chunk,tile=8x16,chunks=4,groups=1+3", "two-chunk,tile=8x16,gemm=library",
            "two-chunk,tile=8x16,chunks=3,groups=2+1,gemm=library"}) {
        SCOPED_TRACE(std::string(GetParam()) + " on " + std::to_string(ranks) + ", " +
                     std::to_string(rows) + " rows, " + schedule);
        const Plan plan = plan_of(GetParam(), rows, ranks, schedule);
        expect_proved(plan);
        for (const uint64_t seed : {1, 2}) expect_right(plan, {.seed = seed});
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(ExchangesOf, ChunksHaveACollectiveAndAKernelEach) {
  const auto counts = [&](const char* schedule) {
    const Counts found = counts_of(plan_of(GetParam(), 128, 2, schedule));
    return std::pair(found.collectives, found.kernels);
  };
  EXPECT_EQ(counts("sequential,tile=8x16"), std::pair(1, 1));
  EXPECT_EQ(counts("two-chunk,tile=8x16"), std::pair(2, 2));
  EXPECT_EQ(counts("two-chunk,tile=8x16,chunks=4"), std::pair(4, 4));
  EXPECT_EQ(counts("two-chunk,tile=8x16,chunks=4,groups=1+3"), std::pair(4, 2));
  EXPECT_EQ(counts("two-chunk,tile=8x16,chunks=4,gemm=library"), std::pair(4, 4));
}

TEST_P(ExchangesOf, ChunksNeedEverySync) {
  for (const char* schedule :
       {"two-chunk,tile=8x16,chunks=4", "two-chunk,tile=8x16,chunks=4,gemm=library"}) {
    expect_every_sync_is_needed(plan_of(GetParam(), 64, 3, schedule));
  }
}

// A chunk is under way while a library multiplies another.
TEST_P(ExchangesOf, ChunksAreHiddenBehindProducts) {
  const Machine machine = default_machine(8);
  const Operator op = make_operator(GetParam(), {{"m", 16384}, {"n", 8192}, {"k", 8192}}, 8);
  const auto total_us = [&](const char* schedule) {
    return simulate(lower(op, parse_schedules(schedule, op, machine), machine), machine).total_us;
  };
  EXPECT_LT(total_us("two-chunk,gemm=library"), 0.95 * total_us("library"));
}

INSTANTIATE_TEST_SUITE_P(Exchanges, ExchangesOf, testing::Values("gemm-a2a", "a2a-gemm"),
                         [](const auto& test) {
                           return std::string(test.index == 0 ? "out" : "in");
                         });

}  // namespace
}  // namespace stretto
