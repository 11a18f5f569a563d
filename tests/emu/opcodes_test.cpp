// Every instruction, in right plans: verified for every seed, with the same bits.
#include <gtest/gtest.h>

#include "plans.h"
#include "stretto/emulate.h"

namespace stretto::emu {
namespace {

struct Case {
  const char* name;
  std::string (*text)();
};

class RightPlan : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(, RightPlan,
                         testing::Values(Case{"slots", reduce_scatter_by_slots},
                                         Case{"ack", reduce_scatter_with_ack},
                                         Case{"copies", all_gather_by_copies},
                                         Case{"two_shot", all_reduce_two_shot},
                                         Case{"nccl_reduce_scatter", reduce_scatter_by_nccl},
                                         Case{"nccl_all_gather", all_gather_by_nccl},
                                         Case{"nccl_all_reduce", all_reduce_by_nccl},
                                         Case{"nccl_known", all_gather_known_by_another}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(RightPlan, IsVerifiedForEverySeedWithTheSameBits) {
  const Plan plan = plan_of(GetParam().text());
  for (const Fill fill : {Fill::integers, Fill::random}) {
    uint64_t hash = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const EmulateResult result = emulate(plan, {.seed = seed, .fill = fill, .runs = 4});
      ASSERT_TRUE(result.finished) << "seed " << seed;
      ASSERT_TRUE(result.faults.empty()) << "seed " << seed << ": " << result.faults[0].text;
      ASSERT_TRUE(result.verified) << "seed " << seed << ": " << result.first_wrong;
      if (seed == 0) hash = result.output_hash;
      ASSERT_EQ(result.output_hash, hash) << "seed " << seed;
      if (fill == Fill::integers) {
        ASSERT_EQ(result.worst_error, 0);
      }
    }
  }
}

TEST_P(RightPlan, CountsItsWork) {
  const Plan plan = plan_of(GetParam().text());
  const EmulateResult result = emulate(plan, {.runs = 3});
  const Segment& op = *plan.op.only_product();
  EXPECT_DOUBLE_EQ(result.gemm_flops, 3.0 * op.ranks * 2.0 * static_cast<double>(op.local_m()) *
                                          static_cast<double>(op.local_n()) *
                                          static_cast<double>(op.local_k()));
  EXPECT_GT(result.seconds, 0);
}

// Four partial sums, which rank 1 adds in another order: right on both, but not the same.
TEST(Bits, OfAnAllReduceAreComparedBetweenRanks) {
  const std::string same = R"(stretto-plan 2
operator gemm-ar m=4 n=4 k=16 ranks=2 dtype=fp32
sms 2
buffer a fp32 4x8 input
buffer b fp32 4x8 input
buffer slots fp32 16x4 symmetric copies=2
buffer out fp32 4x4 output
signals arrived 1 copies=2

lane 0 compute 0
  gemm #0 a[0:4,0:4] b[0:4,0:4] -> slots[0:4,0:4] slots@1[0:4,0:4]
  gemm #1 a[0:4,4:8] b[0:4,4:8] -> slots[4:8,0:4] slots@1[4:8,0:4]
  notify arrived.0@0 += 1
  notify arrived.0@1 += 1

lane 0 comm 0
  wait arrived.0 >= 2
  reduce #2 slots[0:4,0:4] slots[4:8,0:4] slots[8:12,0:4] slots[12:16,0:4] -> out[0:4,0:4]

lane 1 compute 0
  gemm #3 a[0:4,0:4] b[0:4,0:4] -> slots[8:12,0:4] slots@0[8:12,0:4]
  gemm #4 a[0:4,4:8] b[0:4,4:8] -> slots[12:16,0:4] slots@0[12:16,0:4]
  notify arrived.0@0 += 1
  notify arrived.0@1 += 1

lane 1 comm 0
  wait arrived.0 >= 2
  reduce #5 slots[0:4,0:4] slots[4:8,0:4] slots[8:12,0:4] slots[12:16,0:4] -> out[0:4,0:4]
end
)";
  const std::string other = replaced(same, "slots[0:4,0:4] slots[4:8,0:4] slots[8:12,0:4]",
                                     "slots[8:12,0:4] slots[0:4,0:4] slots[4:8,0:4]", 1);
  const EmulateResult alike = emulate(plan_of(same)), unlike = emulate(plan_of(other));
  for (const EmulateResult* result : {&alike, &unlike}) {
    ASSERT_TRUE(result->faults.empty()) << result->faults[0].text;
    EXPECT_TRUE(result->verified) << result->first_wrong;
  }
  EXPECT_TRUE(alike.ranks_agree);
  EXPECT_FALSE(unlike.ranks_agree);
  EXPECT_TRUE(emulate(plan_of(other), {.fill = Fill::integers}).ranks_agree);
}

TEST(Bits, DifferBetweenDataAndAgreeForTheSame) {
  const Plan plan = plan_of(reduce_scatter_by_slots());
  const uint64_t first = emulate(plan, {.data_seed = 1}).output_hash;
  EXPECT_EQ(first, emulate(plan, {.data_seed = 1}).output_hash);
  EXPECT_NE(first, emulate(plan, {.data_seed = 2}).output_hash);
}

// 2 copies of the slots or 1 with acknowledgements: the arithmetic is the same.
TEST(Bits, AreThoseOfEveryDeterministicPlan) {
  EXPECT_EQ(emulate(plan_of(reduce_scatter_by_slots())).output_hash,
            emulate(plan_of(reduce_scatter_with_ack())).output_hash);
}

// The ring starts at the owner's successor and rounds at each hop; slots are added in rank order
// and rounded once.
TEST(Bits, OfNcclAreNotThoseOfSlots) {
  const std::string by_nccl = reduce_scatter_by_nccl();
  std::string by_slots =
      replaced(by_nccl, "buffer part bf16 6x40 local", "buffer part bf16 6x40 symmetric");
  for (int rank = 0; rank < 3; ++rank) {
    const std::string rows = std::to_string(2 * rank) + ":" + std::to_string(2 * rank + 2);
    std::string reduce = "reduce";
    for (const char* source : {"0", "1", "2"}) {
      reduce += " part@" + std::string(source) + "[" + rows + ",0:40]";
    }
    by_slots = replaced(by_slots,
                        "collective reduce_scatter 0 part[0:2,0:40] part[2:4,0:40] part[4:6,0:40]",
                        reduce);
    by_slots =
        replaced(by_slots, "nccl 0\n  wait computed.0 >= 1", "comm 0\n  wait computed.0 >= 3");
    by_slots = replaced(
        by_slots, "  notify computed.0@" + std::to_string(rank) + " += 1\n",
        "  notify computed.0@0 += 1\n  notify computed.0@1 += 1\n  notify computed.0@2 += 1\n",
        rank == 0 ? 0 : rank);
  }
  const EmulateResult nccl = emulate(plan_of(by_nccl), {.runs = 1});
  const EmulateResult slots = emulate(plan_of(by_slots), {.runs = 1});
  EXPECT_TRUE(nccl.verified) << nccl.first_wrong;
  EXPECT_TRUE(slots.verified) << slots.first_wrong;
  EXPECT_NE(nccl.output_hash, slots.output_hash);
  EXPECT_EQ(emulate(plan_of(by_nccl), {.fill = Fill::integers, .runs = 1}).output_hash,
            emulate(plan_of(by_slots), {.fill = Fill::integers, .runs = 1}).output_hash);
}

}  // namespace
}  // namespace stretto::emu
