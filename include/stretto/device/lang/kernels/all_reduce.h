// Small all-reduce without barriers or flags: the data says that it has arrived.
//
// Every element is sent as a value that is never the sentinel (a negative zero), and slots hold the
// sentinel until the value comes. Sums are in fp32 and in rank order, so all ranks have the same
// bits. Three buffers by call: call e uses one and poisons the one of call e-1, which call e+2 will
// use; a peer is in call e+2 only after it has seen this rank's call e+1, hence after the
// poisoning. For that every rank must hear from every other in every call: short calls are padded
// with zeros.
//
// The grid must be the same in every call. `state` holds two words a block: calls so far, and the
// vectors of the last call.
#pragma once

#include "stretto/device/lang/numbers.h"
#include "stretto/device/lang/shmem.h"

namespace stretto::device {

template <class Block>
struct AllReduceArgs {
  Ptr<Block, const Vec16> input;  // local: num_vectors
  Ptr<Block, Vec16> output;       // local, may be the input
  uint64 num_vectors;
  uint64 max_vectors;        // of any call; at least num_ranks
  Ptr<Block, Vec16> slots;   // symmetric, poisoned at first: 3 x num_ranks x max_vectors;
                             // two-shot: 3 x 2 x num_ranks x max_vectors / num_ranks, rounded up
  Ptr<Block, uint64> state;  // local: 2 x num_blocks, zero at first
};

// What one thread does of a call: the vectors first, first + step, ...
struct CallShare {
  uint64 call;
  uint64 vectors;       // of this call, padded
  uint64 last_vectors;  // of the call before
  uint64 first;
  uint64 step;
};

template <class Block>
STRETTO_KERNEL CallShare begin_call(Block& block, const AllReduceArgs<Block>& args,
                                    uint64 least_vectors) {
  const uint64 call = args.state[2 * block.block_idx()];
  const uint64 last_vectors = args.state[2 * block.block_idx() + 1];
  const auto threads = static_cast<uint64>(block.num_threads());
  return {
      call, args.num_vectors > least_vectors ? args.num_vectors : least_vectors, last_vectors,
      static_cast<uint64>(block.block_idx()) * threads + static_cast<uint64>(block.thread_idx()),
      static_cast<uint64>(block.num_blocks()) * threads};
}

template <class Block>
STRETTO_KERNEL void end_call(Block& block, const AllReduceArgs<Block>& args,
                             const CallShare& share) {
  block.sync();
  if (block.thread_idx() != 0) return;
  args.state[2 * block.block_idx()] = share.call + 1;
  args.state[2 * block.block_idx() + 1] = share.vectors;
}

template <class Block>
STRETTO_KERNEL Vec16 input_at(const AllReduceArgs<Block>& args, uint64 i) {
  if (i >= args.num_vectors) return four_of(0);
  return args.input[i];
}

template <class Block>
STRETTO_KERNEL void output_at(const AllReduceArgs<Block>& args, uint64 i, const Vec16& value) {
  if (i < args.num_vectors) args.output[i] = value;
}

// One-shot: everyone sends everything to everyone. For small messages.
template <class Format, class Block>
STRETTO_KERNEL void all_reduce_one_shot(Block& block, const AllReduceArgs<Block>& args) {
  Shmem shmem(block);
  const int ranks = shmem.n_pes();
  const int me = shmem.my_pe();
  const CallShare share = begin_call(block, args, 1);
  const uint64 area = static_cast<uint64>(ranks) * args.max_vectors;
  auto now = args.slots + share.call % 3 * area;
  auto before = args.slots + (share.call + 2) % 3 * area;

  for (uint64 i = share.first; i < share.vectors; i += share.step) {
    const Vec16 own = canonical<Format>(input_at(args, i));
    for (int k = 1; k < ranks; ++k) {
      auto slot = shmem.ptr(now, (me + k) % ranks) + static_cast<uint64>(me) * args.max_vectors;
      block.store(slot + i, own);
    }
  }
  for (uint64 i = share.first; i < share.vectors; i += share.step) {
    float sums[Format::kElements] = {};
    for (int r = 0; r < ranks; ++r) {
      Vec16 value;
      if (r == me) {
        value = input_at(args, i);
      } else if (!block.wait_words_not(now + (static_cast<uint64>(r) * args.max_vectors + i),
                                       Format::kPoison, value)) {
        return;
      }
      Format::add(sums, value);
    }
    output_at(args, i, Format::round(sums));
  }
  if (share.call > 0) {
    for (uint64 i = share.first; i < share.last_vectors; i += share.step) {
      for (int r = 0; r < ranks; ++r) {
        if (r != me) {
          before[static_cast<uint64>(r) * args.max_vectors + i] = four_of(Format::kPoison);
        }
      }
    }
  }
  end_call(block, args, share);
}

// Two-shot: each rank sums one slice and sends the result to all. For medium messages.
template <class Format, class Block>
STRETTO_KERNEL void all_reduce_two_shot(Block& block, const AllReduceArgs<Block>& args) {
  Shmem shmem(block);
  const int ranks = shmem.n_pes();
  const int me = shmem.my_pe();
  const auto num_ranks = static_cast<uint64>(ranks);
  const CallShare share = begin_call(block, args, num_ranks);
  const uint64 max_slice = (args.max_vectors + num_ranks - 1) / num_ranks;
  const uint64 area = 2 * num_ranks * max_slice;
  auto now = args.slots + share.call % 3 * area;
  auto before = args.slots + (share.call + 2) % 3 * area;
  auto gathered = now + num_ranks * max_slice;
  // Slot [source][i] at the owner; result [owner][i] at everyone.
  auto begin_of = [&](int owner, uint64 vectors) {
    return vectors * static_cast<uint64>(owner) / num_ranks;
  };
  auto size_of = [&](int owner, uint64 vectors) {
    return begin_of(owner + 1, vectors) - begin_of(owner, vectors);
  };

  for (int k = 1; k < ranks; ++k) {
    const int owner = (me + k) % ranks;
    const uint64 begin = begin_of(owner, share.vectors);
    const uint64 size = size_of(owner, share.vectors);
    auto slot = shmem.ptr(now, owner) + static_cast<uint64>(me) * max_slice;
    for (uint64 i = share.first; i < size; i += share.step) {
      block.store(slot + i, canonical<Format>(input_at(args, begin + i)));
    }
  }
  const uint64 own_size = size_of(me, share.vectors);
  for (uint64 i = share.first; i < own_size; i += share.step) {
    const uint64 at = begin_of(me, share.vectors) + i;
    float sums[Format::kElements] = {};
    for (int r = 0; r < ranks; ++r) {
      Vec16 value;
      if (r == me) {
        value = input_at(args, at);
      } else if (!block.wait_words_not(now + (static_cast<uint64>(r) * max_slice + i),
                                       Format::kPoison, value)) {
        return;
      }
      Format::add(sums, value);
    }
    const Vec16 sum = Format::round(sums);
    output_at(args, at, sum);
    for (int k = 1; k < ranks; ++k) {
      auto result = shmem.ptr(gathered, (me + k) % ranks) + static_cast<uint64>(me) * max_slice;
      block.store(result + i, canonical<Format>(sum));
    }
  }
  for (int k = 1; k < ranks; ++k) {
    const int owner = (me + k) % ranks;
    const uint64 begin = begin_of(owner, share.vectors);
    const uint64 size = size_of(owner, share.vectors);
    for (uint64 i = share.first; i < size; i += share.step) {
      Vec16 value;
      if (!block.wait_words_not(gathered + (static_cast<uint64>(owner) * max_slice + i),
                                Format::kPoison, value)) {
        return;
      }
      output_at(args, begin + i, value);
    }
  }
  if (share.call > 0) {
    for (int r = 0; r < ranks; ++r) {
      if (r == me) continue;
      const uint64 sent = size_of(me, share.last_vectors);
      const uint64 got = size_of(r, share.last_vectors);
      const uint64 row = static_cast<uint64>(r) * max_slice;
      for (uint64 i = share.first; i < sent; i += share.step) {
        before[row + i] = four_of(Format::kPoison);
      }
      for (uint64 i = share.first; i < got; i += share.step) {
        before[num_ranks * max_slice + row + i] = four_of(Format::kPoison);
      }
    }
  }
  end_call(block, args, share);
}

}  // namespace stretto::device
