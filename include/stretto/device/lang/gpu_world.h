// What a launch on a GPU needs besides its arguments, and what kernels leave of what went wrong:
// seen by the host, too.
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

inline constexpr int kMaxRanks = 64;

// The first thing that went wrong on a rank: a wait that expired, or a call that another rank made
// with other arguments.
enum class Wrong : uint32 {
  kExpired,    // the word at `address` is `seen`
  kUnwritten,  // it still holds the sentinel `seen`: nobody has written it
  kDisagrees,  // `expected` and `seen` are arguments, this rank's and the other's
};
struct ExpiredWait {
  uint32 filled;
  uint32 block;
  int32 from;  // the rank that was awaited, or that disagrees; -1: not known
  Wrong wrong;
  uint64 address;  // of the awaited word, in this rank's mapping
  uint64 expected;
  uint64 seen;
  char argument[16];  // the name of what disagrees, cut when it is longer, without a zero then
};

// Words of a row in which two ranks meet (meeting.h), so that each has a line of 128 bytes.
inline constexpr int kMeetWords = 16;

// What a launch needs besides its own arguments; the same value on every block of a rank.
struct GpuWorld {
  int rank;
  int num_ranks;
  int max_blocks;  // of a grid whose blocks meet those of other ranks
  uint64 timeout_ns;
  uint64 heap_bytes;
  uint32* abort;           // symmetric
  ExpiredWait* expired;    // local, zeroed before a launch
  uint64* sync_signals;    // symmetric: max_blocks x num_ranks x kMeetWords, zeroed once
  uint64* sync_epochs;     // local: max_blocks x num_ranks, zeroed with them
  uint32* host_word;       // of tell_host()
  char* heaps[kMaxRanks];  // every rank's symmetric heap as mapped here; null: not reachable
};

static_assert(sizeof(ExpiredWait) == 56 && sizeof(GpuWorld) == 72 + 8 * kMaxRanks);

// What a kernel that the host launches by name takes as its one parameter.
template <class Args>
struct LaunchParameters {
  GpuWorld world;
  Args args;
};

}  // namespace stretto::device
