// Which experts a token takes, and how their results are weighed, of its row of scores. One
// definition, for the emulator and for GPUs, where a warp has a row.
//
// An expert is before another if its score is higher, or as high and its number lower. So what is
// chosen does not depend on how many lanes look for it. Powers of e are made of operations that
// round alike everywhere: where scores are the same bits, so are choices.
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

// What stands where a row has a NaN, so that nothing can be chosen. It is no expert's, so who
// makes a partition counts it.
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

STRETTO_PRIMITIVE float fused(float a, float b, float c) {
#ifdef STRETTO_DEVICE
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}
STRETTO_PRIMITIVE float quotient(float a, float b) {
#ifdef STRETTO_DEVICE
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}
STRETTO_PRIMITIVE uint32 bits_of(float x) {
#ifdef STRETTO_DEVICE
  return __float_as_uint(x);
#else
  return __builtin_bit_cast(uint32, x);
#endif
}
STRETTO_PRIMITIVE float of_bits(uint32 bits) {
#ifdef STRETTO_DEVICE
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
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
  const uint32 n = bits_of(moved) - bits_of(kWhole) + 256;
  const uint32 half = n / 2;
  return power * of_bits((half - 1) << 23) * of_bits((n - half - 1) << 23);
}

STRETTO_PRIMITIVE float sigmoid(float x) { return quotient(1.0f, 1.0f + power_of_e(-x)); }

// One of those that are ordered; number -1: none.
struct Ranked {
  float score;
  int32 number;

  STRETTO_PRIMITIVE bool is_before(const Ranked& other) const {
    if (number < 0 || other.number < 0) return number >= 0;
    return score > other.score || (score == other.score && number < other.number);
  }
};

// The first of `count` behind `last`, among those that are left.
template <class Lanes, class Score, class Left>
STRETTO_PRIMITIVE Ranked next_of(const Lanes& lanes, int32 count, const Ranked& last, Score score,
                                 Left is_left) {
  Ranked next{0, -1};
  STRETTO_ROLLED
  for (int32 i = lanes.index(); i < count; i += Lanes::kCount) {
    if (!is_left(i)) continue;
    const Ranked one{score(i), i};
    if (one.is_before(next) && (last.number < 0 || last.is_before(one))) next = one;
  }
  return lanes.first(next);
}

// By which a group is chosen.
template <class Score>
STRETTO_PRIMITIVE float score_of_group(const TopKRules& rules, int32 group, Score score) {
  const int32 size = rules.experts / rules.groups;
  float best = score(group * size), second = 0;
  STRETTO_ROLLED
  for (int32 i = 1; i < size; ++i) {
    const float one = score(group * size + i);
    second = one > best ? best : i == 1 || one > second ? one : second;
    best = one > best ? one : best;
  }
  return rules.is_biased && size > 1 ? best + second : best;
}

