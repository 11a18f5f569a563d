#include "fibre/chooser.h"

#include <algorithm>

namespace stretto::fibre {
namespace {

// A thread that polls without waiting gives way after this many operations of its own.
constexpr uint64_t kPatience = 200;
// What is on its way arrives after this many operations without an arrival, or a thread that polls
// would see nothing for ever.
constexpr uint64_t kMaxDelay = 2000;

}  // namespace

std::optional<uint32_t> Runnable::first_from(uint32_t from) const {
  const size_t count = words_.size();
  if (count == 0) return std::nullopt;
  size_t word = (from / 64) % count;
  uint64_t bits = from / 64 < count ? words_[word] & ~(bit(from) - 1) : words_[word];
  for (size_t i = 0; i <= count; ++i) {
    if (bits != 0) return static_cast<uint32_t>(word * 64 + size_t(__builtin_ctzll(bits)));
    word = (word + 1) % count;
    bits = words_[word];
  }
  return std::nullopt;
}

Chooser::Chooser(const Schedule& schedule)
    : mode_(schedule.replays ? Mode::kReplay : Mode(schedule.seed % 3)),
      random_(schedule.seed),
      given_(schedule.decisions) {
  if (mode_ == Mode::kReplay) return;
  const uint32_t switches[] = {1, 2, 8, 32};
  const uint32_t deliveries[] = {0, 16, 2, 1};
  deliver_one_in_ = deliveries[random_.below(4)];
  delivery_order_ = random_.below(3);
  const uint32_t older[] = {0, 2, 3, 12};
  older_one_in_ = older[random_.below(4)];
  ends_at_once_ = random_.below(2) == 0;
  if (mode_ == Mode::kWalk) switch_one_in_ = switches[random_.below(4)];
  if (mode_ == Mode::kPriority) {
    const uint32_t changes = 1 + random_.below(4);
    const uint32_t horizon = 16u << random_.below(8);
    for (uint32_t i = 0; i < changes; ++i) change_steps_.push_back(1 + random_.below(horizon));
    std::sort(change_steps_.rbegin(), change_steps_.rend());
  }
}

void Chooser::add_thread(int rank) {
  thread_rank_.push_back(rank);
  priority_.push_back(mode_ == Mode::kReplay ? 0 : int64_t(random_.below(1u << 20)));
}

const Decision* Chooser::due(uint64_t step, Decision::What what) {
  // Of a load that has not come to this there is nothing left to decide.
  while (next_given_ < given_.size() && given_[next_given_].what == Decision::What::kLoadOlder &&
         given_[next_given_].step < step) {
    ++next_given_;
  }
  if (next_given_ >= given_.size()) return nullptr;
  const Decision& decision = given_[next_given_];
  return decision.step <= step && decision.what == what ? &decision : nullptr;
}

std::optional<uint32_t> Chooser::pick(const Runnable& runnable) {
  const auto count = static_cast<uint32_t>(priority_.size());
  if (count == 0) return std::nullopt;
  if (mode_ == Mode::kPriority) {
    std::optional<uint32_t> best = runnable.first_from(0);
    for (uint32_t thread = 0; best && thread < count; ++thread) {
      if (runnable.test(thread) && priority_[thread] > priority_[*best]) best = thread;
    }
    return best;
  }
  if (mode_ == Mode::kByRank) {
    if (random_.below(4) == 0) favourite_ = thread_rank_[random_.below(count)];
    const uint32_t start = random_.below(count);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t thread = (start + i) % count;
      if (thread_rank_[thread] == favourite_ && runnable.test(thread)) return thread;
    }
  }
  return runnable.first_from(random_.below(count));
}

