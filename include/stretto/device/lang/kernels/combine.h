// Brings the experts' results back to the tokens' ranks and adds them up: the mirror of dispatch.
//
// A rank first adds the rows of a token that it owns, weighted, in fp32, in the order of the
// token's entries; the sum goes in bf16 to the token's rank, which adds the ranks' sums in fp32 in
// rank order. One message a token and rank, and the same bits in every run.
//
// Follows its dispatch on the same stream, with the same grid on every rank and in every call.
// Slots alternate between calls, for the same reason as there.
#pragma once

#include "stretto/device/lang/kernels/experts.h"

namespace stretto::device {

template <class Block>
struct CombineArgs {
  ExpertShape shape;
  uint32 tokens;                           // of this rank
  Ptr<Block, const uint32> device_tokens;  // local: instead of `tokens` where not null
  Ptr<Block, const Vec16> rows;            // local: the experts' results, bf16 rows of `hidden`

  // What dispatch left.
  Ptr<Block, const uint32> token_slots;
  Ptr<Block, const uint32> received;
  Ptr<Block, const uint32> entry_rows;
  Ptr<Block, const float> entry_weights;

  Ptr<Block, Vec16> slots;     // symmetric: [call][owner][max_tokens] rows of `hidden`, bf16
  Ptr<Block, uint64> arrived;  // symmetric: one of each owner, zero at first
  Ptr<Block, Vec16> output;    // local: tokens x hidden, bf16
  Ptr<Block, uint64> calls;    // [num_blocks], zero at first
};

template <class Block>
class Combine {
 public:
  STRETTO_PRIMITIVE Combine(Block& block, const CombineArgs<Block>& args)
      : block_(block),
        args_(args),
        lanes_(block),
        ranks_(static_cast<uint32>(block.num_ranks())),
        me_(static_cast<uint32>(block.rank())),
        vectors_(args.shape.hidden / 8),
        chunk_(kUnroll * static_cast<uint32>(lanes_.count)),
        chunks_((vectors_ + chunk_ - 1) / chunk_),
        first_item_(static_cast<uint32>(block.block_idx() * lanes_.warps + lanes_.warp)),
        item_step_(static_cast<uint32>(block.num_blocks() * lanes_.warps)) {
    call_ = args.calls[block.block_idx()];
    half_ = call_ % 2 * ranks_;
    tokens_ = args.tokens;
    if (args.device_tokens) tokens_ = args.device_tokens[0];
    if (tokens_ > args.shape.max_tokens) tokens_ = args.shape.max_tokens;
  }

  // Sums of this rank's rows, to every source; the next rank's first.
  STRETTO_PRIMITIVE void send() {
    uint32 all = 0;
    for (uint32 r = 0; r < ranks_; ++r) {
      const uint32 of_source = args_.received[r];
      all += of_source;
    }
    for (uint32 item = first_item_; item < all * chunks_; item += item_step_) {
      uint32 slot = item / chunks_;
      uint32 source = (me_ + 1) % ranks_;
      for (;; source = (source + 1) % ranks_) {
        const uint32 of_source = args_.received[source];
        if (slot < of_source) break;
        slot -= of_source;
      }
      send_chunk(source, slot, item % chunks_ * chunk_);
    }
    block_.sync();
    for (auto i = static_cast<uint32>(block_.thread_idx()); i < ranks_;
         i += static_cast<uint32>(block_.num_threads())) {
      block_.signal(args_.arrived + me_, 1, SignalOp::kAdd,
                    static_cast<int>((me_ + 1 + i) % ranks_));
    }
  }

  STRETTO_PRIMITIVE bool wait() {
    bool failed = false;
    const uint64 arrivals = (call_ + 1) * static_cast<uint64>(block_.num_blocks());
    for (auto r = static_cast<uint32>(block_.thread_idx()); r < ranks_;
         r += static_cast<uint32>(block_.num_threads())) {
      failed = !block_.wait_until(args_.arrived + r, Compare::kGe, arrivals, Where::here(),
                                  static_cast<int>(r)) ||
               failed;
    }
    return !block_.sync_or(failed);
  }

