// Brings the experts' results back to the tokens' ranks and adds them up: the mirror of dispatch.
//
// A rank first adds the rows of a token that it owns, weighted, in fp32, in the order of the
// token's entries; the sum goes in bf16 to the token's rank, which adds the ranks' sums in fp32 in
// rank order. One message a token and rank, and the same bits in every run.
//
// Follows its dispatch on the same stream, with the same shape and the same grid on every rank and
// in every call, all blocks resident, and combine_shared_bytes() of shared memory. What it is
// called with is compared with what all ranks have agreed on in the dispatch, so it costs no
// message. Units are those of the dispatch, all blocks of one sending and then taking; slots
// alternate between calls.
#pragma once

#include "stretto/device/lang/kernels/experts.h"
#include "stretto/device/sums.h"

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
  Ptr<Block, const uint32> agreed;
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
        calls_(args.calls[block.block_idx()]),
        call_(BlockCalls::of(calls_)),
        half_(call_ % 2 * ranks_),
        signals_{units_, ranks_},
        first_item_(units_.worker * static_cast<uint32>(lanes_.warps) +
                    static_cast<uint32>(lanes_.warp)),
        item_step_(units_.workers * static_cast<uint32>(lanes_.warps)),
        thread_(static_cast<uint32>(block.thread_idx())),
        threads_(static_cast<uint32>(block.num_threads())),
        firsts_(shared<uint32>(block, 0)),
        counts_(firsts_ + ranks_) {}

  // False for a block that no unit has.
  STRETTO_PRIMITIVE bool works() const { return units_.worker < units_.workers; }

  // Sums of the rows that came from this unit of each rank, back to it; the next rank's first.
  // False when the dispatch was of something else, or the calls before had another grid.
  STRETTO_PRIMITIVE bool send() {
    if (!BlockCalls::same_grid(block_, calls_)) return false;
    const bool same = as_dispatched();
    for (uint32 r = thread_; r < ranks_; r += threads_) {
      const uint64 at = units_.first_listed(r, ranks_);
      uint32 count = 0;
      STRETTO_UNROLL for (uint32 part = 0; part < kParts; ++part) {
        const uint64 record = args_.part_list[at + part];
        if (part == 0) firsts_[r] = PartRecord::from(record).first;
        count += PartRecord::from(record).count;
      }
      counts_[r] = count;
    }
    if (block_.sync_or(!same)) return false;
    uint32 all = 0;
    for (uint32 r = 0; r < ranks_; ++r) {
      const uint32 count = counts_[r];
      all += count;
    }
    for (uint32 item = first_item_; item < all * chunks_; item += item_step_) {
      uint32 place = item / chunks_;
      uint32 source = (me_ + 1) % ranks_;
      for (;; source = (source + 1) % ranks_) {
        const uint32 count = counts_[source];
        if (place < count) break;
        place -= count;
      }
      const uint32 first = firsts_[source];
      send_chunk(source, first + place, item % chunks_ * chunk_);
    }
    block_.sync();
    for (uint32 i = thread_; i < ranks_; i += threads_) {
      block_.signal(args_.signals + signals_.part_of(me_), 1, SignalOp::kAdd,
                    static_cast<int>((me_ + 1 + i) % ranks_));
    }
    return true;
  }

  // False when a rank did not come.
  STRETTO_PRIMITIVE bool receive() {
    uint32 tokens = args_.tokens;
    if (args_.device_tokens) tokens = args_.device_tokens[0];
    if (tokens > args_.shape.max_tokens) tokens = args_.shape.max_tokens;
    const UnitTokens own = UnitTokens::of(tokens, units_);
    bool failed = false;
    for (uint32 r = thread_; r < ranks_; r += threads_) {
      failed =
          !block_.wait_until(args_.signals + signals_.part_of(r), Compare::kGe,
                             (call_ + 1) * units_.workers, Where::here(), static_cast<int>(r)) ||
          failed;
    }
    if (block_.sync_or(failed)) return false;
    const uint32 items = (own.end - own.begin) * chunks_;
    for (uint32 item = first_item_; item < items; item += item_step_) {
      receive_chunk(own.begin + item / chunks_, item % chunks_ * chunk_);
    }
    return true;
  }

  STRETTO_PRIMITIVE void end() {
    block_.sync();
    if (block_.thread_idx() == 0) {
      args_.calls[block_.block_idx()] =
          BlockCalls::pack(call_ + 1, static_cast<uint32>(block_.num_blocks()));
    }
  }

 private:
  static constexpr uint32 kUnroll = 4;

  // What this thread looks at of it.
  STRETTO_PRIMITIVE bool as_dispatched() {
    bool same = true;
    for (uint32 i = thread_; i < kSameWords; i += threads_) {
      const uint32 own = same_word(args_.shape, static_cast<uint32>(block_.num_blocks()), i);
      const uint32 dispatched = args_.agreed[i];
      if (own == dispatched) continue;
      block_.disagree(static_cast<int>(me_), name_of_same(i), i, own, dispatched);
      same = false;
    }
    return same;
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
      Vec16 values[kUnroll] = {};
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
    float sums[kUnroll * 8] = {};
    for (uint32 r = 0; r < ranks_; ++r) {
      const uint32 slot = args_.token_slots[static_cast<uint64>(token) * ranks_ + r];
      if (slot == kNone) continue;
      auto from = args_.slots + ((half_ + r) * args_.shape.max_tokens + slot) * vectors_;
      add_source<Bf16x8, kUnroll>(
          [&](uint32 u) -> Vec16 {
            Vec16 value = {};
            if (v + u * step < vectors_) value = from[v + u * step];
            return value;
          },
          sums);
    }
    STRETTO_UNROLL for (uint32 u = 0; u < kUnroll; ++u) {
      if (v + u * step < vectors_) {
        args_.output[static_cast<uint64>(token) * vectors_ + v + u * step] =
            Bf16x8::round(sums + 8 * u);
      }
    }
  }

  Block& block_;
  const CombineArgs<Block>& args_;
  Lanes lanes_;
  uint32 ranks_, me_;
  uint32 vectors_, chunk_, chunks_;
  Units units_;
  uint64 calls_, call_, half_;
  ExpertSignals signals_;
  uint32 first_item_, item_step_, thread_, threads_;
  Ptr<Block, uint32> firsts_, counts_;  // shared, by source: slots of the unit
};

template <class Block>
STRETTO_KERNEL void combine(Block& block, const CombineArgs<Block>& args) {
  Combine<Block> work(block, args);
  if (work.works()) {
    if (!work.send() || !work.receive()) return;
  }
  work.end();
}

}  // namespace stretto::device
