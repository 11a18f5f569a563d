// Reduce-scatter, residual, RMSNorm and all-gather in one kernel (TokenWeave's, by unicast), for
// many tokens and a set number of blocks: the grid is the whole SM budget.
//
// Rank r owns rows [r, r + 1) x ceil(tokens / ranks) of the sum and keeps their residual. Rows go
// to their owner chunk by chunk, are summed in fp32 in rank order and normed there, and the result
// is stored once to every rank. Block b of a rank works with block b of the others only.
//
// One set of slots is enough: who begins the next call has `done` from every owner, and an owner
// signals it after it has read the chunk's slots. The output may be stored into for call e + 1 only
// after all have sent their rows of it, hence after their consumers of call e.
#pragma once

#include "stretto/device/lang/kernels/norm.h"
#include "stretto/device/lang/kernels/norm_greeting.h"
#include "stretto/device/lang/kernels/slots.h"

namespace stretto::device {

template <class Block>
struct ScatterNormGatherArgs {
  Ptr<Block, const Vec16> input;     // local: tokens x row_vectors
  Ptr<Block, const Vec16> residual;  // local: the own rows
  Ptr<Block, Vec16> new_residual;    // local: the own rows, may be `residual`
  Ptr<Block, Vec16> output;          // symmetric: tokens x row_vectors, half of that in fp8
  NormArgs<Block> norm;
  uint64 tokens;
  uint64 row_vectors;
  uint64 max_tokens;
  uint64 rows_per_chunk;        // at least 1
  Ptr<Block, Vec16> slots;      // symmetric: ranks x ceil(max_tokens / ranks) rows
  Ptr<Block, uint64> arrived;   // symmetric, zero at first: ranks x max_chunks(), then
  Ptr<Block, uint64> done;      // the same
  Ptr<Block, Vec16> greetings;  // symmetric, kNoGreeting at first: 3 x ranks
  Ptr<Block, uint64> state;     // local: num_blocks, zero at first
};

// Of an owner, for arguments that are the same on all ranks.
template <class Args>
STRETTO_HOST_DEVICE uint64 max_chunks(const Args& args, uint64 ranks) {
  const uint64 rows = (args.max_tokens + ranks - 1) / ranks;
  return (rows + args.rows_per_chunk - 1) / args.rows_per_chunk;
}

template <class Block>
class ScatterNormGather {
 public:
  STRETTO_PRIMITIVE ScatterNormGather(Block& block, const ScatterNormGatherArgs<Block>& args,
                                      uint64 epoch)
      : block_(block),
        args_(args),
        epoch_(epoch),
        ranks_(block.num_ranks()),
        me_(block.rank()),
        stride_((args.max_tokens + static_cast<uint64>(ranks_) - 1) / static_cast<uint64>(ranks_) *
                args.row_vectors),
        chunks_(max_chunks(args, static_cast<uint64>(ranks_))),
        rows_((args.tokens + static_cast<uint64>(ranks_) - 1) / static_cast<uint64>(ranks_)) {}

  STRETTO_PRIMITIVE uint64 num_chunks() const {
    return (rows_ + args_.rows_per_chunk - 1) / args_.rows_per_chunk;
  }

  // This rank's rows of the chunk go to every owner; each is told once all are on their way.
  STRETTO_PRIMITIVE void send(uint64 chunk) {
    for (int k = 1; k < ranks_; ++k) {
      const int owner = (me_ + k) % ranks_;
      const uint64 first = first_row(owner, chunk);
      const uint64 bytes = num_rows(owner, chunk) * args_.row_vectors * sizeof(Vec16);
      block_.put(args_.slots + (static_cast<uint64>(me_) * stride_ +
                                chunk * args_.rows_per_chunk * args_.row_vectors),
                 args_.input + first * args_.row_vectors, bytes, owner, Group::kBlock, true);
    }
    block_.sync();
    signal_all(args_.arrived, chunk, false);
  }

  // Own rows of the chunk: sums, residual, norm, and the result to everyone.
  STRETTO_PRIMITIVE bool norm(uint64 chunk) {
    if (num_rows(me_, chunk) == 0) return true;
    if (!wait_all(args_.arrived, chunk)) return false;
    const bool fp8 = static_cast<bool>(args_.norm.fp8_scale);
    const auto begin = static_cast<uint64>(block_.thread_idx());
    const auto step = static_cast<uint64>(block_.num_threads());
    for (uint64 j = 0; j < num_rows(me_, chunk); ++j) {
      const uint64 own = chunk * args_.rows_per_chunk + j;
      const uint64 row = first_row(me_, chunk) + j;
      auto kept = args_.new_residual + own * args_.row_vectors;
      MadeRow made;
      for (uint64 v = begin; v < args_.row_vectors; v += step) {
        const Vec16 residual = args_.residual[own * args_.row_vectors + v];
        float sums[Bf16x8::kElements];
        sum_row(row, own * args_.row_vectors + v, v, sums);
        const Vec16 h = add_residual(residual, sums);
        kept[v] = h;
        made.add(static_cast<uint32>(v), h);
      }
      auto out = args_.output + row * args_.row_vectors / (fp8 ? 2 : 1);
      norm_row(
          block_, args_.norm, args_.row_vectors, [&](uint32 v) -> Vec16 { return kept[v]; }, made,
          [&](uint64 v, const float(&values)[Bf16x8::kElements], float inverse_scale) {
            for (int k = 1; k <= ranks_; ++k) {
              store_normed<Block>(block_.peer(out, (me_ + k) % ranks_), v, fp8, values,
                                  inverse_scale);
            }
          });
    }
    block_.sync();
    signal_all(args_.done, chunk, true);
    return true;
  }