  STRETTO_PRIMITIVE void receive() {
    for (uint32 item = first_item_; item < tokens_ * chunks_; item += item_step_) {
      receive_chunk(item / chunks_, item % chunks_ * chunk_);
    }
    block_.sync();
    if (block_.thread_idx() == 0) args_.calls[block_.block_idx()] = call_ + 1;
  }

 private:
  static constexpr uint32 kUnroll = 4;

  STRETTO_PRIMITIVE void send_chunk(uint32 source, uint32 slot, uint32 first) {
    const uint64 entries =
        (static_cast<uint64>(source) * args_.shape.max_tokens + slot) * args_.shape.top_k;
    const auto step = static_cast<uint32>(lanes_.count);
    const uint32 v = first + static_cast<uint32>(lanes_.lane);
    float sums[kUnroll][8] = {};
    for (uint32 j = 0; j < args_.shape.top_k; ++j) {
      const uint32 row = args_.entry_rows[entries + j];
      if (row == kNone) continue;
      const float weight = args_.entry_weights[entries + j];
      auto from = args_.rows + static_cast<uint64>(row) * vectors_;
      Vec16 values[kUnroll];
      STRETTO_UNROLL for (uint32 u = 0; u < kUnroll; ++u) {
        if (v + u * step < vectors_) values[u] = from[v + u * step];
      }
      STRETTO_UNROLL for (uint32 u = 0; u < kUnroll; ++u) {
        float value[8] = {};
        if (v + u * step < vectors_) Bf16x8::add(value, values[u]);
        STRETTO_UNROLL for (int i = 0; i < 8; ++i) sums[u][i] += weight * value[i];
      }
    }
    auto to = block_.peer(args_.slots, static_cast<int>(source)) +
              ((half_ + me_) * args_.shape.max_tokens + slot) * vectors_;
    STRETTO_UNROLL for (uint32 u = 0; u < kUnroll; ++u) {
      if (v + u * step < vectors_) to[v + u * step] = Bf16x8::round(sums[u]);
    }
  }

  STRETTO_PRIMITIVE void receive_chunk(uint32 token, uint32 first) {
    const auto step = static_cast<uint32>(lanes_.count);
    const uint32 v = first + static_cast<uint32>(lanes_.lane);
    float sums[kUnroll][8] = {};
    for (uint32 r = 0; r < ranks_; ++r) {
      const uint32 slot = args_.token_slots[static_cast<uint64>(token) * ranks_ + r];
      if (slot == kNone) continue;
      auto from = args_.slots + ((half_ + r) * args_.shape.max_tokens + slot) * vectors_;
      Vec16 values[kUnroll];
      STRETTO_UNROLL for (uint32 u = 0; u < kUnroll; ++u) {
        if (v + u * step < vectors_) values[u] = from[v + u * step];
      }
      STRETTO_UNROLL for (uint32 u = 0; u < kUnroll; ++u) {
        if (v + u * step < vectors_) Bf16x8::add(sums[u], values[u]);
      }
    }
    STRETTO_UNROLL for (uint32 u = 0; u < kUnroll; ++u) {
      if (v + u * step < vectors_) {
        args_.output[static_cast<uint64>(token) * vectors_ + v + u * step] = Bf16x8::round(sums[u]);
      }
    }
  }

  Block& block_;
  const CombineArgs<Block>& args_;
  Lanes lanes_;
  uint32 ranks_, me_;
  uint32 vectors_, chunk_, chunks_;
  uint32 first_item_, item_step_;
  uint64 call_, half_;
  uint32 tokens_;
};

template <class Block>
STRETTO_KERNEL void combine(Block& block, const CombineArgs<Block>& args) {
  Combine<Block> work(block, args);
  work.send();
  if (work.wait()) work.receive();
}

}  // namespace stretto::device
