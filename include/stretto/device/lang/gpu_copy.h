// Copies by a thread, a warp or a block of a GPU, in its own memory or to and from a peer's.
#pragma once

#include "stretto/device/lang/words.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// Four in flight a thread. Returns the bytes of all whole pieces.
template <class Piece>
STRETTO_DEVICE uint64 copy_pieces(void* dest, const void* source, uint64 num_bytes, uint64 first,
                                  uint64 step) {
  const uint64 num_pieces = num_bytes / sizeof(Piece);
  auto* const to = static_cast<Piece*>(dest);
  const auto* const from = static_cast<const Piece*>(source);
  uint64 i = first;
  for (; i + 3 * step < num_pieces; i += 4 * step) {
    const Piece a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
    to[i] = a;
    to[i + step] = b;
    to[i + 2 * step] = c;
    to[i + 3 * step] = d;
  }
  for (; i < num_pieces; i += step) to[i] = from[i];
  return num_pieces * sizeof(Piece);
}

// Coalesced, in pieces as large as both addresses are aligned to, bytes behind the last.
STRETTO_DEVICE void copy_by(Group group, void* dest, const void* source, uint64 num_bytes) {
  uint64 first = 0;
  uint64 step = 1;
  if (group == Group::kBlock) {
    first = threadIdx.x;
    step = blockDim.x;
  } else if (group == Group::kWarp) {
    first = threadIdx.x % 32;
    step = blockDim.x < 32 ? blockDim.x : 32;
  }
  const uint64 alignment = reinterpret_cast<uint64>(dest) | reinterpret_cast<uint64>(source);
  uint64 done = 0;
  if (alignment % 16 == 0) {
    done = copy_pieces<Vec16>(dest, source, num_bytes, first, step);
  } else if (alignment % 8 == 0) {
    done = copy_pieces<uint64>(dest, source, num_bytes, first, step);
  } else if (alignment % 4 == 0) {
    done = copy_pieces<uint32>(dest, source, num_bytes, first, step);
  }
  for (uint64 k = done + first; k < num_bytes; k += step) {
    static_cast<char*>(dest)[k] = static_cast<const char*>(source)[k];
  }
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
