#include "emu/scheduler.h"

namespace stretto::emu {
namespace {

// Who starves. The first mood of an execution is number `seed mod kMoods`, so that a handful of
// consecutive seeds sees each.
enum Mood : uint64_t {
  kComputeStarves,
  kMoversStarve,
  kOneRankStarves,
  kOneRankRunsAhead,
  kNobodyStarves,
  kOneLaneStarves,
  kHalfTheLanesStarve,
  kHalfTheRanksStarve,
  kMoods,
};

}  // namespace

Scheduler::Scheduler(const Plan& plan, uint64_t seed)
    : random_(seed * 0x2545F4914F6CDD1Du + 1),
      callers_(static_cast<uint32_t>(plan.ranks())),
      favoured_(plan.lanes.size() + callers_),
      hungry_(plan.lanes.size() + callers_),
      in_flight_(plan.lanes.size()) {
  for (const Lane& lane : plan.lanes) {
    ranks_.push_back(lane.rank);
    kinds_.push_back(lane.kind);
  }
  for (uint32_t rank = 0; rank < callers_; ++rank) {
    ranks_.push_back(static_cast<uint16_t>(rank));
    kinds_.push_back(LaneKind::compute);
  }
  starved_.resize(ranks_.size());
  change_mood(seed % kMoods);
  sticky_ = seed / kMoods % 2 == 0;
}

void Scheduler::set_runnable(uint32_t actor, bool runnable) {
  IndexSet& set = starved_[actor] ? hungry_ : favoured_;
  if (runnable) {
    set.insert(actor);
  } else {
    set.erase(actor);
  }
}

void Scheduler::set_in_flight(uint32_t lane, bool in_flight) {
  if (in_flight) {
    in_flight_.insert(lane);
  } else {
    in_flight_.erase(lane);
  }
}

void Scheduler::change_mood(uint64_t kind) {
  const auto rank = static_cast<uint16_t>(random_.below(callers_));
  const auto lane = static_cast<uint32_t>(random_.below(ranks_.size()));
  const uint64_t salt = random_.next();
  const size_t lanes = ranks_.size() - callers_;
  for (uint32_t actor = 0; actor < ranks_.size(); ++actor) {
    bool starved = false;
    switch (kind) {
      case kComputeStarves:
        starved = actor < lanes && kinds_[actor] == LaneKind::compute;
        break;
      case kMoversStarve:
        starved = kinds_[actor] != LaneKind::compute;
        break;
      case kOneRankStarves:
        starved = ranks_[actor] == rank;
        break;
      case kOneRankRunsAhead:
        starved = ranks_[actor] != rank;
        break;
      case kOneLaneStarves:
        starved = actor == lane;
        break;
      case kHalfTheLanesStarve:
        starved = Random(salt + actor).next() & 1;
        break;
      case kHalfTheRanksStarve:
        starved = Random(salt + ranks_[actor]).next() & 1;
        break;
      default:
        break;
    }
    const bool runnable = favoured_.contains(actor) || hungry_.contains(actor);
    set_runnable(actor, false);
    starved_[actor] = starved;
    set_runnable(actor, runnable);
  }
  static constexpr uint32_t kDeliver[] = {0, 0, 2, 10, 40};
  static constexpr uint32_t kBurst[] = {0, 0, 50, 90, 99};
  static constexpr uint32_t kMaxInFlight[] = {4, 16, 64, 64};
  deliver_percent_ = kDeliver[random_.below(5)];
  burst_percent_ = kBurst[random_.below(5)];
  max_in_flight_ = kMaxInFlight[random_.below(4)];
  split_percent_ = random_.chance(50) ? 10 : 0;
  piece_percent_ = random_.chance(50) ? 30 : 0;
  deliver_before_hungry_ = random_.chance(70);
  moves_left_ = static_cast<int64_t>(1) << (2 + random_.below(9));
}

Move Scheduler::next() {
  if (!sticky_ && --moves_left_ <= 0) change_mood(random_.below(kMoods));
  const bool can_deliver = !in_flight_.empty();
  if (!favoured_.empty()) {
    if (can_deliver && random_.chance(deliver_percent_)) {
      return {Move::Kind::deliver, in_flight_.pick(random_)};
    }
    if (!favoured_.contains(last_) || !random_.chance(burst_percent_)) {
      last_ = favoured_.pick(random_);
    }
    return {Move::Kind::step, last_};
  }
  if (can_deliver && (deliver_before_hungry_ || hungry_.empty())) {
    return {Move::Kind::deliver, in_flight_.pick(random_)};
  }
  if (!hungry_.empty()) return {Move::Kind::step, hungry_.pick(random_)};
  return {};
}

}  // namespace stretto::emu
