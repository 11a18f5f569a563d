// The reference of routers says what the definition does, of scores that are no numbers too.
#include "op/router_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "stretto/device/gate.h"
#include "stretto/device/top_k.h"

namespace stretto {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Rows rows_of(const std::vector<float>& values) {
  Rows rows(1, static_cast<int64_t>(values.size()));
  rows.values.assign(values.begin(), values.end());
  return rows;
}

// One row: what the reference chooses and what the definition does, and the same of weights.
struct Router {
  std::vector<float> scores;
  Stage stage;
  std::vector<float> bias = {};

  std::vector<double> expected_ids() const {
    const Rows of_bias = rows_of(bias);
    const ChosenRows chosen =
        choose_experts(stage, rows_of(scores), bias.empty() ? nullptr : &of_bias);
    // Sums of sigmoids and biases may be too near to one another.
    EXPECT_TRUE(chosen.is_sure[0] || !bias.empty());
    return chosen.ids.values;
  }
  std::vector<double> ids() const {
    std::vector<double> ids(static_cast<size_t>(stage.k));
    const device::TopKRules rules{static_cast<int32_t>(scores.size()),
                                  static_cast<int32_t>(stage.k), static_cast<int32_t>(stage.groups),
                                  static_cast<int32_t>(stage.best), !bias.empty()};
    device::choose_experts<0>(
        device::OneLane{}, rules, [&](int32_t i) { return scores[static_cast<size_t>(i)]; },
        [&](int32_t i) { return bias[static_cast<size_t>(i)]; },
        [&](int32_t slot, int32_t id) { ids[static_cast<size_t>(slot)] = id; });
    return ids;
  }
  void expect_weights(const std::vector<double>& of_ids) const {
    Rows chosen(1, static_cast<int64_t>(of_ids.size()));
    chosen.values = of_ids;
    const Rows expected = weigh_choices(stage, DType::bf16, rows_of(scores), chosen);
    const device::GateRules rules{
        static_cast<int32_t>(scores.size()), static_cast<int32_t>(of_ids.size()),
        stage.kind == StageKind::softmax_gate, stage.normalises, static_cast<float>(stage.scale)};
    device::weigh_experts<0>(
        device::OneLane{}, rules, [&](int32_t i) { return scores[static_cast<size_t>(i)]; },
        [&](int32_t slot) { return static_cast<int32_t>(of_ids[static_cast<size_t>(slot)]); },
        [&](int32_t slot, float weight) {
          const double value = expected.values[static_cast<size_t>(slot)];
          if (std::isnan(weight)) {
            EXPECT_TRUE(std::isnan(value)) << slot;
          } else {
            EXPECT_LE(std::fabs(weight - value), expected.errors[static_cast<size_t>(slot)])
                << weight << " " << value;
          }
        });
  }
};

Stage stage_of(StageKind kind, int64_t k, bool normalises = true) {
  Stage stage;
  stage.kind = kind;
  stage.k = k;
  stage.groups = stage.best = 1;
  stage.normalises = normalises;
  stage.scale = 2;
  return stage;
}

TEST(RouterValues, OfRowsThatAreNoNumbersAreTheDefinitions) {
  for (const std::vector<float>& scores :
       std::vector<std::vector<float>>{{-kInf, -kInf, -kInf, -kInf},
                                       {kInf, kInf, 3, -kInf},
                                       {kInf, kInf, kInf, kInf},
                                       {-kInf, 2, -kInf, 1},
                                       {-kInf, -kInf, 5, -kInf},
                                       {kNan, 1, 2, 3},
                                       {kNan, -kInf, kInf, kNan},
                                       {kNan, kNan, kNan, kNan},
                                       {-3e38f, -kInf, -kInf, 3e38f}}) {
    SCOPED_TRACE(testing::PrintToString(scores));
    for (const std::vector<float>& bias :
         {std::vector<float>{}, {0, 1, 0, 1}, {kInf, -kInf, 0, 0}, {0, 0, kNan, 0}}) {
      for (const int64_t groups : {1, 2}) {
        Router router{scores, stage_of(StageKind::top_k, 2), bias};
        router.stage.groups = groups;
        EXPECT_EQ(router.ids(), router.expected_ids());
      }
    }
    for (const StageKind kind : {StageKind::softmax_gate, StageKind::sigmoid_gate}) {
      for (const bool normalises : {true, false}) {
        const Router router{scores, stage_of(kind, 2, normalises)};
        for (const std::vector<double>& ids :
             std::vector<std::vector<double>>{{0, 1}, {3, 0}, {2, -1}, {-2, -2}, {1, 1}}) {
          router.expect_weights(ids);
        }
      }
    }
  }
}

TEST(RouterValues, OfScoresOfMinusInfinityAreZero) {
  const Router router{{-kInf, -kInf, -kInf}, stage_of(StageKind::softmax_gate, 2)};
  Rows ids(1, 2);
  ids.values = {0, 1};
  EXPECT_THAT(weigh_choices(router.stage, DType::bf16, rows_of(router.scores), ids).values,
              testing::ElementsAre(0, 0));
}

TEST(RouterValues, OfInfinitiesAmongNumbersAreTheDefinitions) {
  std::mt19937 dice(5);
  for (int run = 0; run < 2000; ++run) {
    Router router{{}, stage_of(StageKind::top_k, 3)};
    router.stage.groups = 4, router.stage.best = 2;
    for (int i = 0; i < 16; ++i) {
      const auto one = static_cast<int>(dice() % 12);
      router.scores.push_back(one == 0 ? -kInf : one == 1 ? kInf : static_cast<float>(one) / 2 - 3);
      if (run % 2 == 0) router.bias.push_back(dice() % 9 == 0 ? kInf : 0.5f * float(dice() % 3));
    }
    SCOPED_TRACE(testing::PrintToString(router.scores));
    const std::vector<double> ids = router.ids();
    ASSERT_EQ(ids, router.expected_ids()) << run;
    for (const StageKind kind : {StageKind::softmax_gate, StageKind::sigmoid_gate}) {
      router.stage.kind = kind;
      router.stage.normalises = run % 3 != 0;
      router.expect_weights(ids);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace stretto
