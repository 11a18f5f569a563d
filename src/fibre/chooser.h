// Decides who goes on and which transfer arrives: adversarially by a seed, or by a list.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stretto/fibre/world.h"

namespace stretto::fibre {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(((next() >> 32) * bound) >> 32); }

 private:
  uint64_t state_;
};

// The threads that can go on.
class Runnable {
 public:
  void resize(size_t threads) { words_.resize((threads + 63) / 64, 0); }
  void set(uint32_t thread) { words_[thread / 64] |= bit(thread); }
  void clear(uint32_t thread) { words_[thread / 64] &= ~bit(thread); }
  bool test(uint32_t thread) const {
    return thread / 64 < words_.size() && (words_[thread / 64] & bit(thread)) != 0;
  }
  // The first at or after `from`, wrapping around.
  std::optional<uint32_t> first_from(uint32_t from) const;

 private:
  static uint64_t bit(uint32_t thread) { return uint64_t(1) << (thread % 64); }
  std::vector<uint64_t> words_;
};

class Chooser {
 public:
  explicit Chooser(const Schedule& schedule);

  // A new thread, the `rank`-th rank's; threads count up from 0.
  void add_thread(int rank);

  // Before an operation of `current`, which can go on: who goes on.
  uint32_t at_step(uint64_t step, uint32_t current, const Runnable& runnable);
  // `current` cannot go on: who does; none when nobody can.
  std::optional<uint32_t> at_block(uint64_t step, uint32_t current, const Runnable& runnable);
  // Which of the transfers on their way, by id ascending, arrives now; none: not now.
  // `stuck`: nothing else can happen, so one is chosen.
  std::optional<size_t> delivery(uint64_t step, const std::vector<uint32_t>& ids, bool stuck);
  // The same where a thread has come to its end, with stores of its own on their way; none: others
  // go on until these have arrived.
  std::optional<size_t> at_end(uint64_t step, const std::vector<uint32_t>& ids);
  // How many stores to a word a load of it misses, of the `most` that it may; mostly none.
  size_t older(uint64_t step, size_t most);

  const std::vector<Decision>& decisions() const { return made_; }

 private:
  enum class Mode : uint8_t { kWalk, kPriority, kByRank, kReplay };

  std::optional<uint32_t> pick(const Runnable& runnable);
  size_t next_to_arrive(size_t on_their_way);
  const Decision* due(uint64_t step, Decision::What what);

  Mode mode_;
  Random random_;
  uint32_t switch_one_in_ = 0;   // 0: never
  uint32_t deliver_one_in_ = 0;  // 0: never before it must
  bool ends_at_once_ = false;
  uint32_t older_one_in_ = 0;    // 0: never
  uint32_t delivery_order_ = 0;  // 0 any, 1 newest first, 2 oldest first
  std::vector<uint64_t> change_steps_;
  std::vector<int64_t> priority_;  // by thread
  std::vector<int> thread_rank_;
  int64_t lowest_ = 0;
  int favourite_ = -1;
  uint64_t since_switch_ = 0;
  uint64_t last_arrival_ = 0;  // step
  std::vector<Decision> given_;
  size_t next_given_ = 0;
  std::vector<Decision> made_;
};

}  // namespace stretto::fibre
