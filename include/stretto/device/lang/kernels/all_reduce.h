// All-reduce without barriers or flags: the data says that it has arrived (slots.h).
//
// Sums are in fp32 and in rank order, so all ranks have the same bits. One thread of a rank reads
// an element, and the same one writes its sum: so a call may be in place.
//
// kInFlight, the vectors whose loads a thread has in flight: best 4 with up to 4 ranks.
#pragma once

#include "stretto/device/lang/kernels/parts_walk.h"
#include "stretto/device/lang/kernels/rows_of_call.h"

namespace stretto::device {

template <class Block>
struct AllReduceArgs {
  Ptr<Block, const Vec16> input;  // local: num_vectors
  Ptr<Block, Vec16> output;       // local, may be the input
  uint64 num_vectors;
  uint64 max_vectors;           // of any call
  Ptr<Block, Vec16> slots;      // symmetric, poisoned at first: 2 x num_ranks x max_vectors;
                                // two-shot: 2 x 2 x num_ranks x max_vectors / num_ranks, up
  Ptr<Block, Vec16> greetings;  // symmetric, kNoGreeting at first: 3 x num_ranks
  Ptr<Block, uint64> state;     // local: num_blocks, zero at first
  RowsOfCall<Block> rows = {};  // instead of num_vectors
};

template <class Block>
STRETTO_PRIMITIVE uint32 vectors_of(const AllReduceArgs<Block>& args) {
  return args.rows.are_told() ? args.rows.vectors() : static_cast<uint32>(args.num_vectors);
}

template <class Format, class Block>
STRETTO_PRIMITIVE Greeting greeting_of(const AllReduceArgs<Block>& args, uint32 num_vectors,
                                       uint32 shots) {
  return {Format::kMantissaBits, num_vectors,   shots,   static_cast<uint32>(args.max_vectors),
          "mantissa_bits",       "num_vectors", "shots", "max_vectors"};
}

// One-shot: everyone sends everything to everyone. For small messages.
template <class Format, class Block, int kInFlight = kBatch, SentBy kSentBy = SentBy::kThis>
STRETTO_KERNEL void all_reduce_one_shot(Block& block, const AllReduceArgs<Block>& args) {
  const auto num_ranks = static_cast<uint64>(block.num_ranks());
  const uint32 count = vectors_of(args);
  const ThreadShare share = ThreadShare::of(block);
  OwnPartSender<Format, kInFlight, Block> sender(block, args.input,
                                                 kSentBy == SentBy::kThis ? count : 0, share);
  const CallShare call = begin_call<Block, kSentBy>(block, args.state);
  const Greeting greeting = greeting_of<Format>(args, count, 1);
  auto now = args.slots + call.parity * num_ranks * args.max_vectors;  // [source][i]

  greet<Block>(block, args.greetings + call.now * num_ranks, greeting);
  sender.send(now + static_cast<uint64>(block.rank()) * args.max_vectors, {});
  if (call.call > 0) clear_greetings<Block>(block, args.greetings + call.before * num_ranks);
  bool good = hear_greetings<Block>(block, args.greetings + call.now * num_ranks, greeting);
  good = good && sum_each<Format, kInFlight, kSentBy, Block>(block, share, count, args.input, now,
                                                             args.max_vectors, args.output);
  end_call<Block, kSentBy>(block, args.state, call.call, good);
}

// Two-shot: owner o sums vectors [o, o + 1) x slice and sends the sums to everyone. For larger
// messages: each rank sends two messages' worth instead of one for every peer. A thread that has
// index i sends vector i of every slice, sums that of the own one and takes that of all others.
template <class Format, class Block, int kInFlight = kBatch>
STRETTO_KERNEL void all_reduce_two_shot(Block& block, const AllReduceArgs<Block>& args) {
  const int ranks = block.num_ranks();
  const int me = block.rank();
  const auto num_ranks = static_cast<uint32>(ranks);
  const uint32 total = vectors_of(args);
  const Parts slices{(total + num_ranks - 1) / num_ranks, total};
  const ThreadShare share = ThreadShare::of(block);
  PartSender<Format, kInFlight, Block> sender(block, slices, args.input, share.first);
  const CallShare call = begin_call(block, args.state);
  const Greeting greeting = greeting_of<Format>(args, total, 2);
  const uint64 stride = (static_cast<uint32>(args.max_vectors) + num_ranks - 1) / num_ranks;
  const uint64 half = num_ranks * stride;
  auto now = args.slots + call.parity * 2 * half;  // [source][i]
  auto gathered = now + half;                      // [owner][i]
  const uint64 mine = static_cast<uint32>(me) * stride;

  greet<Block>(block, args.greetings + call.now * num_ranks, greeting);
  sender.send(now + mine, share.first, share.step);
  if (call.call > 0) clear_greetings<Block>(block, args.greetings + call.before * num_ranks);
  bool good = hear_greetings<Block>(block, args.greetings + call.now * num_ranks, greeting);
  const uint32 own_end = slices.size_of(me);
  for (uint32 i = share.first; good && i < own_end; i += share.step) {
    const Vec16 own = args.input[slices.first(me) + i];
    float sums[Format::kElements];
    good = sum_slots<Format, kInFlight>(block, now + i, stride, own, sums);
    if (!good) break;
    const Vec16 sum = canonical<Format>(Format::round(sums));
    send_to_others<Block>(block, gathered + mine + i, sum);
    args.output[slices.first(me) + i] = sum;
  }
  for (uint32 i = share.first; good && i < slices.size; i += share.step) {
    for (int base = 0; good && base < ranks; base += kInFlight) {
      Vec16 values[kInFlight];
      const int count = slices.having(base, ranks - base < kInFlight ? ranks - base : kInFlight, i);
      good = take_slots<Format>(block, gathered + (static_cast<uint32>(base) * stride + i), stride,
                                count, me - base, values, base, Patience::kLonger);
      STRETTO_UNROLL for (int j = 0; j < kInFlight; ++j) {
        if (good && j < count && base + j != me) {
          args.output[slices.first(base + j) + i] = values[j];
        }
      }
    }
  }
  end_call<Block>(block, args.state, call.call, good);
}

}  // namespace stretto::device
