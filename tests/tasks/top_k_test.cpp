// Choices and weights of a row of scores against what a few lines say that they are.
#include "stretto/device/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "stretto/device/gate.h"

namespace stretto::device {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Ids = std::vector<int32_t>;

Ids chosen(const TopKRules& rules, const std::vector<float>& scores,
           const std::vector<float>& bias = {}) {
  Ids ids(static_cast<size_t>(rules.top_k), -77);
  choose_experts<0>(
      OneLane{}, rules, [&](int32_t i) { return scores.at(static_cast<size_t>(i)); },
      [&](int32_t i) { return bias.at(static_cast<size_t>(i)); },
      [&](int32_t slot, int32_t expert) { ids.at(static_cast<size_t>(slot)) = expert; });
  return ids;
}

TopKRules rules_of(size_t experts, int top_k, int groups = 1, int best = 1, bool biased = false) {
  return {static_cast<int32_t>(experts), top_k, groups, best, biased};
}

// Best first, lower first of equal ones; `score` is of what is to be ordered.
template <typename Score>
Ids sorted(int32_t count, Score score) {
  Ids all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  std::stable_sort(all.begin(), all.end(),
                   [&](int32_t a, int32_t b) { return score(a) > score(b); });
  return all;
}

// DeepSeek-V3's words for it, of the scores that count.
Ids by_sorting(const TopKRules& rules, const std::vector<float>& scores) {
  const int size = rules.experts / rules.groups;
  const auto score_of_group = [&](int32_t group) {
    std::vector<float> own(scores.begin() + group * size, scores.begin() + (group + 1) * size);
    std::sort(own.rbegin(), own.rend());
    return rules.is_biased && size > 1 ? own[0] + own[1] : own[0];
  };
  Ids groups = sorted(rules.groups, score_of_group);
  groups.resize(static_cast<size_t>(rules.best));
  Ids ids;
  for (const int32_t expert :
       sorted(rules.experts, [&](int32_t i) { return scores[static_cast<size_t>(i)]; })) {
    if (std::count(groups.begin(), groups.end(), expert / size)) ids.push_back(expert);
  }
  ids.resize(static_cast<size_t>(rules.top_k));
  return ids;
}

TEST(TopK, IsThatOfASort) {
  std::mt19937 dice(3);
  for (int run = 0; run < 4000; ++run) {
    const int groups = 1 << dice() % 4, size = 1 + static_cast<int>(dice() % 9);
    const int best = 1 + static_cast<int>(dice()) % groups, experts = groups * size;
    const bool is_biased = run % 2 == 0;
    const auto left = static_cast<unsigned>(best < 1 ? 1 : best) * static_cast<unsigned>(size);
    const TopKRules rules{experts, 1 + static_cast<int>(dice() % left), groups, best < 1 ? 1 : best,
                          is_biased};
    std::vector<float> scores, bias, counted;
    for (int i = 0; i < experts; ++i) {  // few values, so many are equal
      scores.push_back(static_cast<float>(static_cast<int>(dice() % 7) - 3));
      bias.push_back(static_cast<float>(dice() % 3) / 4);
      counted.push_back(is_biased ? detail::sigmoid(scores.back()) + bias.back() : scores.back());
    }
    ASSERT_EQ(chosen(rules, scores, bias), by_sorting(rules, counted)) << run;
  }
}

std::vector<double> weights_of(const GateRules& rules, const std::vector<float>& scores,
                               const Ids& ids) {
  std::vector<double> weights(ids.size(), -77);
  weigh_experts<0>(
      OneLane{}, rules, [&](int32_t i) { return scores.at(static_cast<size_t>(i)); },
      [&](int32_t slot) { return ids.at(static_cast<size_t>(slot)); },
      [&](int32_t slot, float weight) { weights.at(static_cast<size_t>(slot)) = weight; });
  return weights;
}

// Threads that have a row together, as a warp's lanes have.
struct Row {
  static constexpr int32 kThreads = 4;
  std::barrier<> meet{kThreads};
  detail::Ranked ranked[kThreads] = {};
  float numbers[kThreads] = {};
};

struct ThreadLanes {
  static constexpr int32 kCount = Row::kThreads;
  Row& row;
  int32 lane;

