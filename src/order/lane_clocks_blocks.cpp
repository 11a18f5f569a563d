// The blocks that clocks are made of: their seqs, narrow while they fit, compared many at once.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "stretto/lane_clocks.h"

namespace stretto {

uint32_t LaneClocks::Blocks::add_uninitialised() {
  visit([&](auto& blocks) { blocks.reserve(count_ + 1); });
  return count_++;
}

uint32_t LaneClocks::Blocks::add() {
  const uint32_t block = add_uninitialised();
  visit([&](auto& blocks) { std::fill_n(blocks[block], blocks.size(), 0); });
  return block;
}

uint32_t LaneClocks::Blocks::add_copy(uint32_t of) {
  const uint32_t copy = add_uninitialised();
  visit([&](auto& blocks) { std::copy_n(blocks[of], blocks.size(), blocks[copy]); });
  return copy;
}

void LaneClocks::Blocks::set(uint32_t block, uint32_t lane, uint32_t seq, uint32_t run) {
  if (!is_wide_ && std::max(seq, run) > INT16_MAX) widen();
  visit([&](auto& blocks) {
    using Seq = typename std::remove_reference_t<decltype(blocks)>::Number;
    Seq* const own = blocks[block];
    own[lane] = static_cast<Seq>(seq);
    own[newest_run_] = std::max(own[newest_run_], static_cast<Seq>(run));
  });
}

void LaneClocks::Blocks::learn(uint32_t block, uint32_t from) {
  visit([&](auto& blocks) {
    using Seq = typename std::remove_reference_t<decltype(blocks)>::Number;
    Seq* const own = blocks[block];
    const Seq* const other = blocks[from];
    // Compilers need to be told to take many at once.
    using Some [[gnu::vector_size(16)]] = Seq;
    constexpr size_t kAtOnce = sizeof(Some) / sizeof(Seq);
    static_assert(kStep % kAtOnce == 0);
    for (size_t i = 0; i < newest_run_; i += kAtOnce) {
      Some ours, theirs;
      std::memcpy(&ours, &own[i], sizeof(ours));
      std::memcpy(&theirs, &other[i], sizeof(theirs));
      ours = ours < theirs ? theirs : ours;
      std::memcpy(&own[i], &ours, sizeof(ours));
    }
    own[newest_run_] = std::max(own[newest_run_], other[newest_run_]);
  });
}

uint64_t LaneClocks::Blocks::hash(uint32_t block) const {
  return visit([&](const auto& blocks) {
    uint64_t sum = 0;
    const auto add = [&](uint64_t word) {
      sum = (sum ^ word) * 0x9e3779b97f4a7c15;
      sum ^= sum >> 32;
    };
    const auto* const seqs = blocks[block];
    constexpr uint32_t kAtOnce = sizeof(uint64_t) / sizeof(*seqs);
    static_assert(kStep % kAtOnce == 0);
    for (uint32_t i = 0; i < newest_run_; i += kAtOnce) {
      uint64_t word;
      std::memcpy(&word, &seqs[i], sizeof(word));
      add(word);
    }
    add(static_cast<uint64_t>(seqs[newest_run_]));
    return sum;
  });
}

bool LaneClocks::Blocks::equal(uint32_t a, uint32_t b) const {
  return visit([&](const auto& blocks) {
    return std::memcmp(blocks[a], blocks[b], blocks.size() * sizeof(*blocks[a])) == 0;
  });
}

size_t LaneClocks::Blocks::place(uint32_t block) const {
  const size_t mask = kept_.size() - 1;
  size_t at = hash(block) & mask;
  while (kept_[at] != 0 && !equal(kept_[at] - 1, block)) at = (at + 1) & mask;
  return at;
}

uint32_t LaneClocks::Blocks::keep(uint32_t block, uint32_t as) {
  if (2 * (num_kept_ + 1) > kept_.size()) grow_table();
  uint32_t& kept = kept_[place(block)];
  if (kept == 0) {
    if (as != block) {
      visit([&](auto& blocks) { std::copy_n(blocks[block], blocks.size(), blocks[as]); });
    }
    kept = as + 1;
    ++num_kept_;
  }
  return kept - 1;
}

void LaneClocks::Blocks::grow_table() {
  const std::vector<uint32_t> old =
      std::exchange(kept_, std::vector<uint32_t>(std::max<size_t>(1024, 2 * kept_.size()), 0));
  const size_t mask = kept_.size() - 1;
  for (const uint32_t kept : old) {
    if (kept == 0) continue;
    size_t at = hash(kept - 1) & mask;  // all differ
    while (kept_[at] != 0) at = (at + 1) & mask;
    kept_[at] = kept;
  }
}

void LaneClocks::Blocks::widen() {
  wide_.reserve(count_);
  for (uint32_t number = 0; number < count_; ++number) {
    std::copy_n(narrow_[number], narrow_.size(), wide_[number]);
  }
  narrow_ = Chunks<int16_t>(narrow_.size());
  is_wide_ = true;
  // Hashes are others now.
  kept_.clear();
  num_kept_ = 0;
}

size_t LaneClocks::Blocks::num_bytes() const {
  return visit([](const auto& blocks) { return blocks.num_bytes(); }) +
         kept_.size() * sizeof(uint32_t);
}

}  // namespace stretto
