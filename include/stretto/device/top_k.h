// Which experts a token takes, of its row of scores. One definition, for the emulator and for GPUs,
// where a warp has a row.
#pragma once

#include "stretto/device/row_lanes.h"
#include "stretto/device/row_scores.h"
#include "stretto/device/score_math.h"
#include "stretto/device/types.h"

namespace stretto::device {

// What stands where a row has a NaN, so that nothing can be chosen. It is no expert's (kNoExpert in
// routing.h), so who makes a partition counts it.
inline constexpr int32 kNoOrder = -2;
inline constexpr int32 kMostExpertGroups = 32;

struct TopKRules {
  int32 experts, top_k;
  int32 groups, best;  // of so many groups of experts, side by side, only the best are left
  bool is_biased;      // sigmoids with a bias, and groups by the sum of their two best, not by one
};

namespace detail {

// A bit for each group that is left.
template <class Lanes, class Own>
STRETTO_PRIMITIVE uint32 best_groups(const Lanes& lanes, const TopKRules& rules, const Own& own) {
  if (rules.best >= rules.groups) return ~0u;
  constexpr int32 kOfLane = (kMostExpertGroups + Lanes::kCount - 1) / Lanes::kCount;
  const int32 size = rules.experts / rules.groups;
  float scores[kOfLane] = {};
  STRETTO_ROLLED
  for (int32 group = 0; group < rules.groups; ++group) {
    const auto is_own = [&](int32 expert) {
      return static_cast<uint32>(expert - group * size) < static_cast<uint32>(size);
    };
    Ranked last = kBeforeAll;
    float score = 0;
    STRETTO_ROLLED
    for (int32 i = 0; i < (rules.is_biased && size > 1 ? 2 : 1); ++i) {
      last = own.next(last, is_own);
      const float one = score_of(last.order);
      const float both = i == 0 ? one : score + one;
      if (both == both) score = both;  // none of infinities of both signs
    }
    if (group % Lanes::kCount == lanes.index()) scores[group / Lanes::kCount] = score;
  }
  const auto score_at = [&](int32 group) {
    return scores[kOfLane == 1 ? 0 : group / Lanes::kCount];
  };
  const OwnOrders<Lanes, 0, decltype(score_at)> groups{lanes, rules.groups, score_at};
  uint32 left = 0;
  Ranked last = kBeforeAll;
  STRETTO_ROLLED
  for (int32 i = 0; i < rules.best; ++i) {
    last = groups.next(last, [](int32) { return true; });
    if (last.number < 0) break;
    left |= 1u << last.number;
  }
  return left;
}

}  // namespace detail

// Calls put(slot, expert) for each slot, in one of the lanes. score(expert) is what was computed,
// bias(expert) what is added to its sigmoid where rules say so. kHeld: as OwnScores.
template <int32 kHeld, class Lanes, class Score, class Bias, class Put>
STRETTO_PRIMITIVE void choose_experts(const Lanes& lanes, const TopKRules& rules, Score score_of,
                                      Bias bias_of, Put put) {
  const auto score = [&](int32 expert) {
    const float one = score_of(expert);
    return rules.is_biased ? detail::sigmoid(one) + bias_of(expert) : one;
  };
  detail::OwnOrders<Lanes, kHeld, decltype(score)> own{lanes, rules.experts, score};
  bool has_nan = false;
  if constexpr (kHeld > 0) {
    detail::OwnScores<Lanes, kHeld, Score> scores(lanes, rules.experts, score_of);
    if (rules.is_biased) {
      // Each bias is asked for while the score before becomes a sigmoid.
      float ahead = lanes.index() < rules.experts ? bias_of(lanes.index()) : 0.0f;
      scores.replace([&](int32 expert, float one) {
        const float bias = ahead;
        const int32 next = expert + Lanes::kCount;
        if (next < rules.experts) ahead = bias_of(next);
        return detail::sigmoid(one) + bias;
      });
    }
    STRETTO_UNROLL
    for (int32 i = 0; i < kHeld; ++i) {
      const float one = scores.held[i];
      has_nan = has_nan || one != one;
      own.held[i] = scores.at(i) < rules.experts ? detail::order_of(one) : 0;
    }
  } else {
    STRETTO_ROLLED
    for (int32 at = lanes.index(); at < rules.experts; at += Lanes::kCount) {
      const float one = score(at);
      has_nan = has_nan || one != one;
    }
  }
  has_nan = lanes.any(has_nan);
  const uint32 left = has_nan ? 0 : detail::best_groups(lanes, rules, own);
  const int32 size = rules.experts / rules.groups;
  const auto is_left = [&](int32 expert) {
    return rules.groups == 1 || (left >> (expert / size) & 1) != 0;
  };
  if (rules.groups > 1) own.keep(is_left);
  detail::Ranked last = has_nan ? detail::Ranked{} : detail::kBeforeAll;
  int32 chosen = 0;  // of the lane's slot of every kCount
  STRETTO_ROLLED
  for (int32 slot = 0; slot < rules.top_k; ++slot) {
    last = own.next(last, [&](int32 expert) { return kHeld > 0 || is_left(expert); });
    const int32 of_lane = slot % Lanes::kCount;
    if (of_lane == lanes.index()) chosen = last.number < 0 ? kNoOrder : last.number;
    const bool is_last = of_lane == Lanes::kCount - 1 || slot == rules.top_k - 1;
    if (is_last && lanes.index() <= of_lane) put(slot - of_lane + lanes.index(), chosen);
  }
}

}  // namespace stretto::device
