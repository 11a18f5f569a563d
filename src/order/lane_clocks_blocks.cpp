// The blocks that clocks are made of: their seqs, narrow while they fit, compared many at once.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "stretto/lane_clocks.h"

namespace stretto {

uint32_t LaneClocks::Blocks::reserve() {
  if (count_ % kChunk == 0) visit([](auto& blocks) { blocks.add(); });
  return count_++;
}

uint32_t LaneClocks::Blocks::add() {
  const uint32_t block = reserve();
  visit([&](auto& blocks) { std::fill_n(blocks[block], blocks.size(), 0); });
  return block;
}

uint32_t LaneClocks::Blocks::add_copy(uint32_t of) {
  const uint32_t copy = reserve();
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

void LaneClocks::Blocks::widen() {
  for (uint32_t number = 0; number < count_; ++number) {
    if (number % kChunk == 0) wide_.add();
    std::copy_n(narrow_[number], narrow_.size(), wide_[number]);
  }
  narrow_ = Chunks<int16_t>(narrow_.size());
  is_wide_ = true;
}

size_t LaneClocks::Blocks::num_bytes() const {
  return visit([](const auto& blocks) { return blocks.num_bytes(); });
}

}  // namespace stretto
