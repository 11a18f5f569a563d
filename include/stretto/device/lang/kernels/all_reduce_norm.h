// All-reduce, residual and RMSNorm in one kernel, by sentinels (slots.h).
//
//   h = residual + sum over ranks of input, in fp32 in rank order, rounded once to bf16
//   output = norm(h) * weight
//
// One-shot for few tokens: everyone sends all rows to everyone, and norms all of them. Two-shot for
// more: rank r owns rows [r, r + 1) x ceil(tokens / ranks) and sums them. With the residual on all
// ranks it sends h, and everyone norms; with the residual kept by its owner (own_rows) it norms and
// sends the output, in fp8 when that is asked for.
//
// A block norms whole rows: best with as many threads as a row has vectors. What need not be done
// by rows is shared out to all warps (ThreadShare), so more blocks than rows are of use. kInFlight,
// the vectors whose loads a thread has in flight: norm_in_flight().
#pragma once

#include "stretto/device/lang/kernels/all_reduce_norm_args.h"
#include "stretto/device/lang/kernels/norm_greeting.h"
#include "stretto/device/lang/kernels/slots.h"
#include "stretto/device/lang/kernels/two_shot_norm.h"

namespace stretto::device {

template <class Block, int kInFlight = kBatch, SentBy kSentBy = SentBy::kThis>
STRETTO_KERNEL void all_reduce_norm_one_shot(Block& block, const AllReduceNormArgs<Block>& args) {
  const auto num_ranks = static_cast<uint64>(block.num_ranks());
  const auto row_vectors = static_cast<uint32>(args.row_vectors);
  const auto tokens = static_cast<uint32>(args.tokens);
  const auto thread = static_cast<uint32>(block.thread_idx());
  const auto threads = static_cast<uint32>(block.num_threads());
  const uint32 count = tokens * row_vectors;
  const ThreadShare share = ThreadShare::of(block);
  constexpr bool kSends = kSentBy == SentBy::kThis;
  Vec16 next = {};
  if (kSends && share.first < count) next = args.input[share.first];
  const CallShare call = begin_call<Block, kSentBy>(block, args.state);
  const NormGreeting greeting = NormGreeting::of(args, 1, 0, 0);
  const uint64 stride = args.max_tokens * row_vectors;
  auto now = args.slots + call.parity * num_ranks * stride;  // [source][row]

  greet<Block>(block, args.greetings + call.now * num_ranks, greeting);
  auto slot = now + static_cast<uint64>(block.rank()) * stride;
  for (uint32 i = share.first; kSends && i < count; i += share.step) {
    const Vec16 own = canonical<Bf16x8>(next);
    if (i + share.step < count) next = args.input[i + share.step];
    send_to_others<Block>(block, slot + i, own);
  }
  if (call.call > 0) clear_greetings<Block>(block, args.greetings + call.before * num_ranks);
  const auto first_row = static_cast<uint32>(block.block_idx());
  if (first_row < tokens) prefetch_weights(block, args.norm, row_vectors);
  bool good = hear_greetings<Block>(block, args.greetings + call.now * num_ranks, greeting);
  const bool fp8 = static_cast<bool>(args.norm.fp8_scale);
  for (uint32 row = first_row; row < tokens; row += static_cast<uint32>(block.num_blocks())) {
    const uint32 at = row * row_vectors;
    MadeRow made;
    for (uint32 v = thread; good && v < row_vectors; v += threads) {
      Vec16 own = {};
      if (kSends) own = args.input[at + v];
      const Vec16 residual = args.residual[at + v];
      float sums[Bf16x8::kElements];
      good = sum_slots<Bf16x8, kInFlight, kSentBy>(block, now + (at + v), stride, own, sums);
      if (!good) {
        made.drop();
        break;
      }
      const Vec16 h = add_residual(residual, sums);
      args.new_residual[at + v] = h;
      made.add(v, h);
    }
    const auto kept = [&](uint32 v) -> Vec16 { return args.new_residual[at + v]; };
    auto out = args.output + at / (fp8 ? 2 : 1);
    norm_row(block, args.norm, row_vectors, kept, made,
             [&](uint32 v, const float(&values)[Bf16x8::kElements], float inverse_scale) {
               store_normed<Block>(out, v, fp8, values, inverse_scale);
             });
  }
  end_call<Block, kSentBy>(block, args.state, call.call, good);
}

template <bool kOwnRows, int kInFlight, class Block>
STRETTO_PRIMITIVE void norm_by_two_shots(Block& block, const AllReduceNormArgs<Block>& args) {
  const auto num_ranks = static_cast<uint32>(block.num_ranks());
  const auto row_vectors = static_cast<uint32>(args.row_vectors);
  const auto tokens = static_cast<uint32>(args.tokens);
  const uint32 rows = (tokens + num_ranks - 1) / num_ranks;
  const Parts parts{rows * row_vectors, tokens * row_vectors};
  const ThreadShare share = ThreadShare::of(block);
  PartSender<Bf16x8, kInFlight, Block> sender(block, parts, args.input, share.first);
  const CallShare call = begin_call(block, args.state);
  const NormGreeting greeting = NormGreeting::of(args, 2, kOwnRows ? 1 : 0, 0);
  const uint32 max_rows = (static_cast<uint32>(args.max_tokens) + num_ranks - 1) / num_ranks;
  const uint64 stride = static_cast<uint64>(max_rows) * row_vectors;
  auto slots = args.slots + call.parity * 2 * num_ranks * stride;

  greet<Block>(block, args.greetings + call.now * num_ranks, greeting);
  sender.send(slots + static_cast<uint32>(block.rank()) * stride, share.first, share.step);
  if (call.call > 0) clear_greetings<Block>(block, args.greetings + call.before * num_ranks);
  prefetch_weights(block, args.norm, row_vectors);
  bool good = hear_greetings<Block>(block, args.greetings + call.now * num_ranks, greeting);
  TwoShotNorm<Block, kInFlight, kOwnRows> rest(block, args, rows, stride, slots);
  good = rest.norm_rows(good && rest.sum_own(share));
  if constexpr (kOwnRows) good = good && rest.take_rows(share);
  end_call<Block>(block, args.state, call.call, good);
}

template <class Block, int kInFlight = kBatch>
STRETTO_KERNEL void all_reduce_norm_two_shot(Block& block, const AllReduceNormArgs<Block>& args) {
  norm_by_two_shots<false, kInFlight>(block, args);
}

template <class Block, int kInFlight = kBatch>
STRETTO_KERNEL void all_reduce_norm_own_rows(Block& block, const OwnRowsNormArgs<Block>& args) {
  norm_by_two_shots<true, kInFlight, Block>(block, args);
}

}  // namespace stretto::device
