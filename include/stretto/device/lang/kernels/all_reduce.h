// All-reduce without barriers or flags: the data says that it has arrived (slots.h).
//
// Sums are in fp32 and in rank order, so all ranks have the same bits.
#pragma once

#include "stretto/device/lang/kernels/slots.h"

namespace stretto::device {

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

template <class Format, class Block>
STRETTO_PRIMITIVE Greeting greeting_of(const AllReduceArgs<Block>& args, uint32 shots) {
  return {16 / static_cast<uint32>(Format::kElements),
          static_cast<uint32>(args.num_vectors),
          shots,
          static_cast<uint32>(args.max_vectors),
          "element_bytes",
          "num_vectors",
          "shots",
          "max_vectors"};
}

// One-shot: everyone sends everything to everyone. For small messages.
template <class Format, class Block>
STRETTO_KERNEL void all_reduce_one_shot(Block& block, const AllReduceArgs<Block>& args) {
  Shmem shmem(block);
  const int ranks = shmem.n_pes();
  const int me = shmem.my_pe();
  const auto num_ranks = static_cast<uint64>(ranks);
  const CallShare share = begin_call(block, args.state);
  const Greeting greeting = greeting_of<Format>(args, 1);
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
    for (uint64 i = share.first; i < share.last_size; i += share.step) {
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
template <class Format, class Block, Send kSend = Send::kByRank>
STRETTO_KERNEL void all_reduce_two_shot(Block& block, const AllReduceArgs<Block>& args) {
  Shmem shmem(block);
  const int ranks = shmem.n_pes();
  const int me = shmem.my_pe();
  const auto num_ranks = static_cast<uint64>(ranks);
  const CallShare share = begin_call(block, args.state);
  const Greeting greeting = greeting_of<Format>(args, 2);
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

  greet<Block>(block, args.greetings + share.now * num_ranks, greeting);
  if constexpr (kSend == Send::kByPiece) {
    const auto width = static_cast<uint32>(block.num_threads());
    const auto pieces = static_cast<uint32>((slice + width - 1) / width);
    send_pieces<Format, 4>(block, pieces, width, [&](int owner, uint32 p) -> Piece<Block> {
      const uint64 first = static_cast<uint64>(p) * width;
      const uint64 end = end_of(owner);
      const uint64 left = first < end ? end - first : 0;
      return {args.input + (slice * static_cast<uint64>(owner) + first),
              shmem.ptr(now, owner) + (static_cast<uint64>(me) * max_slice + first),
              left < width ? static_cast<uint32>(left) : width};
    });
  }
  for (int k = 1; kSend == Send::kByRank && k < ranks; ++k) {
    const int owner = (me + k) % ranks;
    const uint64 end = end_of(owner);
    auto from = args.input + slice * static_cast<uint64>(owner);
    auto slot = shmem.ptr(now, owner) + static_cast<uint64>(me) * max_slice;
    send_to_slot<Format>(block, share, from, slot, end);
  }
  if (share.call > 0) {
    const uint64 last_slice = (share.last_size + num_ranks - 1) / num_ranks;
    poison_two_hops<Format>(block, share, before, max_slice, last_slice);
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
