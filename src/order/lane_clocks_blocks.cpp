// The blocks that clocks are made of: their seqs, narrow while they fit, compared many at once.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "stretto/lane_clocks.h"

namespace stretto {

uint32_t LaneClocks::Blocks::add() {
  if (count_ % kChunk == 0) visit([](auto& blocks) { blocks.add(); });
  return count_++;
}

uint32_t LaneClocks::Blocks::add_copy(uint32_t of) {
  const uint32_t copy = add();
  visit([&](auto& blocks) { blocks[copy] = blocks[of]; });
  return copy;
}

void LaneClocks::Blocks::set(uint32_t block, uint32_t lane, uint32_t seq, uint32_t run) {
  if (!is_wide_ && seq > INT16_MAX) widen();
  visit([&](auto& blocks) {
    auto& own = blocks[block];
    own.seqs[lane] = static_cast<std::remove_reference_t<decltype(own.seqs[lane])>>(seq);
    own.newest_run = std::max(own.newest_run, run);
  });
}

// Compilers need to be told to take many at once.
template <typename Seq>
void LaneClocks::Blocks::Block<Seq>::learn(const Block& other) {
  constexpr size_t kAtOnce = 16 / sizeof(Seq);
  using Some [[gnu::vector_size(16)]] = Seq;
  static_assert(kBlockLanes % kAtOnce == 0);
  for (size_t i = 0; i < kBlockLanes; i += kAtOnce) {
    Some own, theirs;
    std::memcpy(&own, &seqs[i], sizeof(own));
    std::memcpy(&theirs, &other.seqs[i], sizeof(theirs));
    own = own < theirs ? theirs : own;
    std::memcpy(&seqs[i], &own, sizeof(own));
  }
  newest_run = std::max(newest_run, other.newest_run);
}

void LaneClocks::Blocks::learn(uint32_t block, uint32_t from) {
  visit([&](auto& blocks) { blocks[block].learn(blocks[from]); });
}

void LaneClocks::Blocks::widen() {
  for (uint32_t number = 0; number < count_; ++number) {
    if (number % kChunk == 0) wide_.add();
    const Block<int16_t>& from = narrow_[number];
    std::copy(from.seqs.begin(), from.seqs.end(), wide_[number].seqs.begin());
    wide_[number].newest_run = from.newest_run;
  }
  narrow_ = {};
  is_wide_ = true;
}

size_t LaneClocks::Blocks::num_bytes() const {
  return visit([](const auto& blocks) { return blocks.num_bytes(); });
}

}  // namespace stretto