  int32 index() const { return lane; }
  template <class One, class All>
  One join(One (&all)[kCount], One own, All of_all) const {
    all[lane] = own;
    row.meet.arrive_and_wait();
    One joined = of_all(all);
    row.meet.arrive_and_wait();
    return joined;
  }
  float each(float own, auto two) const {
    return join(row.numbers, own, [&](const auto& all) {
      float joined = all[0];
      for (int32 i = 1; i < kCount; ++i) joined = two(joined, all[i]);
      return joined;
    });
  }
  bool any(bool is_so) const {
    return each(is_so ? 1.0f : 0.0f, [](float a, float b) { return std::max(a, b); }) != 0;
  }
  float most(float own) const {
    return each(own, [](float a, float b) { return std::max(a, b); });
  }
  float sum(float own) const {
    return each(own, [](float a, float b) { return a + b; });
  }
  float of(float own, int32 from) const {
    return join(row.numbers, own, [&](const auto& all) { return all[from]; });
  }
  detail::Ranked first(const detail::Ranked& own) const {
    return join(row.ranked, own, [](const auto& all) {
      detail::Ranked best = all[0];
      for (const detail::Ranked& one : all) best = one.is_before(best) ? one : best;
      return best;
    });
  }
};

// One lane or several, scores that are kept or made again: the same choices and weights.
TEST(TopK, IsTheSameOfAnyNumberOfLanes) {
  constexpr int kRows = 60;
  std::mt19937 dice(11);
  std::vector<TopKRules> rules;
  std::vector<std::vector<float>> scores(kRows);
  for (auto& row : scores) {
    const int groups = 1 << dice() % 4, size = 1 + static_cast<int>(dice() % 4);
    rules.push_back(rules_of(size_t(groups * size), 1, groups,
                             1 + static_cast<int>(dice() % 8) % groups, dice() % 2 == 0));
    rules.back().top_k = 1 + static_cast<int>(dice() % unsigned(rules.back().best * size));
    for (int i = 0; i < groups * size; ++i) {
      row.push_back(dice() % 200 == 0 ? kNan : static_cast<float>(dice() % 9) - 4);
    }
  }
  std::vector<Ids> ids(kRows), held_ids(kRows);
  std::vector<std::vector<float>> weights(kRows), held_weights(kRows);
  const auto make = [&]<int32 kHeld>(const ThreadLanes& lanes, size_t row, Ids& to,
                                     std::vector<float>& to_weights) {
    const auto score = [&](int32_t i) { return scores[row].at(static_cast<size_t>(i)); };
    choose_experts<kHeld>(
        lanes, rules[row], score, [](int32_t i) { return static_cast<float>(i % 3); },
        [&](int32_t slot, int32_t expert) { to.at(static_cast<size_t>(slot)) = expert; });
    lanes.row.meet.arrive_and_wait();
    const GateRules gate{rules[row].experts, rules[row].top_k, row % 2 == 0, row % 3 != 0, 1.5f};
    weigh_experts<kHeld>(
        lanes, gate, score, [&](int32_t slot) { return to.at(static_cast<size_t>(slot)); },
        [&](int32_t slot, float weight) { to_weights.at(static_cast<size_t>(slot)) = weight; });
  };
  for (size_t row = 0; row < kRows; ++row) {
    const auto top_k = static_cast<size_t>(rules[row].top_k);
    ids[row].assign(top_k, -77);
    held_ids[row] = ids[row];
    weights[row].assign(top_k, -77);
    held_weights[row] = weights[row];
  }
  Row shared;
  std::vector<std::jthread> threads;
  for (int32 lane = 0; lane < Row::kThreads; ++lane) {
    threads.emplace_back([&, lane] {
      for (size_t row = 0; row < kRows; ++row) {
        make.operator()<0>(ThreadLanes{shared, lane}, row, ids[row], weights[row]);
        make.operator()<8>(ThreadLanes{shared, lane}, row, held_ids[row], held_weights[row]);
      }
    });
  }
  threads.clear();
  for (size_t row = 0; row < kRows; ++row) {
    std::vector<float> bias;
    for (int32_t i = 0; i < rules[row].experts; ++i) bias.push_back(static_cast<float>(i % 3));
    const Ids alone = chosen(rules[row], scores[row], bias);
    ASSERT_EQ(ids[row], alone) << row;
    ASSERT_EQ(held_ids[row], alone) << row;
    const GateRules gate{rules[row].experts, rules[row].top_k, row % 2 == 0, row % 3 != 0, 1.5f};
    const std::vector<double> of_one = weights_of(gate, scores[row], alone);
    for (size_t slot = 0; slot < alone.size(); ++slot) {
      EXPECT_TRUE(alone[slot] != kNoOrder || of_one[slot] == 0);
      const double near = gate.normalises ? 0 : 1e-6 * of_one[slot];
      EXPECT_NEAR(weights[row][slot], of_one[slot], near) << row << " " << slot;
      EXPECT_NEAR(held_weights[row][slot], of_one[slot], near) << row << " " << slot;
    }
  }
}

TEST(TopK, TakesTheLowerOfEqualExperts) {
  EXPECT_EQ(chosen(rules_of(5, 3), {1, 2, 2, 0, 2}), (Ids{1, 2, 4}));
  EXPECT_EQ(chosen(rules_of(4, 4), {0.0f, -0.0f, 0.0f, -0.0f}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(chosen(rules_of(6, 2, 3, 1), {1, 0, 1, 0, 1, 0}), (Ids{0, 1}));
  // Sigmoids of both are 1 in fp32.
  EXPECT_EQ(chosen(rules_of(2, 1, 1, 1, true), {40, 50}, {0, 0}), (Ids{0}));
}

TEST(TopK, TakesAllThatThereAre) {
  EXPECT_EQ(chosen(rules_of(1, 1), {-3}), (Ids{0}));
  EXPECT_EQ(chosen(rules_of(4, 4), {1, 4, 2, 3}), (Ids{1, 3, 2, 0}));
  EXPECT_EQ(chosen(rules_of(4, 4, 2, 2), {1, 4, 2, 3}), (Ids{1, 3, 2, 0}));
}

// The two best of the second group are 1.2 in all, though the first one has the best expert.
TEST(TopK, TakesGroupsByTheirTwoBestWhereThereIsABias) {
  const std::vector<float> zeros(8, 0.0f), bias = {0.9f, 0, 0, 0, 0.6f, 0.6f, 0.1f, 0};
  EXPECT_EQ(chosen(rules_of(8, 3, 2, 1, true), zeros, bias), (Ids{4, 5, 6}));
  EXPECT_EQ(chosen(rules_of(8, 3, 2, 1), bias), (Ids{0, 1, 2}));
}

TEST(TopK, OfARowWithANanIsNothing) {
  for (size_t at = 0; at < 7; ++at) {
    std::vector<float> scores = {1, 5, 2, kInfinity, -kInfinity, 0, 3}, bias(7, 0.5f);
    scores[at] = kNan;
    EXPECT_EQ(chosen(rules_of(7, 3), scores), (Ids{kNoOrder, kNoOrder, kNoOrder}));
    EXPECT_EQ(chosen(rules_of(7, 2, 7, 3, true), scores, bias), (Ids{kNoOrder, kNoOrder}));
    scores[at] = 0;
    bias[at] = kNan;
    EXPECT_EQ(chosen(rules_of(7, 1, 1, 1, true), scores, bias), (Ids{kNoOrder}));
  }
}

TEST(TopK, OrdersInfinities) {
  EXPECT_EQ(chosen(rules_of(4, 4), {-kInfinity, 1, kInfinity, -kInfinity}), (Ids{2, 1, 0, 3}));
  EXPECT_EQ(chosen(rules_of(4, 2, 2, 1, true), {0, 0, 0, 0}, {-kInfinity, -kInfinity, 0, 0}),
            (Ids{2, 3}));
  // No order between this group and others: what is written stays an expert or none.
  for (const int32_t id :
       chosen(rules_of(4, 2, 2, 1, true), {0, 0, 0, 0}, {kInfinity, -kInfinity, 0, 0})) {
    EXPECT_TRUE(id == kNoOrder || (id >= 0 && id < 4)) << id;
  }
}

TEST(Gate, IsThatOfExactSums) {
  std::mt19937 dice(5);
  std::normal_distribution<float> normal(0, 3);
  for (int run = 0; run < 2000; ++run) {
    const auto experts = static_cast<int>(1 + dice() % 40);
    std::vector<float> scores;
    for (int i = 0; i < experts; ++i) scores.push_back(normal(dice));
    const auto top_k = static_cast<int>(1 + dice() % static_cast<unsigned>(experts));
    Ids ids = chosen(rules_of(scores.size(), top_k), scores);
    const auto one = static_cast<size_t>(dice() % ids.size());
    if (run % 3 == 0) ids[one] = run % 2 == 0 ? kNoOrder : experts;
    const GateRules rules{experts, top_k, run % 2 == 0, run % 5 < 3, 2.5f};
    const auto value = [&](size_t i) {
      return rules.is_softmax ? std::exp(double{scores[i]})
                              : 1 / (1 + std::exp(-double{scores[i]}));
    };
    double sum = 0;
    if (rules.normalises) {
      for (const int32_t id : ids) sum += id >= 0 && id < experts ? value(size_t(id)) : 0;
    } else if (rules.is_softmax) {
      for (size_t i = 0; i < scores.size(); ++i) sum += value(i);
    } else {
      sum = 1;
    }
    const std::vector<double> weights = weights_of(rules, scores, ids);
    for (size_t slot = 0; slot < ids.size(); ++slot) {
      const bool is_expert = ids[slot] >= 0 && ids[slot] < experts;
      const double right = is_expert ? 2.5 * value(static_cast<size_t>(ids[slot])) / sum : 0;
      ASSERT_NEAR(weights[slot], right, 4e-6 * right) << run << " " << slot;
    }
  }
}

TEST(Gate, StaysFiniteOfInfiniteScores) {
  for (const bool normalises : {false, true}) {
    const GateRules softmax{3, 2, true, normalises, 1};
    EXPECT_EQ(weights_of(softmax, {kInfinity, 0, kInfinity}, {0, 2})[0], 0.5);
    EXPECT_EQ(weights_of(softmax, {0, -kInfinity, -kInfinity}, {0, 1})[1], 0);
  }
  const GateRules sigmoids{3, 2, false, true, 1};
  EXPECT_EQ(weights_of(sigmoids, {kInfinity, -200, -kInfinity}, {0, 1})[0], 1);
}

TEST(Gate, HasPowersOfEOfAllSizes) {
  for (float x = -110; x <= 88; x += 0.37f) {
    const double right = std::exp(double{x});
    EXPECT_NEAR(detail::power_of_e(x), right, 3e-7 * right + 2e-45) << x;
  }
  EXPECT_EQ(detail::power_of_e(0), 1);
  EXPECT_EQ(detail::sigmoid(0), 0.5f);
}

}  // namespace
}  // namespace stretto::device