  // The chunk of every owner is in this rank's output.
  STRETTO_PRIMITIVE bool await_output(uint64 chunk) { return wait_all(args_.done, chunk, true); }

 private:
  STRETTO_PRIMITIVE uint64 begin_of(int owner) const {
    const uint64 row = rows_ * static_cast<uint64>(owner);
    return row < args_.tokens ? row : args_.tokens;
  }
  STRETTO_PRIMITIVE uint64 first_row(int owner, uint64 chunk) const {
    const uint64 row = begin_of(owner) + chunk * args_.rows_per_chunk;
    return row < begin_of(owner + 1) ? row : begin_of(owner + 1);
  }
  STRETTO_PRIMITIVE uint64 num_rows(int owner, uint64 chunk) const {
    return first_row(owner, chunk + 1) - first_row(owner, chunk);
  }

  STRETTO_PRIMITIVE void sum_row(uint64 row, uint64 slot, uint64 v,
                                 float (&sums)[Bf16x8::kElements]) {
    STRETTO_UNROLL for (float& sum : sums) sum = 0;
    const Vec16 own = args_.input[row * args_.row_vectors + v];
    for (int base = 0; base < ranks_; base += kBatch) {
      Vec16 values[kBatch];
      STRETTO_UNROLL for (int j = 0; j < kBatch; ++j) {
        const int r = base + j;
        if (r < ranks_ && r != me_) {
          values[j] = args_.slots[static_cast<uint64>(r) * stride_ + slot];
        }
      }
      STRETTO_UNROLL for (int j = 0; j < kBatch; ++j) {
        if (base + j == me_) values[j] = own;
        if (base + j < ranks_) Bf16x8::add(sums, values[j]);
      }
    }
  }

  // Each rank has a row of signals, one a chunk; rank r's is written by r only.
  STRETTO_PRIMITIVE void signal_all(Ptr<Block, uint64> signals, uint64 chunk, bool empty_too) {
    for (int k = 1 + block_.thread_idx(); k < ranks_; k += block_.num_threads()) {
      const int to = (me_ + k) % ranks_;
      if (!empty_too && num_rows(to, chunk) == 0) continue;
      block_.signal(signals + (static_cast<uint64>(me_) * chunks_ + chunk), epoch_, SignalOp::kSet,
                    to);
    }
  }
  STRETTO_PRIMITIVE bool wait_all(Ptr<Block, uint64> signals, uint64 chunk, bool owners = false) {
    bool failed = false;
    for (int r = block_.thread_idx(); r < ranks_; r += block_.num_threads()) {
      if (r == me_ || (owners && num_rows(r, chunk) == 0)) continue;
      failed = failed || !block_.wait_until(signals + (static_cast<uint64>(r) * chunks_ + chunk),
                                            Compare::kGe, epoch_, Where::here(), r,
                                            owners ? Patience::kLonger : Patience::kUsual);
    }
    return !block_.sync_or(failed);
  }

  Block& block_;
  const ScatterNormGatherArgs<Block>& args_;
  uint64 epoch_;
  int ranks_;
  int me_;
  uint64 stride_;
  uint64 chunks_;
  uint64 rows_;
};

template <class Block>
STRETTO_KERNEL void scatter_norm_gather(Block& block, const ScatterNormGatherArgs<Block>& args) {
  const auto num_ranks = static_cast<uint64>(block.num_ranks());
  const CallShare share = begin_call(block, args.state);
  const NormGreeting greeting =
      NormGreeting::of(args, 0, 1, static_cast<uint32>(args.rows_per_chunk));
  greet<Block>(block, args.greetings + share.now * num_ranks, greeting);
  if (share.call > 0) clear_greetings<Block>(block, args.greetings + share.before * num_ranks);
  bool good = !block.sync_or(
      !hear_greetings<Block>(block, args.greetings + share.now * num_ranks, greeting));

  ScatterNormGather<Block> work(block, args, share.call + 1);
  const auto first = static_cast<uint64>(block.block_idx());
  const auto step = static_cast<uint64>(block.num_blocks());
  const uint64 chunks = work.num_chunks();
  // A chunk is sent while the one before it is on its way here.
  for (uint64 chunk = first; good && chunk < chunks + step; chunk += step) {
    if (chunk < chunks) work.send(chunk);
    if (chunk >= first + step && chunk - step < chunks) good = work.norm(chunk - step);
  }
  for (uint64 chunk = first; good && chunk < chunks; chunk += step) {
    good = work.await_output(chunk);
  }
  end_call<Block>(block, args.state, share.call, good);
}

}  // namespace stretto::device
