// All-to-alls by NCCL: which plans GPUs take, and what each rank sends and receives.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "launch/plan_fixture.h"
#include "lower/plan_of_operator.h"
#include "tables/collectives.h"
#include "tables/plan_limits.h"

namespace stretto::cuda {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Of all collectives of a rank.
std::vector<NcclCall> calls_of(const Plan& plan, int rank) {
  const BufferPlaces places = places_of(plan);
  std::vector<NcclCall> calls;
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const auto& instrs = plan.lanes[l].instrs;
    for (uint32_t at = 0; at < instrs.size() && plan.lanes[l].rank == rank; ++at) {
      if (instrs[at].op != Opcode::collective) continue;
      const std::vector<NcclCall> own = nccl_calls(plan, l, at, places, 0);
      calls.insert(calls.end(), own.begin(), own.end());
    }
  }
  return calls;
}

// Each rank gets as much as the other one sends it.
void expect_matching(const char* op, const char* schedule) {
  SCOPED_TRACE(fmt::format("{} {}", op, schedule));
  const Plan plan = plan_of_operator(op, schedule);
  EXPECT_THAT(why_not_on_cuda(plan), IsEmpty());
  std::map<std::pair<int, int>, std::vector<int64_t>> sent, received;  // by source, destination
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    for (const NcclCall& call : calls_of(plan, rank)) {
      if (call.kind == NcclCall::Kind::send) {
        EXPECT_NE(call.from, 0u);
        sent[{rank, call.root}].push_back(call.count);
      } else {
        ASSERT_EQ(call.kind, NcclCall::Kind::receive);
        EXPECT_NE(call.to, 0u);
        received[{call.root, rank}].push_back(call.count);
      }
    }
  }
  EXPECT_EQ(sent, received);
  EXPECT_FALSE(sent.empty());
}

TEST(ExchangeCalls, MatchOnBothSides) {
  for (const char* op :
       {"gemm-a2a m=37 n=96 k=64 ranks=3 dtype=bf16", "a2a-gemm m=37 n=64 k=96 ranks=3 dtype=bf16",
        "gemm-a2a m=4 n=96 k=64 ranks=3 dtype=fp16", "gemm-a2a m=37 n=88 k=64 ranks=3 dtype=bf16",
        "a2a-gemm m=37 n=64 k=88 ranks=3 dtype=bf16"}) {
    for (const char* preset :
         {"sequential", "library", "two-chunk", "two-chunk,gemm=library,chunks=3,tile=16x32"}) {
      expect_matching(op, preset);
    }
  }
}

TEST(ExchangeCalls, OfLookUpsMatchOnBothSides) {
  for (const char* op :
       {"embedding-a2a bags=37 tables=6 rows=9 dim=10 pool=3 ranks=3 dtype=bf16",
        "embedding-a2a bags=37 tables=5 rows=9 dim=10 pool=3 ranks=3 dtype=bf16"}) {
    expect_matching(op, "sequential");
  }
}

TEST(ExchangeCalls, AreRefusedWhereAnotherMakesThem) {
  Plan plan = plan_of_operator("gemm-a2a m=64 n=96 k=64 ranks=2 dtype=bf16", "sequential");
  plan.low_latency_collectives = true;
  EXPECT_THAT(why_not_on_cuda(plan),
              testing::Contains(HasSubstr("none of them is an all-to-all: take collectives=nccl")));
}

}  // namespace
}  // namespace stretto::cuda
