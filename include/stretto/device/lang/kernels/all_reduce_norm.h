// All-reduce, residual and RMSNorm in one kernel, by sentinels (slots.h).
//
//   h = residual + sum over ranks of input, in fp32 in rank order, rounded once to bf16
//   output = norm(h) * weight
//
// One-shot for few tokens: everyone sends all rows to everyone, and norms all of them. Two-shot for
// more: rank r owns rows [r, r + 1) x ceil(tokens / ranks) and sums them. With the residual on all
// ranks it sends h, and everyone norms; with the residual kept by its owner it norms and sends the
// output, in fp8 when that is asked for.
//
// A block takes whole rows. Best with as many threads as a row has vectors; kInFlight, the vectors
// whose loads a thread has in flight, is a matter of registers: with 1024 threads, 4.
#pragma once

#include "stretto/device/lang/kernels/norm.h"
#include "stretto/device/lang/kernels/norm_greeting.h"
#include "stretto/device/lang/kernels/slots.h"

namespace stretto::device {

template <class Block>
struct AllReduceNormArgs {
  Ptr<Block, const Vec16> input;     // local: tokens x row_vectors
  Ptr<Block, const Vec16> residual;  // local: the same, or the own rows only
  Ptr<Block, Vec16> new_residual;    // local, like `residual`, may be it
  Ptr<Block, Vec16> output;          // local: tokens x row_vectors, half of that in fp8
  NormArgs<Block> norm;
  uint64 tokens;
  uint64 row_vectors;           // even in fp8
  uint64 max_tokens;            // of any call
  uint32 own_rows;              // 1: each rank keeps the residual of its own rows; two-shot only
  Ptr<Block, Vec16> slots;      // symmetric, poisoned at first: 3 x ranks x max_tokens rows;
                                // two-shot: 3 x 2 x ranks x ceil(max_tokens / ranks) rows
  Ptr<Block, Vec16> greetings;  // symmetric, kNoGreeting at first: 3 x ranks
  Ptr<Block, uint64> state;     // local: 2 x num_blocks, zero at first
};

template <class Block, int kInFlight = kBatch>
STRETTO_KERNEL void all_reduce_norm_one_shot(Block& block, const AllReduceNormArgs<Block>& args) {
  Shmem shmem(block);
  const int ranks = shmem.n_pes();
  const int me = shmem.my_pe();
  const auto num_ranks = static_cast<uint64>(ranks);
  const CallShare share = begin_call(block, args.state);
  const NormGreeting greeting = NormGreeting::of(args, 1, 0, 0);
  const uint64 stride = args.max_tokens * args.row_vectors;
  auto now = args.slots + share.now * num_ranks * stride;
  auto before = args.slots + share.before * num_ranks * stride;
  const auto thread = static_cast<uint64>(block.thread_idx());
  const auto threads = static_cast<uint64>(block.num_threads());
  const auto row_step = static_cast<uint64>(block.num_blocks());
  const auto first_row = static_cast<uint64>(block.block_idx());

  greet<Block>(block, args.greetings + share.now * num_ranks, greeting);
  for (uint64 row = first_row; row < args.tokens; row += row_step) {
    for (uint64 v = thread; v < args.row_vectors; v += threads) {
      const uint64 at = row * args.row_vectors + v;
      const Vec16 value = args.input[at];
      const Vec16 own = canonical<Bf16x8>(value);
      for (int k = 1; k < ranks; ++k) {
        block.store(shmem.ptr(now, (me + k) % ranks) + (static_cast<uint64>(me) * stride + at),
                    own);
      }
    }
  }
  if (share.call > 0) {
    for (uint64 row = first_row; row < share.last_size; row += row_step) {
      for (uint64 v = thread; v < args.row_vectors; v += threads) {
        for (int r = 0; r < ranks; ++r) {
          if (r == me) continue;
          before[static_cast<uint64>(r) * stride + row * args.row_vectors + v] =
              four_of(Bf16x8::kPoison);
        }
      }
    }
    clear_greetings<Block>(block, args.greetings + share.before * num_ranks);
  }
  bool good = hear_greetings<Block>(block, args.greetings + share.now * num_ranks, greeting);
  const bool fp8 = static_cast<bool>(args.norm.fp8_scale);
  for (uint64 row = first_row; row < args.tokens; row += row_step) {
    const auto kept = [&] { return args.new_residual + row * args.row_vectors; };
    MadeRow made;
    for (uint64 v = thread; good && v < args.row_vectors; v += threads) {
      const uint64 at = row * args.row_vectors + v;
      const Vec16 own = args.input[at];
      const Vec16 residual = args.residual[at];
      float sums[Bf16x8::kElements];
      good = sum_slots<Bf16x8, kInFlight>(block, now + at, stride, own, sums);
      if (!good) {
        made.drop();
        break;
      }
      made.keep(kept(), static_cast<uint32>(v), add_residual(residual, sums));
    }
    auto out = args.output + row * args.row_vectors / (fp8 ? 2 : 1);
    norm_row(block, args.norm, args.row_vectors, kept, made,
             [&](uint64 v, const float(&values)[Bf16x8::kElements], float inverse_scale) {
               store_normed<Block>(out, v, fp8, values, inverse_scale);
             });
  }
  end_call<Block>(block, args.state, share.call, args.tokens, good);
}

template <class Block, int kInFlight = kBatch, Send kSend = Send::kByRank>
STRETTO_KERNEL void all_reduce_norm_two_shot(Block& block, const AllReduceNormArgs<Block>& args) {
  Shmem shmem(block);
  const int ranks = shmem.n_pes();
  const int me = shmem.my_pe();
  const uint64 num_ranks = static_cast<uint32>(ranks);
  const CallShare share = begin_call(block, args.state);
  const NormGreeting greeting = NormGreeting::of(args, 2, args.own_rows, 0);
  // Registers are scarce with as many threads as a block can have: rows and vectors are counted in
  // 32 bits, and what differs from row to row by little is computed anew for each (renewed()).
  const auto tokens = static_cast<uint32>(args.tokens);
  const auto rows = static_cast<uint32>((args.tokens + num_ranks - 1) / num_ranks);  // of an owner
  const uint64 stride = (args.max_tokens + num_ranks - 1) / num_ranks * args.row_vectors;
  const uint64 half = num_ranks * stride;
  auto now = args.slots + share.now * 2 * half;  // [source][own row]
  auto before = args.slots + share.before * 2 * half;
  const auto gathered = [&] {  // [owner][its row]
    return args.slots + (renewed(share.now) * 2 + 1) * half;
  };
  auto first_of = [&](int owner) {
    const uint32 row = rows * static_cast<uint32>(owner);
    return row < tokens ? row : tokens;
  };
  const auto row_vectors = static_cast<uint32>(args.row_vectors);
  auto at = [&](uint32 row) { return static_cast<uint64>(row) * row_vectors; };
  const auto thread = static_cast<uint32>(block.thread_idx());
  const auto threads = static_cast<uint32>(block.num_threads());
  const auto row_step = static_cast<uint32>(block.num_blocks());
  const auto first_row = static_cast<uint32>(block.block_idx());
  const bool fp8 = static_cast<bool>(renewed(args.norm.fp8_scale));
  const auto sent_vectors = [&] {  // of a gathered row
    const uint32 vectors = renewed(row_vectors);
    return args.own_rows != 0 && fp8 ? vectors / 2 : vectors;
  };

  greet<Block>(block, args.greetings + share.now * num_ranks, greeting);
  if constexpr (kSend == Send::kByPiece) {
    send_pieces<Bf16x8, 2>(block, rows, row_vectors, [&](int owner, uint32 row) -> Piece<Block> {
      const uint32 first = first_of(owner);
      return {args.input + at(first + row),
              shmem.ptr(now, owner) + (static_cast<uint32>(me) * stride + at(row)),
              row < first_of(owner + 1) - first ? row_vectors : 0};
    });
  }
  for (int k = 1; kSend == Send::kByRank && k < ranks; ++k) {
    const int owner = (me + k) % ranks;
    const uint64 end = at(first_of(owner + 1) - first_of(owner));
    auto from = args.input + at(first_of(owner));
    auto slot = shmem.ptr(now, owner) + static_cast<uint32>(me) * stride;
    send_to_slot<Bf16x8>(block, share, from, slot, end);
  }
  if (share.call > 0) {
    const uint64 last = (share.last_size + num_ranks - 1) / num_ranks * args.row_vectors;
    poison_two_hops<Bf16x8>(block, share, before, stride, last);
    clear_greetings<Block>(block, args.greetings + share.before * num_ranks);
  }
  bool good = hear_greetings<Block>(block, args.greetings + share.now * num_ranks, greeting);

  // Own rows: sum, and send what the others need.
  const uint32 own_first = first_of(me);
  const uint32 own_rows = first_of(me + 1) - own_first;
  // Where others await this rank's row.
  auto sent_row = [&](uint32 row) {
    const uint64 apart = renewed(stride);
    return renewed(args.slots +
                   ((renewed(share.now) * 2 + 1) * num_ranks + static_cast<uint32>(me)) * apart +
                   static_cast<uint64>(renewed(row)) * sent_vectors());
  };
  for (uint32 row = first_row; row < own_rows; row += row_step) {
    const auto input_row = [&] { return first_of(renewed(me)) + row; };
    const auto kept_row = [&] { return args.own_rows != 0 ? row : input_row(); };
    const auto own_slots = [&] {
      return args.slots + renewed(share.now) * 2 * num_ranks * stride + at(renewed(row));
    };
    const auto kept = [&] { return args.new_residual + at(renewed(kept_row())); };
    MadeRow made;
    for (uint32 v = thread; good && v < row_vectors; v += threads) {
      const Vec16 own = args.input[at(input_row()) + v];
      const Vec16 residual = args.residual[at(kept_row()) + v];
      float sums[Bf16x8::kElements];
      good = sum_slots<Bf16x8, kInFlight>(block, own_slots() + v, stride, own, sums);
      if (!good) {
        made.drop();
        break;
      }
      const Vec16 h = add_residual(residual, sums);
      made.keep(kept(), v, h);
      if (args.own_rows != 0) continue;
      auto sent = sent_row(row);
      const int count = renewed(ranks);
      for (int k = 1; k < count; ++k) {
        block.store(shmem.ptr(sent, (me + k) % ranks) + v, h);
      }
    }
    auto out = args.output + at(input_row()) / (fp8 ? 2 : 1);
    norm_row(block, args.norm, args.row_vectors, kept, made,
             [&](uint64 v, const float(&values)[Bf16x8::kElements], float inverse_scale) {
               store_normed<Block>(out, v, fp8, values, inverse_scale);
               if (args.own_rows == 0) return;
               auto sent = sent_row(row);
               const int count = renewed(ranks);
               for (int k = 1; k < count; ++k) {
                 auto to = shmem.ptr(sent, (me + k) % ranks);
                 if (fp8) {
                   block.store(pointer_cast<uint64>(to) + v, fp8_of(values, inverse_scale));
                 } else {
                   block.store(to + v, canonical<Bf16x8>(Bf16x8::round(values)));
                 }
               }
             });
  }

  // The others' rows: whole ones to norm, or only vectors to copy.
  if (args.own_rows != 0) {
    for (int k = 1; k < ranks; ++k) {
      const int owner = (me + ranks - k) % ranks;
      const uint64 end =
          static_cast<uint64>(first_of(owner + 1) - first_of(owner)) * sent_vectors();
      auto from = gathered() + static_cast<uint32>(owner) * stride;
      auto out = args.output + static_cast<uint64>(first_of(owner)) * sent_vectors();
      const uint64 first = static_cast<uint64>(renewed(first_row)) * threads + thread;
      for (uint64 i = first; good && i < end; i += share.step) {
        Vec16 value;
        good = block.wait_words_not(from + i, Bf16x8::kPoison, value, Where::here(), owner);
        if (good) out[i] = value;
      }
    }
    end_call<Block>(block, args.state, share.call, args.tokens, good);
    return;
  }
  // Blocks that had no own row, or one fewer, come first.
  for (uint32 p = (first_row + row_step - own_rows % row_step) % row_step;
       p < static_cast<uint32>(ranks - 1) * rows; p += row_step) {
    const int owner = (me + ranks - 1 - static_cast<int>(p / rows)) % ranks;
    const uint32 row = p % rows;
    if (row >= first_of(owner + 1) - first_of(owner)) continue;
    auto from = gathered() + (static_cast<uint32>(owner) * stride + at(row));
    const uint32 to = first_of(owner) + row;
    const auto kept = [&] { return args.new_residual + at(to); };
    MadeRow made;
    for (uint32 v = thread; good && v < row_vectors; v += threads) {
      Vec16 h;
      good = block.wait_words_not(from + v, Bf16x8::kPoison, h, Where::here(), owner);
      if (!good) {
        made.drop();
        break;
      }
      made.keep(kept(), v, h);
    }
    auto out = args.output + at(to) / (fp8 ? 2 : 1);
    norm_row(block, args.norm, args.row_vectors, kept, made,
             [&](uint64 v, const float(&values)[Bf16x8::kElements], float inverse_scale) {
               store_normed<Block>(out, v, fp8, values, inverse_scale);
             });
  }
  end_call<Block>(block, args.state, share.call, args.tokens, good);
}

}  // namespace stretto::device
