// Which experts a token takes, and how their results are weighed, of its row of scores. One
// definition, for the emulator and for GPUs, where a warp has a row.
//
// An expert is before another if its score is higher, or as high and its number lower. So what is
// chosen does not depend on how many lanes look for it. Powers of e are made of operations that
// round alike everywhere: where scores are the same bits, so are choices.
#pragma once

#include "stretto/device/elements.h"
#include "stretto/device/fused.h"
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

struct GateRules {
  int32 experts, top_k;
  bool is_softmax;  // else sigmoids
  bool normalises;  // weights of a row add up to `scale`
  float scale;
};

namespace detail {

STRETTO_PRIMITIVE float quotient(float a, float b) {
#ifdef STRETTO_DEVICE
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

// e^x for x up to 88; off by less than 2^-22 of it, or 2^-149.
STRETTO_PRIMITIVE float power_of_e(float x) {
  x = x < -104.0f ? -104.0f : x > 88.0f ? 88.0f : x;
  // Adding this leaves a whole number in the low bits.
  constexpr float kWhole = 12582912.0f;
  const float moved = fused(x, 1.44269504f, kWhole);
  const float whole = moved - kWhole;
  float rest = fused(whole, -0.693145751953125f, x);
  rest = fused(whole, -1.428606765330187e-6f, rest);
  float power = 1.0f / 5040;
  power = fused(power, rest, 1.0f / 720);
  power = fused(power, rest, 1.0f / 120);
  power = fused(power, rest, 1.0f / 24);
  power = fused(power, rest, 1.0f / 6);
  power = fused(power, rest, 0.5f);
  power = fused(power, rest, 1.0f);
  power = fused(power, rest, 1.0f);
  // 2^n in two steps, since it may be subnormal. Shifted by 256, n is never below 0.
  const uint32 n = bits_of_float(moved) - bits_of_float(kWhole) + 256;
  const uint32 half = n / 2;
  return power * float_of_bits((half - 1) << 23) * float_of_bits((n - half - 1) << 23);
}

STRETTO_PRIMITIVE float sigmoid(float x) { return quotient(1.0f, 1.0f + power_of_e(-x)); }

// A score's bits in the order of the numbers, above 0: there is one zero, and no NaN.
STRETTO_PRIMITIVE uint32 order_of(float score) {
  const uint32 bits = bits_of_float(score + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
STRETTO_PRIMITIVE float score_of(uint32 order) {
  return float_of_bits((order >> 31) != 0 ? order & 0x7fffffffu : ~order);
}

// One of those that are ordered; order 0, number -1: none.
struct Ranked {
  uint32 order = 0;
  int32 number = -1;

  STRETTO_PRIMITIVE bool is_before(const Ranked& other) const {
    return order > other.order || (order == other.order && number < other.number);
  }
};
inline constexpr Ranked kBeforeAll{~0u, -1};

// The scores of a row that a lane has: every kCount-th. Of a row of at most kHeld times that they
// stay in registers, all loaded at once; with kHeld = 0 they are made again each time. Loops over
// registers are rolled where they can be: an SM that has one row executes most of its code once,
// and fetches it first.
template <class Lanes, int32 kHeld, class Score>
struct OwnScores {
  const Lanes& lanes;
  int32 count;
  Score score;
  float held[kHeld > 0 ? kHeld : 1] = {};

  STRETTO_PRIMITIVE OwnScores(const Lanes& of, int32 number, Score score_of)
      : lanes(of), count(number), score(score_of) {
    if constexpr (kHeld > 0) {
      STRETTO_UNROLL
      for (int32 i = 0; i < kHeld; ++i) {
        if (at(i) < count) held[i] = score(at(i));
      }
    }
  }

  // Calls visit(number, score).
  template <class Visit>
  STRETTO_PRIMITIVE void each(const Visit& visit) {
    replace([&](int32 number, float one) {
      visit(number, one);
      return one;
    });
  }

  // The same where `visit` returns what a score that is held becomes. Registers have no index, so
  // they move on from one to the next.
  template <class Visit>
  STRETTO_PRIMITIVE void replace(const Visit& visit) {
    if constexpr (kHeld > 0) {
      STRETTO_ROLLED
      for (int32 i = 0; i < kHeld; ++i) {
        float one = held[0];
        STRETTO_UNROLL
        for (int32 j = 0; j + 1 < kHeld; ++j) held[j] = held[j + 1];
        if (at(i) < count) one = visit(at(i), one);
        held[kHeld - 1] = one;
      }
    } else {
      STRETTO_ROLLED
      for (int32 number = lanes.index(); number < count; number += Lanes::kCount) {
        visit(number, score(number));
      }
    }
  }

  STRETTO_PRIMITIVE int32 at(int32 i) const { return lanes.index() + i * Lanes::kCount; }
};

// What a lane's scores are ordered by, kept as they are.
template <class Lanes, int32 kHeld, class Score>
struct OwnOrders {
  const Lanes& lanes;
  int32 count;
  Score score;
  uint32 held[kHeld > 0 ? kHeld : 1] = {};

  // The first one behind `last`, among those that are left.
  template <class Left>
  STRETTO_PRIMITIVE Ranked next(const Ranked& last, const Left& is_left) const {
    Ranked next;
    // Without branches, of which lanes would take both ways.
    const auto look = [&](int32 number, uint32 order) {
      const bool is_behind =
          (order < last.order) | ((order == last.order) & (number > last.number));
      const bool is_next = is_behind & (order > next.order) & is_left(number);
      next.order = is_next ? order : next.order;
      next.number = is_next ? number : next.number;
    };
    if constexpr (kHeld > 0) {
      STRETTO_UNROLL
      for (int32 i = 0; i < kHeld; ++i) look(lanes.index() + i * Lanes::kCount, held[i]);
    } else {
      STRETTO_ROLLED
      for (int32 at = lanes.index(); at < count; at += Lanes::kCount) look(at, order_of(score(at)));
    }
    return lanes.first(next);
  }

  // Of those that are held the others are none.
  template <class Left>
  STRETTO_PRIMITIVE void keep(const Left& is_left) {
    STRETTO_ROLLED
    for (int32 i = 0; i < kHeld; ++i) {
      const uint32 one = held[0];
      STRETTO_UNROLL
      for (int32 j = 0; j + 1 < kHeld; ++j) held[j] = held[j + 1];
      held[kHeld - 1] = is_left(lanes.index() + i * Lanes::kCount) ? one : 0;
    }
  }
};

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

// The lanes that have a row are one.
struct OneLane {
  static constexpr int32 kCount = 1;
  STRETTO_PRIMITIVE int32 index() const { return 0; }
  STRETTO_PRIMITIVE bool any(bool is_so) const { return is_so; }
  STRETTO_PRIMITIVE detail::Ranked first(const detail::Ranked& one) const { return one; }
  STRETTO_PRIMITIVE float most(float one) const { return one; }
  STRETTO_PRIMITIVE float sum(float one) const { return one; }
  STRETTO_PRIMITIVE float of(float one, int32) const { return one; }
};

#ifdef STRETTO_DEVICE

// They are a warp, all of whose lanes call.
struct WarpLanes {
  static constexpr int32 kCount = 32;
  STRETTO_DEVICE int32 index() const { return static_cast<int32>(threadIdx.x % 32); }
  STRETTO_DEVICE bool any(bool is_so) const { return __any_sync(0xffffffffu, is_so); }
  STRETTO_DEVICE detail::Ranked first(const detail::Ranked& own) const {
    const uint32 best = __reduce_max_sync(0xffffffffu, own.order);
    const uint32 number = __reduce_min_sync(
        0xffffffffu, own.order == best ? static_cast<uint32>(own.number) : 0xffffffffu);
    return {best, static_cast<int32>(number)};
  }
  STRETTO_DEVICE float most(float one) const {
#pragma unroll
    for (int32 across = 16; across > 0; across /= 2) {
      one = fmaxf(one, __shfl_xor_sync(0xffffffffu, one, across));
    }
    return one;
  }
  STRETTO_DEVICE float sum(float one) const {
#pragma unroll
    for (int32 across = 16; across > 0; across /= 2) {
      one += __shfl_xor_sync(0xffffffffu, one, across);
    }
    return one;
  }
  STRETTO_DEVICE float of(float one, int32 lane) const {
    return __shfl_sync(0xffffffffu, one, lane);
  }
};

#endif  // STRETTO_DEVICE

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

// Calls put(slot, weight) for each slot, in one of the lanes; 0 of what is no expert's.
template <int32 kHeld, class Lanes, class Score, class Id, class Put>
STRETTO_PRIMITIVE void weigh_experts(const Lanes& lanes, const GateRules& rules, Score score_of,
                                     Id id_of, Put put) {
  const auto is_expert = [&](int32 id) {
    return static_cast<uint32>(id) < static_cast<uint32>(rules.experts);
  };
  constexpr float kLeast = -3.402823466e38f;
  float most = kLeast;
  const auto value_of = [&](float score) {
    if (!rules.is_softmax) return detail::sigmoid(score);
    return score == most ? 1.0f : detail::power_of_e(score - most);  // both may be infinite
  };
  struct Slot {
    bool is_expert;
    float score;
  };
  const auto load = [&](int32 slot) {
    const int32 id = slot < rules.top_k ? id_of(slot) : -1;
    const bool is_one = is_expert(id);
    return Slot{is_one, is_one ? score_of(id) : kLeast};
  };
  // A lane's first slot is looked at once, and there are seldom others.
  const Slot first_slot = load(lanes.index());
  const auto at = [&](int32 slot) { return slot < Lanes::kCount ? first_slot : load(slot); };
  // Of all experts, where their sum is what divides.
  float of_all = 1;
  if (rules.is_softmax && !rules.normalises) {
    detail::OwnScores<Lanes, kHeld, Score> own(lanes, rules.experts, score_of);
    own.each([&](int32, float one) { most = one > most ? one : most; });
    most = lanes.most(most);
    float sum = 0;
    own.each([&](int32, float one) { sum += value_of(one); });
    of_all = lanes.sum(sum);
  } else if (rules.is_softmax) {
    STRETTO_ROLLED
    for (int32 slot = lanes.index(); slot < rules.top_k; slot += Lanes::kCount) {
      const float one = at(slot).score;
      most = one > most ? one : most;
    }
    most = lanes.most(most);
  }
  float sum = rules.normalises ? 0 : of_all;
  STRETTO_ROLLED
  for (int32 first = 0; rules.normalises && first < rules.top_k; first += Lanes::kCount) {
    const Slot slot = at(first + lanes.index());
    const float own = slot.is_expert ? value_of(slot.score) : 0.0f;
    STRETTO_ROLLED
    for (int32 i = 0; i < Lanes::kCount && first + i < rules.top_k; ++i) sum += lanes.of(own, i);
  }
  constexpr float kSmallest = 1e-20f;
  sum = sum < kSmallest ? kSmallest : sum;
  STRETTO_ROLLED
  for (int32 number = lanes.index(); number < rules.top_k; number += Lanes::kCount) {
    const Slot slot = at(number);
    const float value = slot.is_expert ? value_of(slot.score) : 0.0f;
    put(number, slot.is_expert ? detail::quotient(value, sum) * rules.scale : 0.0f);
  }
}

}  // namespace stretto::device
