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

#include "stretto/device/lang/kernels/norm.h"
#include "stretto/device/lang/kernels/norm_greeting.h"
#include "stretto/device/lang/kernels/slots.h"

namespace stretto::device {

// As many as leave a thread of a block of that size enough registers. With more ranks than in
// flight a thread takes two turns; with fewer it has registers left.
STRETTO_HOST_DEVICE int norm_in_flight(int ranks, int threads, bool hopper) {
  if (!hopper && threads > 640) return 2;
  const int widest = hopper ? 640 : 512;
  return ranks <= 4 || threads > widest ? 4 : 8;
}

template <class Block>
struct AllReduceNormArgs {
  Ptr<Block, const Vec16> input;     // local: tokens x row_vectors
  Ptr<Block, const Vec16> residual;  // local: the same
  Ptr<Block, Vec16> new_residual;    // local, like `residual`, may be it
  Ptr<Block, Vec16> output;          // local: tokens x row_vectors, half of that in fp8
  NormArgs<Block> norm;
  uint64 tokens;
  uint64 row_vectors;           // even in fp8
  uint64 max_tokens;            // of any call
  Ptr<Block, Vec16> slots;      // symmetric, poisoned at first: 2 x ranks x max_tokens rows;
                                // two-shot: 2 x 2 x ranks x ceil(max_tokens / ranks) rows
  Ptr<Block, Vec16> greetings;  // symmetric, kNoGreeting at first: 3 x ranks
  Ptr<Block, uint64> state;     // local: num_blocks, zero at first
};

// Each rank keeps the residual of its own rows: `residual` and `new_residual` are those only.
template <class Block>
struct OwnRowsNormArgs : AllReduceNormArgs<Block> {};

template <class Block, int kInFlight = kBatch>
STRETTO_KERNEL void all_reduce_norm_one_shot(Block& block, const AllReduceNormArgs<Block>& args) {
  const auto num_ranks = static_cast<uint64>(block.num_ranks());
  const auto row_vectors = static_cast<uint32>(args.row_vectors);
  const auto tokens = static_cast<uint32>(args.tokens);
  const auto thread = static_cast<uint32>(block.thread_idx());
  const auto threads = static_cast<uint32>(block.num_threads());
  const uint32 count = tokens * row_vectors;
  const ThreadShare share = ThreadShare::of(block);
  Vec16 next = {};
  if (share.first < count) next = args.input[share.first];
  const CallShare call = begin_call(block, args.state);
  const NormGreeting greeting = NormGreeting::of(args, 1, 0, 0);
  const uint64 stride = args.max_tokens * row_vectors;
  auto now = args.slots + call.parity * num_ranks * stride;  // [source][row]

  greet<Block>(block, args.greetings + call.now * num_ranks, greeting);
  auto slot = now + static_cast<uint64>(block.rank()) * stride;
  for (uint32 i = share.first; i < count; i += share.step) {
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
      const Vec16 own = args.input[at + v];
      const Vec16 residual = args.residual[at + v];
      float sums[Bf16x8::kElements];
      good = sum_slots<Bf16x8, kInFlight>(block, now + (at + v), stride, own, sums);
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
  end_call<Block>(block, args.state, call.call, good);
}

// The two-shot kernel after its first hop.
template <class Block, int kInFlight, bool kOwnRows>
class TwoShotNorm {
 public:
  STRETTO_PRIMITIVE TwoShotNorm(Block& block, const AllReduceNormArgs<Block>& args, uint32 rows,
                                uint64 stride, Ptr<Block, Vec16> slots)
      : block_(block),
        args_(args),
        rows_(rows),
        row_vectors_(static_cast<uint32>(args.row_vectors)),
        parts_{rows * row_vectors_, static_cast<uint32>(args.tokens) * row_vectors_},
        stride_(stride),
        slots_(slots),
        fp8_(static_cast<bool>(args.norm.fp8_scale)) {}

  // Own rows by all warps: summed and sent to whoever norms them, a block of this rank too.
  STRETTO_PRIMITIVE bool sum_own(const ThreadShare& share) {
    const int me = block_.rank();
    const uint32 first = parts_.first(me);
    const uint32 end = parts_.size_of(me);
    const uint32 kept = kOwnRows ? 0 : first;
    for (uint32 i = share.first; i < end; i += share.step) {
      const Vec16 own = args_.input[first + i];
      const Vec16 residual = args_.residual[kept + i];
      float sums[Bf16x8::kElements];
      if (!sum_slots<Bf16x8, kInFlight>(block_, slots_ + i, stride_, own, sums)) return false;
      const Vec16 h = add_residual(residual, sums);
      auto slot = gathered(me) + i;
      if (!kOwnRows) send_to_others<Block>(block_, slot, h);
      block_.store(slot, h);
      args_.new_residual[kept + i] = h;
    }
    return true;
  }
  // Whole rows by blocks, all of them, the first of each owner first; or the own ones only, whose
  // norms go to the others.
  STRETTO_PRIMITIVE bool norm_rows(bool good) {
    const uint32 ranks = kOwnRows ? 1 : static_cast<uint32>(block_.num_ranks());
    for (auto p = static_cast<uint32>(block_.block_idx()); p < rows_ * ranks;
         p += static_cast<uint32>(block_.num_blocks())) {
      const uint32 row = p / ranks;
      const int owner = kOwnRows ? block_.rank() : static_cast<int>(p - row * ranks);
      const uint32 i = row * row_vectors_;
      if (!parts_.has(owner, i)) continue;
      auto from = gathered(owner) + i;
      MadeRow made;
      for (auto v = static_cast<uint32>(block_.thread_idx()); good && v < row_vectors_;
           v += static_cast<uint32>(block_.num_threads())) {
        Vec16 h;
        good = block_.wait_words_not(from + v, Bf16x8::kPoison, h, Where::here(), owner,
                                     Patience::kLonger);
        if (!good) {
          made.drop();
          break;
        }
        if (owner != block_.rank()) args_.new_residual[parts_.first(owner) + i + v] = h;
        made.add(v, h);
      }
      const auto again = [&](uint32 v) -> Vec16 { return block_.load(from + v); };
      norm_row(block_, args_.norm, row_vectors_, again, made,
               [&](uint32 v, const float(&values)[Bf16x8::kElements], float inverse_scale) {
                 block_.store(from + v, four_of(Bf16x8::kPoison));
                 auto out = args_.output + (parts_.first(owner) + i) / (fp8_ ? 2 : 1);
                 store_normed<Block>(out, v, fp8_, values, inverse_scale);
                 if (kOwnRows) send_normed(i, v, values, inverse_scale);
               });
    }
    return good;
  }
  // The others' rows by all warps, normed already.
  STRETTO_PRIMITIVE bool take_rows(const ThreadShare& share) {
    constexpr int kTaken = kInFlight / 2;
    const int ranks = block_.num_ranks();
    const uint32 shrink = fp8_ ? 2 : 1;
    const Parts sent{parts_.size / shrink, parts_.total / shrink};
    for (uint32 i = share.first; i < sent.size; i += share.step) {
      for (int base = 0; base < ranks; base += kTaken) {
        Vec16 values[kTaken];
        const int most = ranks - base < kTaken ? ranks - base : kTaken;
        const int count = sent.having(base, most, i);
        const int skip = block_.rank() - base;
        if (!take_slots<Bf16x8>(block_, gathered(base) + i, stride_, count, skip, values, base,
                                Patience::kLonger)) {
          return false;
        }
        STRETTO_UNROLL for (int j = 0; j < kTaken; ++j) {
          if (j < count && j != skip) args_.output[sent.first(base + j) + i] = values[j];
        }
      }
    }
    return true;
  }

 private:
  STRETTO_PRIMITIVE void send_normed(uint32 i, uint32 v, const float (&values)[Bf16x8::kElements],
                                     float inverse_scale) {
    auto sent = gathered(block_.rank()) + i / (fp8_ ? 2 : 1);
    if (!fp8_) {
      send_to_others<Block>(block_, sent + v, canonical<Bf16x8>(Bf16x8::round(values)));
      return;
    }
    const uint64 bytes = fp8_of(values, inverse_scale);
    const int ranks = block_.num_ranks();
    for (int k = 1; k < ranks; ++k) {
      auto to = block_.peer(sent, rank_after(block_.rank(), k, ranks));
      block_.store(pointer_cast<uint64>(to) + v, bytes);
    }
  }
  // [owner][its row]: sums, or norms where owners norm.
  STRETTO_PRIMITIVE Ptr<Block, Vec16> gathered(int owner) const {
    return slots_ +
           static_cast<uint32>(block_.num_ranks() + owner) * renewed_before_hopper(stride_);
  }

  Block& block_;
  const AllReduceNormArgs<Block>& args_;
  uint32 rows_;  // of an owner
  uint32 row_vectors_;
  Parts parts_;
  uint64 stride_;            // of a rank's slots
  Ptr<Block, Vec16> slots_;  // of the first hop: [source][own row]; then of the second
  bool fp8_;
};

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
