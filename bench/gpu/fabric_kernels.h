// The kernels that a fabric is measured with.
#pragma once

#include "stretto/device/signal.h"

namespace stretto::bench {

struct PingParams {
  device::SignalSpace space;
  device::uint32 rank, peer;
  device::uint32 rounds, bare;
};
struct PushParams {
  const void* from;
  void* to;
  device::uint64 num_bytes;
};

inline constexpr int kPushThreads = 1024;
inline constexpr const char* kFabricSource = R"(#include "stretto/device/signal.h"
using namespace stretto::device;
struct PingParams {
  SignalSpace space;
  uint32 rank, peer, rounds, bare;
};
// Signal 0 of both ranks goes back and forth; a launch is a run.
extern "C" __global__ void ping(const __grid_constant__ PingParams p) {
  const uint64 epoch = begin_run(p.space);
  if (p.bare != 0) {
    uint32* const theirs = reinterpret_cast<uint32*>(p.space.counters[p.peer] + kSignalStride);
    const uint32* const own = reinterpret_cast<const uint32*>(p.space.own + kSignalStride);
    for (uint32 i = 1; i <= p.rounds; ++i) {
      const uint32 now = static_cast<uint32>(epoch) * p.rounds + i;
      if (p.rank < p.peer) store_relaxed_sys(theirs, now);
      for (uint32 spins = 0; load_relaxed_sys(own) < now && spins < 10'000'000; ++spins) {
      }
      if (p.rank > p.peer) store_relaxed_sys(theirs, now);
    }
    return;
  }
  const NotifyEntry notify{1, 0, 0, 1, static_cast<uint16>(p.peer), 0};
  for (uint32 i = 1; i <= p.rounds; ++i) {
    const WaitEntry wait{i, p.rounds, 0, 0, 1, 0, 0};
    if (p.rank < p.peer) notify_signals(p.space, epoch, &notify, 1);
    wait_signal(p.space, epoch, wait, 7, i);
    if (p.rank > p.peer) notify_signals(p.space, epoch, &notify, 1);
  }
}
struct PushParams {
  const uint4* from;
  uint4* to;
  uint64 num_bytes;
};
extern "C" __global__ void __launch_bounds__(1024, 1) push(const __grid_constant__ PushParams p) {
  const uint64 count = p.num_bytes / sizeof(uint4), step = gridDim.x * 1024ull;
  uint64 i = blockIdx.x * 1024ull + threadIdx.x;
  for (; i + 3 * step < count; i += 4 * step) {
    const uint4 a = p.from[i], b = p.from[i + step], c = p.from[i + 2 * step],
                d = p.from[i + 3 * step];
    p.to[i] = a;
    p.to[i + step] = b;
    p.to[i + 2 * step] = c;
    p.to[i + 3 * step] = d;
  }
  for (; i < count; i += step) p.to[i] = p.from[i];
}
extern "C" __global__ void fill(const __grid_constant__ PushParams p) {
  uint64* to = reinterpret_cast<uint64*>(p.to);
  const uint64 seed = reinterpret_cast<uint64>(p.from);
  for (uint64 i = blockIdx.x * 1024ull + threadIdx.x; i < p.num_bytes / 8; i += gridDim.x * 1024ull) {
    uint64 x = (i + seed) * 0x9e3779b97f4a7c15ull;
    x ^= x >> 29;
    to[i] = x * 0xbf58476d1ce4e5b9ull;
  }
}
// Counts words that are not what fill with this seed writes, into p.to.
extern "C" __global__ void differ(const __grid_constant__ PushParams p) {
  const uint64* words = reinterpret_cast<const uint64*>(p.from);
  uint64* bad = reinterpret_cast<uint64*>(p.to);
  const uint64 seed = bad[1];
  for (uint64 i = blockIdx.x * 1024ull + threadIdx.x; i < p.num_bytes / 8; i += gridDim.x * 1024ull) {
    uint64 x = (i + seed) * 0x9e3779b97f4a7c15ull;
    x ^= x >> 29;
    if (words[i] != x * 0xbf58476d1ce4e5b9ull) atomicAdd(bad, 1ull);
  }
}
)";

}  // namespace stretto::bench
