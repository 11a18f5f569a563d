// How far right results are from the reference, as a part of what they may be: never more than all
// of it, and not so little that a wrong one would be as near.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "small_plans.h"

namespace stretto {
namespace {

constexpr const char* kOperators[] = {
    "ag-gemm m=48 n=64 k=96",
    "gemm-rs m=48 n=64 k=96",
    "gemm-ar m=48 n=64 k=96",
    "gemm-a2a m=48 n=64 k=96",
    "a2a-gemm m=48 n=64 k=96",
    "col-gemm m=48 n=64 k=96",
    "gemv-ar m=4 n=64 k=96",
    "gemm-ar-norm m=48 n=64 k=96",
    "gemm-rs-norm m=48 n=64 k=96",
    "gemm-rs-norm-ag m=48 n=64 k=96",
    "mlp m=48 h=64 f=96",
    "mlp-ar m=48 h=64 f=96",
    "mlp-gelu m=48 h=64 f=96",
    "layer m=48 h=64 f=96 heads=8 kv-heads=8 head-dim=8",
    "embedding-a2a bags=48 tables=8 rows=50 dim=16 pool=4",
    "embedding-a2a-mean bags=48 tables=8 rows=50 dim=16 pool=4",
    "moe-ep t=48 h=64 f=64 experts=8 k=2",
    "moe-ep-router t=48 h=64 f=64 experts=8 k=2",
    "moe-ep-router-groups t=48 h=64 f=64 experts=8 k=2 groups=4 best=2",
    "moe-ep-shared t=48 h=64 f=64 s=64 experts=8 k=2",
    "moe-ep-slices t=48 h=64 f=64 experts=8 k=2 slices=2",
    "moe-tp t=48 h=64 f=64 experts=8 k=2",
    "moe-tp-router t=48 h=64 f=64 experts=8 k=2",
    "moe-tp-up t=48 h=64 f=64 experts=8 k=2",
    "moe-tp-down t=48 h=64 f=64 experts=8 k=2",
    "moe-tp-down-ar t=48 h=64 f=64 experts=8 k=2",
};

// Integers that stay so are judged without a bound.
bool is_exact(std::string_view name, Fill fill) {
  if (fill != Fill::integers) return false;
  return !name.starts_with("mlp") && !name.starts_with("layer") &&
         name.find("-mean") == std::string_view::npos &&
         name.find("norm") == std::string_view::npos &&
         (!name.starts_with("moe") || name.starts_with("moe-tp-down"));
}

class Bounds : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Bounds, testing::ValuesIn(kOperators), [](const auto& tested) {
  std::string name(tested.param);
  name.resize(name.find(' '));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Other data in each run, which the test names if they fail.
TEST_P(Bounds, AreKeptAndNotTooWide) {
  const auto seed = static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const Fill fill : {Fill::random, Fill::integers}) {
      double worst = 0;
      for (const int ranks : {1, 2, 4}) {
        const std::string text =
            fmt::format("{} ranks={} dtype={}", GetParam(), ranks, to_string(dtype));
        SCOPED_TRACE(fmt::format("{}, data seed {}", text, seed));
        const Operator op = parse_operator(text);
        const Machine machine = small_machine(ranks);
        const auto reference = make_shared_reference();
        for (const OperatorSchedule& schedule : small_presets(op, machine)) {
          const Plan plan = lower(op, schedule, machine);
          const EmulateResult result =
              emulate(plan, {.data_seed = seed, .fill = fill, .reference = reference});
          ASSERT_TRUE(result.verified) << to_string(schedule) << ": " << result.first_wrong;
          worst = std::max(worst, result.worst_error);
        }
      }
      if (is_exact(GetParam(), fill)) {
        EXPECT_EQ(worst, 0);
      } else {
        // What exponentials and roots may err by is certain in fp32, and counts for more there; few
        // terms of integers are rounded less often than as many of random data.
        EXPECT_GE(worst, dtype == DType::fp32 ? 0.02 : 0.05)
            << to_string(dtype) << ", " << to_string(fill) << ": needlessly wide";
      }
    }
  }
}

// Products one after the other, as many as there are.
std::string chain(int products, bool are_normed) {
  std::string inputs = "graph chain m h\ninput x [m, h] rows\n", stages, last = "x";
  for (int i = 0; i < products; ++i) {
    inputs += fmt::format("input w{} [h, h] whole\n", i);
    if (are_normed) {
      inputs += fmt::format("input n{} [1, h] whole\n", i);
      stages += fmt::format("t{0} = norm {1} n{0}\np{0} = gemm t{0} w{0}\ny{0} = add p{0} {1}\n", i,
                            last);
    } else {
      stages += fmt::format("y{0} = gemm {1} w{0}\n", i, last);
    }
    last = fmt::format("y{}", i);
  }
  return inputs + stages + fmt::format("output {} rows\n", last);
}

EmulateResult run_chain(int products, bool are_normed, DType dtype, Fill fill) {
  const Operator op =
      make_graph(parse_graph(chain(products, are_normed)), {{"m", 16}, {"h", 128}}, 2, dtype);
  const Machine machine = small_machine(2);
  return emulate(lower(op, schedule_of(find_preset("sequential"), op, machine), machine),
                 {.fill = fill});
}

TEST(BoundsOfChains, DoNotGrowWithTheirProducts) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const int products : {2, 8, 24}) {
      const EmulateResult result = run_chain(products, false, dtype, Fill::random);
      EXPECT_TRUE(result.verified) << result.first_wrong;
      EXPECT_GE(result.worst_error, 0.1) << products << " products";
    }
    const EmulateResult normed = run_chain(60, true, dtype, Fill::random);
    EXPECT_TRUE(normed.verified) << normed.first_wrong;
    EXPECT_GE(normed.worst_error, 0.1);
  }
}

TEST(BoundsOfChains, AreNoneForIntegersOfAnyNumberOfProducts) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const int products : {1, 2, 3, 40, 200}) {
      const EmulateResult result = run_chain(products, false, dtype, Fill::integers);
      EXPECT_TRUE(result.verified) << products << ": " << result.first_wrong;
      EXPECT_EQ(result.worst_error, 0);
    }
  }
}

// A tensor added to itself so often that no fp16 is as large.
TEST(BoundsOfChains, WhereValuesLeaveTheTypeNothingIsJudged) {
  std::string text = "graph doubled m h\ninput x [m, h] rows\n", last = "x";
  for (int i = 0; i < 24; ++i) {
    text += fmt::format("y{0} = add {1} {1}\n", i, last);
    last = fmt::format("y{}", i);
  }
  const auto graph = parse_graph(text + "output " + last + " rows\n");
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    const Operator op = make_graph(graph, {{"m", 16}, {"h", 64}}, 2, dtype);
    const Machine machine = small_machine(2);
    const EmulateResult result =
        emulate(lower(op, schedule_of(find_preset("sequential"), op, machine), machine));
    EXPECT_EQ(result.verified, dtype == DType::bf16);
    if (dtype == DType::fp16) {
      EXPECT_EQ(result.wrong_elements, 0) << "of which nothing is known";
      EXPECT_FALSE(result.is_judged);
      EXPECT_THAT(result.first_wrong,
                  testing::AllOf(testing::HasSubstr("nothing can be said of 2048 elements"),
                                 testing::HasSubstr("take fp32, parts of the operator")));
    }
  }
}

}  // namespace
}  // namespace stretto
