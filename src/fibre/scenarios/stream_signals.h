// A ring whose kernels know nothing of signals: those of its streams, between them, say what has
// come and what is free again.
#pragma once

#include <vector>

#include "fibre/scenarios/read_behind.h"
#include "stretto/device/lang/kernels/stream_signals.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

using namespace device;

inline constexpr uint64 kRingRuns = 3;
inline constexpr size_t kRingWords = 6;

// In each run every rank stores its words at the next one, which reads them.
inline void stream_signal_calls(World& world) {
  const int ranks = world.shape().ranks;
  const auto word_of = [](int rank, uint64 run, size_t i) {
    return uint32(size_t(rank) * 1000 + run * 100 + i);
  };
  auto inbox = world.symmetric<uint32>("inbox", kRingWords);
  auto arrived = world.symmetric<uint64>("arrived", 1, 0);
  auto taken = world.symmetric<uint64>("taken", 1, 0);
  const auto notify = [&](const Buffer<uint64>& signal, int by) {
    world.launch([=](Block& block) {
      const int peer = (block.rank() + by + ranks) % ranks;
      rank_notify(block, RankNotifyArgs<Block>{signal.at(block.rank()), 1, peer});
    });
  };
  const auto wait = [&](const Buffer<uint64>& signal, uint64 bound, int by) {
    world.launch([=](Block& block) {
      const int from = (block.rank() + by + ranks) % ranks;
      rank_wait(block, RankWaitArgs<Block>{signal.at(block.rank()), bound, from});
    });
  };
  // Every block of a launch adds to the signal.
  const auto blocks = static_cast<uint64>(world.shape().blocks);
  std::vector<Buffer<uint32>> seen;
  for (uint64 run = 0; run < kRingRuns; ++run) {
    wait(taken, run * blocks, 1);
    world.launch(1, 1, [=](Block& block) {
      const int me = block.rank();
      const auto to = block.peer(inbox.at(me), (me + 1) % ranks);
      for (size_t i = 0; i < kRingWords; ++i) to[i] = word_of(me, run, i);
    });
    notify(arrived, 1);
    wait(arrived, (run + 1) * blocks, -1);
    seen.push_back(read_behind(world, inbox));
    notify(taken, -1);
  }
  if (!world.run()) return;
  for (uint64 run = 0; run < kRingRuns; ++run) {
    for (int r = 0; r < ranks; ++r) {
      for (size_t i = 0; i < kRingWords; ++i) {
        world.expect(seen[run].get(r, i) == word_of((r + ranks - 1) % ranks, run, i),
                     "a word is wrong");
      }
    }
  }
}

}  // namespace stretto::fibre