// A bit for each group that is left.
template <class Lanes, class Score>
STRETTO_PRIMITIVE uint32 best_groups(const Lanes& lanes, const TopKRules& rules, Score score) {
  if (rules.best >= rules.groups) return ~0u;
  constexpr int32 kOfLane = (kMostExpertGroups + Lanes::kCount - 1) / Lanes::kCount;
  float scores[kOfLane] = {};
  STRETTO_UNROLL
  for (int32 i = 0; i < kOfLane; ++i) {
    const int32 group = lanes.index() + i * Lanes::kCount;
    if (group < rules.groups) scores[i] = score_of_group(rules, group, score);
  }
  uint32 left = 0;
  Ranked last{0, -1};
  STRETTO_ROLLED
  for (int32 i = 0; i < rules.best; ++i) {
    last = next_of(
        lanes, rules.groups, last,
        [&](int32 group) { return scores[kOfLane == 1 ? 0 : group / Lanes::kCount]; },
        [](int32) { return true; });
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
};

#ifdef STRETTO_DEVICE

// They are a warp, all of whose lanes call.
struct WarpLanes {
  static constexpr int32 kCount = 32;
  STRETTO_DEVICE int32 index() const { return static_cast<int32>(threadIdx.x % 32); }
  STRETTO_DEVICE bool any(bool is_so) const { return __any_sync(0xffffffffu, is_so); }
  STRETTO_DEVICE detail::Ranked first(detail::Ranked one) const {
#pragma unroll
    for (int32 across = 16; across > 0; across /= 2) {
      const detail::Ranked other{__shfl_xor_sync(0xffffffffu, one.score, across),
                                 __shfl_xor_sync(0xffffffffu, one.number, across)};
      if (other.is_before(one)) one = other;
    }
    return one;
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
};

#endif  // STRETTO_DEVICE

// Calls put(slot, expert) for each slot, in one of the lanes. score(expert) is what was computed,
// bias(expert) what is added to its sigmoid where rules say so.
template <class Lanes, class Score, class Bias, class Put>
STRETTO_PRIMITIVE void choose_experts(const Lanes& lanes, const TopKRules& rules, Score score_of,
                                      Bias bias_of, Put put) {
  using detail::Ranked;
  const auto score = [&](int32 expert) {
    const float one = score_of(expert);
    return rules.is_biased ? detail::sigmoid(one) + bias_of(expert) : one;
  };
  bool has_nan = false;
  STRETTO_ROLLED
  for (int32 i = lanes.index(); i < rules.experts; i += Lanes::kCount) {
    const float one = score(i);
    has_nan = has_nan || one != one;
  }
  if (lanes.any(has_nan)) {
    for (int32 slot = lanes.index(); slot < rules.top_k; slot += Lanes::kCount) {
      put(slot, kNoOrder);
    }
    return;
  }
  const uint32 left = detail::best_groups(lanes, rules, score);
  const int32 size = rules.experts / rules.groups;
  Ranked last{0, -1};
  bool is_over = false;
  STRETTO_ROLLED
  for (int32 slot = 0; slot < rules.top_k; ++slot) {
    if (!is_over) {
      last = detail::next_of(lanes, rules.experts, last, score, [&](int32 expert) {
        return rules.groups == 1 || (left >> (expert / size) & 1) != 0;
      });
    }
    is_over = is_over || last.number < 0;
    if (slot % Lanes::kCount == lanes.index()) put(slot, is_over ? kNoOrder : last.number);
  }
}

// Calls put(slot, weight) for each slot, in one of the lanes; 0 of what is no expert's.
template <class Lanes, class Score, class Id, class Put>
STRETTO_PRIMITIVE void weigh_experts(const Lanes& lanes, const GateRules& rules, Score score_of,
                                     Id id_of, Put put) {
  const auto is_expert = [&](int32 id) {
    return static_cast<uint32>(id) < static_cast<uint32>(rules.experts);
  };
  constexpr float kLeast = -3.402823466e38f;
  float most = kLeast, sum = 0;
  if (rules.is_softmax && rules.normalises) {
    for (int32 slot = 0; slot < rules.top_k; ++slot) {
      const int32 id = id_of(slot);
      if (is_expert(id) && score_of(id) > most) most = score_of(id);
    }
  } else if (rules.is_softmax) {
    STRETTO_ROLLED
    for (int32 i = lanes.index(); i < rules.experts; i += Lanes::kCount) {
      if (score_of(i) > most) most = score_of(i);
    }
    most = lanes.most(most);
  }
  const auto value = [&](int32 expert) {
    const float one = score_of(expert);
    if (!rules.is_softmax) return detail::sigmoid(one);
    return one == most ? 1.0f : detail::power_of_e(one - most);  // both may be infinite
  };
  if (rules.normalises) {
    STRETTO_ROLLED
    for (int32 slot = 0; slot < rules.top_k; ++slot) {
      const int32 id = id_of(slot);
      if (is_expert(id)) sum += value(id);
    }
  } else if (rules.is_softmax) {
    STRETTO_ROLLED
    for (int32 i = lanes.index(); i < rules.experts; i += Lanes::kCount) sum += value(i);
    sum = lanes.sum(sum);
  } else {
    sum = 1;
  }
  constexpr float kSmallest = 1e-20f;
  sum = sum < kSmallest ? kSmallest : sum;
  STRETTO_ROLLED
  for (int32 slot = lanes.index(); slot < rules.top_k; slot += Lanes::kCount) {
    const int32 id = id_of(slot);
    put(slot, is_expert(id) ? detail::quotient(value(id), sum) * rules.scale : 0.0f);
  }
}

}  // namespace stretto::device
