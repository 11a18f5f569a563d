// How the results of a token's experts are weighed, by its row of scores. One definition, for the
// emulator and for GPUs, where a warp has a row.
#pragma once

#include "stretto/device/row_lanes.h"
#include "stretto/device/row_scores.h"
#include "stretto/device/score_math.h"
#include "stretto/device/types.h"

namespace stretto::device {

struct GateRules {
  int32 experts, top_k;
  bool is_softmax;  // else sigmoids
  bool normalises;  // weights of a row add up to `scale`
  float scale;
};

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
