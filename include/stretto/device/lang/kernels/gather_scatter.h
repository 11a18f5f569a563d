// All-gather and reduce-scatter in one hop, without barriers or flags: the data says that it has
// arrived (slots.h). For short calls, as of few tokens.
//
// Rank r's part is vectors [r * part_vectors, ...) of num_vectors in all; the last parts may be
// shorter or empty. The all-gather moves bits: every pattern arrives as it was sent, NaNs and
// infinities too, except that -0.0 arrives as +0.0, at its own rank also. The reduce-scatter sums
// in fp32 in rank order and rounds once: what all_reduce_one_shot (all_reduce.h) has of that part.
//
// Of rows whose number stands in memory (rows_of_call.h) rank r's are rows [r * part, ...), part =
// ceil(rows / num_ranks).
//
// kInFlight, the vectors whose loads a thread has in flight: of several of its vectors together
// where there are few ranks.
#pragma once

#include "stretto/device/lang/kernels/parts_walk.h"
#include "stretto/device/lang/kernels/rows_of_call.h"

namespace stretto::device {

// Larger parts are refused before the launch.
inline constexpr uint32 kMostPartVectors = (1u << 28) - 1;

template <class Block>
struct PartsArgs {
  Ptr<Block, const Vec16>
      input;                 // local. all-gather: the own part; reduce-scatter: all num_vectors
  Ptr<Block, Vec16> output;  // local, not the input. all-gather: all; reduce-scatter: own part
  uint64 part_vectors, num_vectors;
  uint64 max_part_vectors;      // of any call
  Ptr<Block, Vec16> slots;      // symmetric, poisoned at first: 2 x num_ranks x max_part_vectors
  Ptr<Block, Vec16> greetings;  // symmetric, kNoGreeting at first: 3 x num_ranks
  Ptr<Block, uint64> state;     // local: num_blocks, zero at first
  RowsOfCall<Block> rows = {};  // instead of part_vectors and num_vectors
};

// Who has how many vectors in a call.
template <class Block>
STRETTO_PRIMITIVE Parts parts_of(Block& block, const PartsArgs<Block>& args) {
  if (!args.rows.are_told()) {
    return {static_cast<uint32>(args.part_vectors), static_cast<uint32>(args.num_vectors)};
  }
  const RunRows run(args.rows.count(), block.num_ranks(), 0);
  return {static_cast<uint32>(run.run_block) * args.rows.row_vectors,
          static_cast<uint32>(run.rows) * args.rows.row_vectors};
}

// What ranks must agree on (greeting.h). The collective's number is where an all-reduce says its
// shots, and none of those.
struct PartsGreeting {
  static constexpr uint32 kAllGather = 3, kReduceScatter = 4;

  template <class Format, class Block>
  STRETTO_PRIMITIVE static PartsGreeting of(const PartsArgs<Block>& args, const Parts& parts,
                                            uint32 collective) {
    return {Format::kMantissaBits, parts.total, parts.size << 3 | collective,
            static_cast<uint32>(args.max_part_vectors)};
  }
  STRETTO_PRIMITIVE Vec16 words() const {
    return {{mantissa_bits, num_vectors, parts, max_part_vectors}};
  }
  template <class Block>
  STRETTO_PRIMITIVE bool same(Block& block, int rank, const Vec16& theirs) const {
    return same_number(block, rank, "collective", parts & 7, theirs.word[2] & 7) &&
           same_number(block, rank, "mantissa_bits", mantissa_bits, theirs.word[0]) &&
           same_number(block, rank, "num_vectors", num_vectors, theirs.word[1]) &&
           same_number(block, rank, "part_vectors", parts >> 3, theirs.word[2] >> 3) &&
           same_number(block, rank, "max_part_vectors", max_part_vectors, theirs.word[3]);
  }
  uint32 mantissa_bits, num_vectors, parts, max_part_vectors;
};

// Everyone sends its part to everyone.
template <class Format, class Block, int kInFlight = kBatch>
STRETTO_KERNEL void all_gather_one_shot(Block& block, const PartsArgs<Block>& args) {
  const auto num_ranks = static_cast<uint64>(block.num_ranks());
  const auto me = static_cast<uint64>(block.rank());
  const Parts parts = parts_of<Block>(block, args);
  const ThreadShare share = ThreadShare::of(block);
  OwnPartSender<Format, kInFlight, Block> sender(block, args.input, parts.size_of(block.rank()),
                                                 share);
  const CallShare call = begin_call(block, args.state);
  const auto greeting = PartsGreeting::of<Format>(args, parts, PartsGreeting::kAllGather);
  auto now = args.slots + call.parity * num_ranks * args.max_part_vectors;  // [source][i]

  greet<Block>(block, args.greetings + call.now * num_ranks, greeting);
  sender.send(now + me * args.max_part_vectors, args.output + parts.first(block.rank()));
  if (call.call > 0) clear_greetings<Block>(block, args.greetings + call.before * num_ranks);
  bool good = hear_greetings<Block>(block, args.greetings + call.now * num_ranks, greeting);
  PartWalk walk = PartWalk::of_others(block, share, parts.size);
  while (good && walk.any()) {
    Ptr<Block, Vec16> at[kInFlight] = {};
    Vec16 values[kInFlight];
    walk.turn<kInFlight>([&](int j, int rank, uint32 i) {
      if (parts.has(rank, i)) at[j] = now + (static_cast<uint64>(rank) * args.max_part_vectors + i);
    });
    good = take_each<Format>(block, at, values, walk);
    walk = walk.turn<kInFlight>([&](int j, int rank, uint32 i) {
      if (good && parts.has(rank, i)) args.output[parts.first(rank) + i] = values[j];
    });
  }
  end_call<Block>(block, args.state, call.call, good);
}

// Everyone sends each rank that rank's part, and adds up what comes of its own.
template <class Format, class Block, int kInFlight = kBatch, SentBy kSentBy = SentBy::kThis>
STRETTO_KERNEL void reduce_scatter_one_shot(Block& block, const PartsArgs<Block>& args) {
  const auto num_ranks = static_cast<uint64>(block.num_ranks());
  const int me = block.rank();
  const Parts parts = parts_of<Block>(block, args);
  const ThreadShare share = ThreadShare::of(block);
  EachPartSender<Format, kInFlight, Block> sender(
      block, args.input, kSentBy == SentBy::kThis ? parts : Parts{}, share);
  const CallShare call = begin_call<Block, kSentBy>(block, args.state);
  const auto greeting = PartsGreeting::of<Format>(args, parts, PartsGreeting::kReduceScatter);
  auto now = args.slots + call.parity * num_ranks * args.max_part_vectors;  // [source][i]

  greet<Block>(block, args.greetings + call.now * num_ranks, greeting);
  sender.send(now + static_cast<uint64>(me) * args.max_part_vectors);
  if (call.call > 0) clear_greetings<Block>(block, args.greetings + call.before * num_ranks);
  bool good = hear_greetings<Block>(block, args.greetings + call.now * num_ranks, greeting);
  good = good && sum_each<Format, kInFlight, kSentBy, Block>(block, share, parts.size_of(me),
                                                             args.input + parts.first(me), now,
                                                             args.max_part_vectors, args.output);
  end_call<Block, kSentBy>(block, args.state, call.call, good);
}

}  // namespace stretto::device
