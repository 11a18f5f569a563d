// Values at the ends of the number types: plans compute what the reference says of them too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "emu/output_check.h"
#include "op/graph_text.h"
#include "plans.h"
#include "stretto/emulate.h"
#include "stretto/error.h"
#include "stretto/lower.h"

namespace stretto::emu {
namespace {

constexpr DType kTypes[] = {DType::bf16, DType::fp16, DType::fp32};

class Fills : public testing::TestWithParam<Fill> {};
INSTANTIATE_TEST_SUITE_P(, Fills, testing::Values(Fill::specials, Fill::subnormals),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

TEST_P(Fills, AreComputedByEveryPresetForEverySeedWithTheSameBits) {
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
    for (const DType dtype : kTypes) {
      const Segment op{kind, 41, 24, 60, 3, dtype};
      Machine machine = default_machine(op.ranks);
      machine.sms = 6;
      for (const Preset& preset : presets()) {
        Schedule schedule = preset.make(op, machine);
        schedule.tile_m = 8, schedule.tile_n = 16;
        schedule.comm_sms = std::min(schedule.comm_sms, 2);
        if (!legal(op, schedule, machine).empty()) continue;
        SCOPED_TRACE(to_string(op) + " " + std::string(preset.name));
        const Plan plan = lower(op, schedule, machine);
        uint64_t hash = 0;
        for (uint64_t seed = 0; seed < 6; ++seed) {
          const EmulateResult result = emulate(plan, {.seed = seed, .fill = GetParam()});
          ASSERT_TRUE(result.finished && result.faults.empty());
          ASSERT_TRUE(result.verified) << "seed " << seed << ": " << result.first_wrong;
          ASSERT_TRUE(result.ranks_agree);
          if (seed == 0) hash = result.output_hash;
          ASSERT_EQ(result.output_hash, hash);
        }
      }
    }
  }
}

// The two operands of a sum are the same one: half of the terms twice, and half of them never.
TEST_P(Fills, ShowTermsThatAreMissing) {
  const Plan plan =
      plan_of(replaced(reduce_scatter_by_slots(), "reduce #2 slots[0:4,0:6] slots[4:8,0:6]",
                       "reduce #2 slots[0:4,0:6] slots[0:4,0:6]"));
  const EmulateResult result = emulate(plan, {.fill = GetParam()});
  EXPECT_FALSE(result.verified);
  EXPECT_GT(result.wrong_elements, 0);
}

// What follows a product has bounds that say nothing of infinities: no plan was ever right by them.
TEST_P(Fills, AreRefusedWhereAProductIsFollowed) {
  const auto graph = parse_graph(
      "graph followed m n k\ninput x [m, k] whole\ninput w [n, k] rows\ninput b [1, n] cols\n"
      "g = gemm x w\nh = bias g b\noutput h cols\n");
  const Operator op = make_graph(graph, {{"m", 16}, {"n", 16}, {"k", 8}}, 2, DType::bf16);
  const Machine machine = default_machine(2);
  const Plan plan = lower(op, schedule_of(presets()[0], op, machine), machine);
  try {
    emulate(plan, {.fill = GetParam()});
    FAIL() << "emulated";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("is for operators of one product alone"),
              std::string::npos);
  }
}

// What an output may be where the reference is `expected`.
bool accepted(const Plan& plan, double expected, float got) {
  OutputCheck check(plan);
  const ExpectedRows rows{0, 1, 1, {expected}, {0.25}};
  check.compare(0, 0, 0, reinterpret_cast<const std::byte*>(&got), rows);
  return check.wrong_elements == 0;
}

TEST(FillComparison, TakesLikeForLikeAlone) {
  const Plan plan = plan_of(R"(stretto-plan 2
operator gemm-ar m=1 n=1 k=1 ranks=1 dtype=fp32
sms 1
end
)");
  const float infinity = INFINITY;
  EXPECT_TRUE(accepted(plan, infinity, infinity));
  EXPECT_FALSE(accepted(plan, infinity, -infinity));
  EXPECT_FALSE(accepted(plan, infinity, NAN));
  EXPECT_FALSE(accepted(plan, infinity, 3e38f));
  EXPECT_TRUE(accepted(plan, NAN, NAN));
  EXPECT_TRUE(accepted(plan, NAN, -NAN));
  EXPECT_FALSE(accepted(plan, NAN, infinity));
  EXPECT_FALSE(accepted(plan, NAN, 0));
  EXPECT_FALSE(accepted(plan, 1, NAN));
  EXPECT_FALSE(accepted(plan, 1, infinity));
  EXPECT_TRUE(accepted(plan, 1, 1.25f));
  EXPECT_FALSE(accepted(plan, 1, 1.5f));
}

}  // namespace
}  // namespace stretto::emu
