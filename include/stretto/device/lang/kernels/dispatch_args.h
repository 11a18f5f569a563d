// What dispatch is called with, and what its two halves have in common.
#pragma once

#include "stretto/device/lang/kernels/experts.h"

namespace stretto::device {

// Counters in `problems`, added up over calls.
enum Problem : uint32 { kIdsOutOfRange, kTokensOverMost, kRowsOverMost, kProblems };

template <class Block>
struct DispatchArgs {
  ExpertShape shape;
  uint32 tokens;                           // of this rank
  Ptr<Block, const uint32> device_tokens;  // local: instead of `tokens` where not null
  Ptr<Block, const Vec16> input;           // local: tokens x hidden, bf16
  Ptr<Block, const int32> ids;             // local: tokens x top_k
  Ptr<Block, const float> weights;         // local: tokens x top_k

  // Symmetric, two of each by call.
  Ptr<Block, Vec16> slots;        // [call][source][max_tokens][token_vectors()]
  Ptr<Block, float> scale_slots;  // [call][source][max_tokens][token_scales()]
  Ptr<Block, Vec16> entry_slots;  // [call][source][max_tokens][top_k]
  Ptr<Block, uint32> counts;      // count_words(), of both calls
  Ptr<Block, uint64> parts;       // part_records(), of both calls
  Ptr<Block, uint64> signals;     // symmetric: expert_signals(), zero at first

  // Results, local.
  Ptr<Block, uint32> token_slots;     // [max_tokens][ranks]: in which slot of the rank, or kNone
  Ptr<Block, uint32> received;        // [source]: tokens
  Ptr<Block, uint64> part_list;       // [part_records()]: what came in which part
  Ptr<Block, uint32> agreed;          // [kSameWords]: what all ranks called with
  Ptr<Block, uint32> entry_rows;      // [source][max_tokens][top_k]: row of the entry, or kNone
  Ptr<Block, float> entry_weights;    // [source][max_tokens][top_k]
  Ptr<Block, uint32> expert_offsets;  // [local experts + 1]: first row, aligned, up to max_rows
  Ptr<Block, uint32> expert_counts;   // [local experts]: rows, without those over max_rows
  Ptr<Block, Vec16> rows;             // [max_rows][token_vectors()], by expert, source and token
  Ptr<Block, float> row_scales;       // [max_rows][token_scales()]
  Ptr<Block, uint32> problems;        // [kProblems], zero at first
  Ptr<Block, uint64> calls;           // [num_blocks], zero at first
};

template <class Block>
class DispatchHalf {
 public:
  STRETTO_PRIMITIVE DispatchHalf(Block& block, const DispatchArgs<Block>& args)
      : block_(block),
        args_(args),
        lanes_(block),
        units_(Units::of(args.shape, static_cast<uint32>(block.num_blocks()),
                         static_cast<uint32>(block.block_idx()))),
        ranks_(static_cast<uint32>(block.num_ranks())),
        me_(static_cast<uint32>(block.rank())),
        thread_(static_cast<uint32>(block.thread_idx())),
        threads_(static_cast<uint32>(block.num_threads())),
        local_(args.shape.experts / ranks_),
        k_(args.shape.top_k),
        call_(BlockCalls::of(args.calls[block.block_idx()])),
        half_(call_ % 2 * ranks_),
        signals_{units_, ranks_},
        expert_counts_(shared<uint32>(block, static_cast<int>(8 * threads_))),
        rank_counts_(expert_counts_ + args.shape.experts),
        part_first_(rank_counts_ + ranks_),
        part_counts_(part_first_ + ranks_),
        free_(part_counts_ + ranks_) {}

 protected:
  STRETTO_PRIMITIVE void problem(Problem what, uint32 amount) {
    block_.fetch_add(args_.problems + static_cast<uint32>(what), amount, Order::kRelaxed,
                     Scope::kGpu);
  }
  // Slot `slot` of `source` in this call's half.
  STRETTO_PRIMITIVE uint64 slot_index(uint32 source, uint32 slot) const {
    return (half_ + source) * args_.shape.max_tokens + slot;
  }
  // The record of a part of this block's unit of `source`, in this call's half. Where it lies
  // depends on no grid, as with signals.
  STRETTO_PRIMITIVE uint64 record_index(uint32 source, uint32 part) const {
    return (static_cast<uint64>(2 * units_.index + call_ % 2) * ranks_ + source) * kParts + part;
  }
  STRETTO_PRIMITIVE uint64 listed_at(uint32 source, uint32 part) const {
    return units_.first_listed(source, ranks_) + part;
  }
  STRETTO_PRIMITIVE uint32 next(uint32 i) const { return (me_ + 1 + i) % ranks_; }
  STRETTO_PRIMITIVE void tell(uint32 word, uint64 step, uint32 to) {
    block_.signal(args_.signals + word, step, SignalOp::kAdd, static_cast<int>(to));
  }
  STRETTO_PRIMITIVE bool await(uint32 word, uint64 value, uint32 from) {
    return block_.wait_until(args_.signals + word, Compare::kGe, value, Where::here(),
                             static_cast<int>(from));
  }
  // What all ranks must call with.
  STRETTO_PRIMITIVE uint32 own_word(uint32 which) const {
    return same_word(args_.shape, static_cast<uint32>(block_.num_blocks()), which);
  }
  // Of the counts from `source`, in this call's half.
  STRETTO_PRIMITIVE uint64 same_index(uint32 source) const { return (half_ + source) * kLineWords; }
  STRETTO_PRIMITIVE uint64 count_index(uint32 source) const {
    return 2 * ranks_ * kLineWords + (half_ + source) * source_counts(args_.shape, ranks_);
  }

  Block& block_;
  const DispatchArgs<Block>& args_;
  Lanes lanes_;
  Units units_;
  uint32 ranks_, me_, thread_, threads_, local_, k_;
  uint64 call_, half_;
  ExpertSignals signals_;
  // Shared memory: entries of each expert and tokens for each rank that come before what the block
  // sends next; slots of a part, by rank; and what is of one half alone.
  Ptr<Block, uint32> expert_counts_, rank_counts_, part_first_, part_counts_, free_;
};

}  // namespace stretto::device
