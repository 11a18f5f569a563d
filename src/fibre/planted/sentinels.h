// Protocols without signals: the data itself says that it has arrived.
#pragma once

#include "fibre/planted/planted.h"

namespace stretto::fibre {

inline constexpr uint32 kPoison = 0x80000000u;  // -0.0f

inline Vec16 four_words(uint32 first) { return {{first, first + 1, first + 2, first + 3}}; }

// In run e every rank stores four words into its slot at every peer, and takes theirs.
inline void exchange(World& world, uint64 num_buffers, bool repoison, bool all_words, uint32 base) {
  const int ranks = world.shape().ranks;
  auto slots = world.symmetric<Vec16>("slots", num_buffers * size_t(ranks),
                                      Vec16{{kPoison, kPoison, kPoison, kPoison}});
  auto out = world.local<Vec16>("out", 5 * size_t(ranks), Vec16{});
  for (uint64 e = 0; e < 5; ++e) {
    world.launch(1, 1, [=](Block& block) {
      device::Shmem shmem(block);
      const int me = block.rank();
      const uint64 buffer = e % num_buffers * uint64(ranks);
      const uint64 last = (e + num_buffers - 1) % num_buffers * uint64(ranks);
      for (int i = 1; i < ranks; ++i) {
        const int to = (me + i) % ranks;
        block.store(shmem.ptr(slots.at(me), to) + (buffer + uint64(me)),
                    four_words(base + uint32(100 * e) + uint32(10 * me)));
      }
      for (int i = 1; i < ranks; ++i) {
        const int from = (me + i) % ranks;
        auto slot = slots.at(me) + (buffer + uint64(from));
        Vec16 value;
        if (all_words) {
          if (!block.wait_words_not(slot, kPoison, value)) return;
        } else {
          if (!block.wait_until(pointer_cast<uint32>(slot) + 3, Compare::kNe, kPoison)) return;
          value = block.load(slot);
        }
        out.at(me)[e * uint64(ranks) + uint64(from)] = value;
        // What the previous run took is free again.
        if (repoison && e > 0) {
          slots.at(me)[last + uint64(from)] = Vec16{{kPoison, kPoison, kPoison, kPoison}};
        }
      }
    });
  }
  if (!world.run()) return;
  for (int r = 0; r < ranks; ++r) {
    for (uint32 e = 0; e < 5; ++e) {
      for (int from = 0; from < ranks; ++from) {
        if (from == r) continue;
        const Vec16 got = out.get(r, e * size_t(ranks) + size_t(from));
        const Vec16 want = four_words(base + 100 * e + uint32(10 * from));
        for (int w = 0; w < 4; ++w) {
          world.expect(got.word[w] == want.word[w], "a message arrived wrong");
        }
      }
    }
  }
}

inline void only_last_word_checked(World& world, bool bug) { exchange(world, 3, true, !bug, 7); }
inline void two_buffers_for_three(World& world, bool bug) {
  exchange(world, bug ? 2 : 3, true, true, 7);
}
inline void not_poisoned_again(World& world, bool bug) { exchange(world, 3, !bug, true, 7); }
// The second word of run 0 is the sentinel itself.
inline void sentinel_among_the_data(World& world, bool bug) {
  exchange(world, 3, true, true, bug ? kPoison - 1 : 7);
}

inline std::vector<Planted> sentinel_bugs() {
  const Shape pair{.ranks = 2, .threads = 1};
  const auto wrong = FindingKind::kMismatch;
  return {
      {"only_last_word_checked",
       "16-byte stores taken for one unit",
       {wrong},
       pair,
       only_last_word_checked},
      {"two_buffers_for_three",
       "Lamport buffers reused a call too early",
       {FindingKind::kRace, FindingKind::kDeadlock, wrong},
       pair,
       two_buffers_for_three},
      {"not_poisoned_again", "slot not re-poisoned", {wrong}, pair, not_poisoned_again},
      {"sentinel_among_the_data",
       "flashinfer 3304: sentinel is legal data",
       {FindingKind::kDeadlock},
       pair,
       sentinel_among_the_data},
  };
}

}  // namespace stretto::fibre