uint32_t Chooser::at_step(uint64_t step, uint32_t current, const Runnable& runnable) {
  uint32_t chosen = current;
  if (mode_ == Mode::kReplay) {
    if (const Decision* decision = due(step, Decision::What::kGoOn)) {
      if (runnable.test(decision->target)) chosen = decision->target;
      ++next_given_;
    }
  } else if (mode_ == Mode::kWalk) {
    if (random_.below(switch_one_in_) == 0) chosen = pick(runnable).value_or(current);
  } else if (mode_ == Mode::kPriority) {
    if (!change_steps_.empty() && step >= change_steps_.back()) {
      change_steps_.pop_back();
      priority_[current] = --lowest_;
      chosen = pick(runnable).value_or(current);
    }
  }
  since_switch_ = chosen == current ? since_switch_ + 1 : 0;
  if (since_switch_ > kPatience) {
    since_switch_ = 0;
    priority_[current] = --lowest_;
    chosen = runnable.first_from(current + 1).value_or(current);
  }
  if (chosen != current) made_.push_back({step, Decision::What::kGoOn, chosen});
  return chosen;
}

std::optional<uint32_t> Chooser::at_block(uint64_t step, uint32_t current,
                                          const Runnable& runnable) {
  since_switch_ = 0;
  const std::optional<uint32_t> usual = runnable.first_from(current + 1);
  std::optional<uint32_t> chosen = usual;
  if (mode_ == Mode::kReplay) {
    if (const Decision* decision = due(step, Decision::What::kGoOn)) {
      if (runnable.test(decision->target)) chosen = decision->target;
      ++next_given_;
    }
  } else {
    chosen = pick(runnable);
  }
  if (chosen && chosen != usual) made_.push_back({step, Decision::What::kGoOn, *chosen});
  return chosen;
}

size_t Chooser::next_to_arrive(size_t on_their_way) {
  if (delivery_order_ == 0) return random_.below(static_cast<uint32_t>(on_their_way));
  return delivery_order_ == 1 ? on_their_way - 1 : 0;
}

std::optional<size_t> Chooser::at_end(uint64_t step, const std::vector<uint32_t>& ids) {
  if (mode_ == Mode::kReplay) return delivery(step, ids, false);
  if (!ends_at_once_) return std::nullopt;
  const size_t chosen = next_to_arrive(ids.size());
  last_arrival_ = step;
  made_.push_back({step, Decision::What::kDeliver, ids[chosen]});
  return chosen;
}

std::optional<size_t> Chooser::delivery(uint64_t step, const std::vector<uint32_t>& ids,
                                        bool stuck) {
  size_t chosen = 0;
  stuck = stuck || step - last_arrival_ > kMaxDelay;
  if (ids.empty() || stuck) last_arrival_ = step;
  if (mode_ == Mode::kReplay) {
    bool given = false;
    for (const Decision* decision;
         !given && (decision = due(step, Decision::What::kDeliver)) != nullptr;) {
      ++next_given_;
      const auto at = std::lower_bound(ids.begin(), ids.end(), decision->target);
      given = at != ids.end() && *at == decision->target;
      if (given) chosen = static_cast<size_t>(at - ids.begin());
    }
    if (ids.empty() || (!given && !stuck)) return std::nullopt;
    if (!stuck || chosen != 0) made_.push_back({step, Decision::What::kDeliver, ids[chosen]});
    return chosen;
  }
  if (ids.empty()) return std::nullopt;
  if (!stuck && (deliver_one_in_ == 0 || random_.below(deliver_one_in_) != 0)) return std::nullopt;
  chosen = next_to_arrive(ids.size());
  last_arrival_ = step;
  if (!stuck || chosen != 0) made_.push_back({step, Decision::What::kDeliver, ids[chosen]});
  return chosen;
}

size_t Chooser::older(uint64_t step, size_t most) {
  size_t chosen = 0;
  if (mode_ == Mode::kReplay) {
    if (const Decision* decision = due(step, Decision::What::kLoadOlder)) {
      chosen = std::min<size_t>(decision->target, most);
      ++next_given_;
    }
  } else if (older_one_in_ != 0 && random_.below(older_one_in_) == 0) {
    chosen = 1 + random_.below(static_cast<uint32_t>(most));
  }
  if (chosen != 0) {
    made_.push_back({step, Decision::What::kLoadOlder, static_cast<uint32_t>(chosen)});
  }
  return chosen;
}

}  // namespace stretto::fibre
