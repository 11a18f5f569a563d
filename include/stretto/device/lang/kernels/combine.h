// Brings the experts' results back to the tokens' ranks and adds them up: the mirror of dispatch.
//
// A rank first adds the rows of a token that it owns, weighted, in fp32, in the order of the
// token's entries; the sum goes in bf16 to the token's rank, which adds the ranks' sums in fp32 in
// rank order. One message a token and rank, and the same bits in every run.
//
// Follows its dispatch on the same stream, with the same grid on every rank and in every call, all
// blocks resident. Units and parts are those of the dispatch; slots alternate between calls.
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
  Ptr<Block, const uint64> part_list;
  Ptr<Block, const uint32> entry_rows;
  Ptr<Block, const float> entry_weights;

  Ptr<Block, Vec16> slots;     // symmetric: [call][owner][max_tokens] rows of `hidden`, bf16
  Ptr<Block, uint64> signals;  // symmetric: expert_signals(), zero at first
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
        units_(Units::of(args.shape, static_cast<uint32>(block.num_blocks()),
                         static_cast<uint32>(block.block_idx()))),
        call_(args.calls[block.block_idx()]),
        half_(call_ % 2 * ranks_),
        signals_(block, args.signals, units_, call_) {}

  // Sums of the rows that came from this unit of each rank, back to it. False when a rank did not
  // come.
  STRETTO_PRIMITIVE bool send() {
    if (!units_.sends) return true;
    if (block_.sync_or(!signals_.wait_emptied())) return false;
    bool more = true;
    for (uint32 part = 0; more; ++part) {
      uint32 all = 0;
      more = false;
      for (uint32 r = 0; r < ranks_; ++r) {
        const PartRecord record = record_of(r, part);
        all += record.count;
        more = more || !record.last;
      }
      for (auto item = static_cast<uint32>(lanes_.warp); item < all * chunks_;
           item += static_cast<uint32>(lanes_.warps)) {
        uint32 place = item / chunks_;
        uint32 source = (me_ + 1) % ranks_;
        for (;; source = (source + 1) % ranks_) {
          const PartRecord record = record_of(source, part);
          if (place < record.count) {
            place += record.first;
            break;
          }
          place -= record.count;
        }
        send_chunk(source, place, item % chunks_ * chunk_);
      }
      block_.sync();
      for (auto i = static_cast<uint32>(block_.thread_idx()); i < ranks_;
           i += static_cast<uint32>(block_.num_threads())) {
        const uint32 to = signals_.next(i);
        if (part > 0 && record_of(to, part - 1).last) continue;
        signals_.tell_part(part, record_of(to, part).last, to);
      }
    }
    return true;
  }

  STRETTO_PRIMITIVE bool receive() {
    if (!units_.takes) return true;
    signals_.tell_emptied();
    uint32 tokens = args_.tokens;
    if (args_.device_tokens) tokens = args_.device_tokens[0];
    if (tokens > args_.shape.max_tokens) tokens = args_.shape.max_tokens;
    const UnitTokens own = UnitTokens::of(tokens, units_);
    for (uint32 part = 0; part < own.parts; ++part) {
      bool failed = false;
      for (auto r = static_cast<uint32>(block_.thread_idx()); r < ranks_;
           r += static_cast<uint32>(block_.num_threads())) {
        failed = !signals_.wait_part(part, r) || failed;
      }
      if (block_.sync_or(failed)) return false;
      const uint32 first = own.first_of(part);
      const uint32 items = (own.first_of(part + 1) - first) * chunks_;
      for (auto item = static_cast<uint32>(lanes_.warp); item < items;
           item += static_cast<uint32>(lanes_.warps)) {
        receive_chunk(first + item / chunks_, item % chunks_ * chunk_);
      }
    }
    return true;
  }

  STRETTO_PRIMITIVE void end() {
    block_.sync();
    if (block_.thread_idx() == 0) args_.calls[block_.block_idx()] = call_ + 1;
  }

 private:
  static constexpr uint32 kUnroll = 4;

  STRETTO_PRIMITIVE PartRecord record_of(uint32 source, uint32 part) const {
    const uint64 at = (static_cast<uint64>(source) * units_.count + units_.index) * kParts + part;
    const uint64 record = args_.part_list[at];
    return PartRecord::from(record);
  }

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
  Units units_;
  uint64 call_, half_;
  ExpertSignals<Block> signals_;
};

template <class Block>
STRETTO_KERNEL void combine(Block& block, const CombineArgs<Block>& args) {
  Combine<Block> work(block, args);
  if (work.send() && work.receive()) work.end();
}

}  // namespace stretto::device
