// All-reduce without barriers or flags: the data says that it has arrived.
//
// Every element is sent as a value that is never the sentinel (a negative zero), and slots hold the
// sentinel until the value comes. Sums are in fp32 and in rank order, so all ranks have the same
// bits. Three buffers by call: call e uses one and poisons the one of call e-1, which call e+2 will
// use; by the greetings of call e+1 a rank in call e+2 knows that all have ended call e.
//
// The grid must be the same in every call. `state` holds two words a block: calls so far, and the
// vectors of the last call.
#pragma once

#include "stretto/device/lang/kernels/greeting.h"

namespace stretto::device {

// Vectors whose loads one thread has in flight by default.
inline constexpr int kBatch = 8;

template <class Block>
struct AllReduceArgs {
  Ptr<Block, const Vec16> input;  // local: num_vectors
  Ptr<Block, Vec16> output;       // local, may be the input
  uint64 num_vectors;
  uint64 max_vectors;           // of any call
  Ptr<Block, Vec16> slots;      // symmetric, poisoned at first: 3 x num_ranks x max_vectors;
                                // two-shot: 3 x 2 x num_ranks x max_vectors / num_ranks, up
  Ptr<Block, Vec16> greetings;  // symmetric, kNoGreeting at first: 3 x num_ranks
  Ptr<Block, uint64> state;     // local: 2 x num_blocks, zero at first
};

// What one thread does of a call: the vectors first, first + step, ...
struct CallShare {
  uint64 call;
  uint64 last_vectors;  // of the call before
  uint64 first;
  uint64 step;
  uint64 now;     // which of the three buffers this call uses
  uint64 before;  // and the call before used
};

template <class Block>
STRETTO_KERNEL CallShare begin_call(Block& block, Ptr<Block, uint64> state) {
  const uint64 call = state[2 * block.block_idx()];
  const uint64 last_vectors = state[2 * block.block_idx() + 1];
  const auto threads = static_cast<uint64>(block.num_threads());
  return {
      call,
      last_vectors,
      static_cast<uint64>(block.block_idx()) * threads + static_cast<uint64>(block.thread_idx()),
      static_cast<uint64>(block.num_blocks()) * threads,
      call % 3,
      (call + 2) % 3};
}

template <class Block>
STRETTO_KERNEL void end_call(Block& block, Ptr<Block, uint64> state, uint64 call, uint64 vectors,
                             bool good) {
  if (block.sync_or(!good) || block.thread_idx() != 0) return;
  state[2 * block.block_idx()] = call + 1;
  state[2 * block.block_idx() + 1] = vectors;
}

// Adds up, in rank order, this rank's `own` and the vectors at slots + r * stride of the others,
// each once it has come.
template <class Format, int kInFlight = kBatch, class Block>
STRETTO_PRIMITIVE bool sum_slots(Block& block, Ptr<Block, const Vec16> slots, uint64 stride,
                                 const Vec16& own, float (&sums)[Format::kElements],
                                 Where where = Where::here()) {
  const int ranks = block.num_ranks();
  const int me = block.rank();
  STRETTO_UNROLL for (float& sum : sums) sum = 0;
  for (int base = 0; base < ranks; base += kInFlight) {
    Vec16 values[kInFlight];
    const int count = ranks - base < kInFlight ? ranks - base : kInFlight;
    if (!block.wait_vectors_not(slots + static_cast<uint64>(base) * stride, stride, count,
                                me - base, Format::kPoison, values, where, base)) {
      return false;
    }
    STRETTO_UNROLL for (int j = 0; j < kInFlight; ++j) {
      if (base + j == me) values[j] = own;
      if (j < count) Format::add(sums, values[j]);
    }
  }
  return true;
}

// One-shot: everyone sends everything to everyone. For small messages.
template <class Format, class Block>
STRETTO_KERNEL void all_reduce_one_shot(Block& block, const AllReduceArgs<Block>& args) {
  Shmem shmem(block);
  const int ranks = shmem.n_pes();
  const int me = shmem.my_pe();
  const auto num_ranks = static_cast<uint64>(ranks);
  const CallShare share = begin_call(block, args.state);
  const Greeting greeting{static_cast<uint32>(share.call),
                          static_cast<uint32>(args.num_vectors),
                          1,
                          static_cast<uint32>(args.max_vectors),
                          "num_vectors",
                          "shots",
                          "max_vectors"};
  const uint64 area = num_ranks * args.max_vectors;
  auto now = args.slots + share.now * area;
  auto before = args.slots + share.before * area;

  greet<Block>(block, args.greetings + share.now * num_ranks, greeting);
  for (uint64 i = share.first; i < args.num_vectors; i += share.step) {
    const Vec16 value = args.input[i];
    const Vec16 own = canonical<Format>(value);
    for (int k = 1; k < ranks; ++k) {
      auto slot = shmem.ptr(now, (me + k) % ranks) + static_cast<uint64>(me) * args.max_vectors;
      block.store(slot + i, own);
    }
  }
  if (share.call > 0) {
    for (uint64 i = share.first; i < share.last_vectors; i += share.step) {
      for (int r = 0; r < ranks; ++r) {
        if (r != me) {
          before[static_cast<uint64>(r) * args.max_vectors + i] = four_of(Format::kPoison);
        }
      }
    }
    clear_greetings<Block>(block, args.greetings + share.before * num_ranks);
  }
  bool good = hear_greetings<Block>(block, args.greetings + share.now * num_ranks, greeting);
  for (uint64 i = share.first; good && i < args.num_vectors; i += share.step) {
    const Vec16 own = args.input[i];
    float sums[Format::kElements];
    good = sum_slots<Format>(block, now + i, args.max_vectors, own, sums);
    if (good) args.output[i] = canonical<Format>(Format::round(sums));
  }
  end_call<Block>(block, args.state, share.call, args.num_vectors, good);
}

// Two-shot: owner o sums vectors [o, o + 1) x slice and sends the sums to everyone. For larger
// messages: each rank sends two messages' worth instead of one for every peer.
template <class Format, class Block>
STRETTO_KERNEL void all_reduce_two_shot(Block& block, const AllReduceArgs<Block>& args) {
  Shmem shmem(block);
  const int ranks = shmem.n_pes();
  const int me = shmem.my_pe();
  const auto num_ranks = static_cast<uint64>(ranks);
  const CallShare share = begin_call(block, args.state);
  const Greeting greeting{static_cast<uint32>(share.call),
                          static_cast<uint32>(args.num_vectors),
                          2,
                          static_cast<uint32>(args.max_vectors),
                          "num_vectors",
                          "shots",
                          "max_vectors"};
  const uint64 slice = (args.num_vectors + num_ranks - 1) / num_ranks;
  const uint64 max_slice = (args.max_vectors + num_ranks - 1) / num_ranks;
  const uint64 half = num_ranks * max_slice;
  auto now = args.slots + share.now * 2 * half;  // [source][i]
  auto before = args.slots + share.before * 2 * half;
  auto gathered = now + half;  // [owner][i]
  auto end_of = [&](int owner) {
    const uint64 left = args.num_vectors - slice * static_cast<uint64>(owner);
    return slice * static_cast<uint64>(owner) >= args.num_vectors ? 0 : left < slice ? left : slice;
  };

  constexpr int kUnroll = 4;
  greet<Block>(block, args.greetings + share.now * num_ranks, greeting);
  for (int k = 1; k < ranks; ++k) {
    const int owner = (me + k) % ranks;
    const uint64 end = end_of(owner);
    auto from = args.input + slice * static_cast<uint64>(owner);
    auto slot = shmem.ptr(now, owner) + static_cast<uint64>(me) * max_slice;
    for (uint64 i = share.first; i < end; i += kUnroll * share.step) {
      Vec16 values[kUnroll];
      STRETTO_UNROLL for (uint64 u = 0; u < kUnroll; ++u) {
        if (i + u * share.step < end) values[u] = from[i + u * share.step];
      }
      STRETTO_UNROLL for (uint64 u = 0; u < kUnroll; ++u) {
        if (i + u * share.step < end) {
          block.store(slot + (i + u * share.step), canonical<Format>(values[u]));
        }
      }
    }
  }
  if (share.call > 0) {
    const uint64 last_slice = (share.last_vectors + num_ranks - 1) / num_ranks;
    for (uint64 r = 0; r < 2 * num_ranks; ++r) {
      if (r % num_ranks == static_cast<uint64>(me)) continue;
      for (uint64 i = share.first; i < last_slice; i += share.step) {
        before[r * max_slice + i] = four_of(Format::kPoison);
      }
    }
    clear_greetings<Block>(block, args.greetings + share.before * num_ranks);
  }
  bool good = hear_greetings<Block>(block, args.greetings + share.now * num_ranks, greeting);
  const uint64 own_end = end_of(me);
  for (uint64 i = share.first; good && i < own_end; i += share.step) {
    const uint64 at = slice * static_cast<uint64>(me) + i;
    const Vec16 own = args.input[at];
    float sums[Format::kElements];
    good = sum_slots<Format>(block, now + i, max_slice, own, sums);
    if (!good) break;
    const Vec16 sum = canonical<Format>(Format::round(sums));
    args.output[at] = sum;
    for (int k = 1; k < ranks; ++k) {
      auto result = shmem.ptr(gathered, (me + k) % ranks) + static_cast<uint64>(me) * max_slice;
      block.store(result + i, sum);
    }
  }
  for (uint64 i = share.first; good && i < slice; i += share.step) {
    for (int base = 0; good && base < ranks; base += kBatch) {
      Vec16 values[kBatch];
      int count = ranks - base < kBatch ? ranks - base : kBatch;
      while (count > 0 && i >= end_of(base + count - 1)) --count;  // the last may own less
      good =
          block.wait_vectors_not(gathered + (static_cast<uint64>(base) * max_slice + i), max_slice,
                                 count, me - base, Format::kPoison, values, Where::here(), base);
      STRETTO_UNROLL for (int j = 0; j < kBatch; ++j) {
        if (good && j < count && base + j != me) {
          args.output[slice * static_cast<uint64>(base + j) + i] = values[j];
        }
      }
    }
  }
  end_call<Block>(block, args.state, share.call, args.num_vectors, good);
}

}  // namespace stretto::device
