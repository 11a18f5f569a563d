// A row's scores by lanes that have it, as they are and by their order.
//
// An expert is before another if its score is higher, or as high and its number lower. So what is
// chosen does not depend on how many lanes look for it.
#pragma once

#include "stretto/device/row_lanes.h"
#include "stretto/device/score_math.h"
#include "stretto/device/types.h"

namespace stretto::device {

namespace detail {

// Of a lane's values, one of every kCount numbers, each becomes what act(number, value) returns.
// The loop is rolled, since an SM that has one row executes most of its code once, and fetches it
// first. Registers have no index: they move on from one to the next.
template <class Lanes, int32 kHeld, class Value, class Act>
STRETTO_PRIMITIVE void replace_each(const Lanes& lanes, Value (&held)[kHeld], const Act& act) {
  STRETTO_ROLLED
  for (int32 i = 0; i < kHeld; ++i) {
    const Value one = held[0];
    STRETTO_UNROLL
    for (int32 j = 0; j + 1 < kHeld; ++j) held[j] = held[j + 1];
    held[kHeld - 1] = act(lanes.index() + i * Lanes::kCount, one);
  }
}

// The scores of a row that a lane has: every kCount-th. Of a row of at most kHeld times that they
// stay in registers, all loaded at once; with kHeld = 0 they are made again each time.
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

  // The same where `visit` returns what a score that is held becomes.
  template <class Visit>
  STRETTO_PRIMITIVE void replace(const Visit& visit) {
    if constexpr (kHeld > 0) {
      replace_each(lanes, held, [&](int32 number, float one) {
        return number < count ? visit(number, one) : one;
      });
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
    if constexpr (kHeld > 0) {
      replace_each(lanes, held,
                   [&](int32 number, uint32 one) { return is_left(number) ? one : 0; });
    }
  }
};

}  // namespace detail

}  // namespace stretto::device
