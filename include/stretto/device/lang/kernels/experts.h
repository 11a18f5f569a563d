// What dispatch and combine of tokens to experts share: sizes, and how threads divide work.
//
// Rank r owns experts [r, r + 1) x experts / ranks. A token goes once to each rank that owns one of
// its experts, into that rank's slots for its source; entries tell which experts there, with which
// weight, and which place among the (token, expert) pairs of its source and expert.
#pragma once

#include "stretto/device/lang/numbers.h"
#include "stretto/device/lang/shmem.h"

namespace stretto::device {

inline constexpr uint32 kNone = 0xffffffffu;
inline constexpr uint32 kScaleGroup = 128;  // elements that share an fp8 scale
inline constexpr uint32 kSendTokens = 16;   // whose places a block finds at a time
inline constexpr uint32 kParts = 4;         // into which the tokens of a unit are cut
inline constexpr uint32 kWholeTokens = 4;   // of a unit: so few go as one part

// The same on all ranks.
struct ExpertShape {
  uint32 hidden;      // elements of a token; a multiple of 8, in fp8 of 128
  uint32 experts;     // a multiple of the ranks
  uint32 top_k;       // at most `experts`
  uint32 max_tokens;  // of a rank
  uint32 max_rows;    // (token, expert) pairs that a rank has room for
  uint32 row_align;   // each expert's rows begin at a multiple
  uint32 fp8;         // 1: tokens travel as fp8 with a scale for 128 elements
};

// Why the shape cannot be served; null when it can.
STRETTO_HOST_DEVICE const char* why_illegal(const ExpertShape& shape, uint32 ranks) {
  if (shape.hidden == 0 || shape.hidden % 8 != 0) return "hidden must be a multiple of 8";
  if (shape.fp8 != 0 && shape.hidden % kScaleGroup != 0) {
    return "hidden must be a multiple of 128 for fp8, which has a scale for 128 elements";
  }
  if (shape.experts == 0 || shape.experts % ranks != 0) {
    return "experts must be a multiple of the ranks, each of which owns as many";
  }
  if (shape.top_k == 0 || shape.top_k > shape.experts) {
    return "top_k must be at least 1 and at most the number of experts";
  }
  if (shape.row_align == 0) return "row_align must be at least 1";
  if (ranks > 64) return "at most 64 ranks are served";
  return nullptr;
}

STRETTO_HOST_DEVICE uint64 token_vectors(const ExpertShape& shape) {
  return shape.hidden / (shape.fp8 != 0 ? 16 : 8);
}
STRETTO_HOST_DEVICE uint64 token_scales(const ExpertShape& shape) {
  return shape.fp8 != 0 ? shape.hidden / kScaleGroup : 0;
}
// Words of counts from one source: rows of each local expert, tokens, and what must be the same.
inline constexpr uint32 kSameWords = 6;
STRETTO_HOST_DEVICE uint64 count_words(const ExpertShape& shape, uint32 ranks) {
  return shape.experts / ranks + 1 + kSameWords;
}
// Signals of a dispatch or a combine, and records of parts, for a grid of `blocks`.
STRETTO_HOST_DEVICE uint64 expert_signals(uint32 ranks, uint32 blocks) {
  return static_cast<uint64>(ranks) * (blocks + 2);
}
STRETTO_HOST_DEVICE uint64 part_records(uint32 ranks, uint32 blocks) {
  return static_cast<uint64>(ranks) * blocks * kParts;
}
// Shared memory of a block of `threads`.
STRETTO_HOST_DEVICE uint64 dispatch_shared_bytes(const ExpertShape& shape, uint32 ranks,
                                                 uint32 threads) {
  return 8 * static_cast<uint64>(threads) +
         4 * (shape.experts + 2 * (shape.experts / ranks) + 3 * ranks + 1 +
              2 * kSendTokens * (shape.top_k + ranks) + static_cast<uint64>(threads) * shape.top_k);
}

// A thread's place in its block, for work that warps share.
struct Lanes {
  template <class Block>
  STRETTO_PRIMITIVE explicit Lanes(Block& block)
      : count(block.num_threads() < block.warp_size() ? block.num_threads() : block.warp_size()),
        lane(block.thread_idx() % count),
        warp(block.thread_idx() / count),
        warps(block.num_threads() / count) {}
  int count;
  int lane;
  int warp;
  int warps;
};

// Part `index` of `parts` about equal parts of `count`.
STRETTO_HOST_DEVICE uint32 part_begin(uint32 count, uint32 index, uint32 parts) {
  return static_cast<uint32>(static_cast<uint64>(count) * index / parts);
}

// How a grid divides the tokens of a rank: unit u sends the u-th share of them, and unit u of every
// other rank takes what it sends. With few tokens every block is a unit that sends and then takes;
// with many, half of the blocks send while the other half takes what has come.
struct Units {
  STRETTO_HOST_DEVICE static Units of(const ExpertShape& shape, uint32 blocks, uint32 block) {
    const bool split = blocks > 1 && shape.max_tokens > kWholeTokens * blocks;
    const uint32 count = split ? blocks / 2 : blocks;
    const uint32 role = block / count;
    return {count, block % count, role == 0, role == (split ? 1u : 0u)};
  }
  uint32 count;
  uint32 index;
  bool sends, takes;
};

// The tokens of a unit, and the parts in which they go.
struct UnitTokens {
  STRETTO_HOST_DEVICE static UnitTokens of(uint32 tokens, const Units& units) {
    const uint32 begin = part_begin(tokens, units.index, units.count);
    const uint32 end = part_begin(tokens, units.index + 1, units.count);
    return {begin, end, end - begin <= kWholeTokens ? 1 : kParts};
  }
  STRETTO_HOST_DEVICE uint32 first_of(uint32 part) const {
    return begin + part_begin(end - begin, part, parts);
  }
  uint32 begin, end, parts;
};

// What a part brought to one rank: slots [first, first + count); `last` when no part follows.
struct PartRecord {
  STRETTO_HOST_DEVICE static uint64 pack(uint32 first, uint32 count, bool last) {
    return first | static_cast<uint64>(count) << 32 | static_cast<uint64>(last) << 63;
  }
  STRETTO_HOST_DEVICE static PartRecord from(uint64 word) {
    return {static_cast<uint32>(word), static_cast<uint32>(word >> 32) & 0x7fffffffu,
            word >> 63 != 0};
  }
  uint32 first, count;
  bool last;
};

// What tells the units of all ranks how far the others are, in each call.
//
// Parts: unit u of a source adds 1 for each, and what is missing to kParts with the last.
// Emptied: every unit that takes adds 1 to its rank's word when it begins a call, so the slots of
// the call before are free again. Who sends call e has waited for that of call e - 1 by all units
// of the rank it sends to: they have emptied the slots of call e - 2, which call e overwrites.
template <class Block>
class ExpertSignals {
 public:
  STRETTO_PRIMITIVE ExpertSignals(Block& block, Ptr<Block, uint64> words, const Units& units,
                                  uint64 call)
      : block_(block),
        words_(words),
        unit_(units.index),
        unit_count_(units.count),
        call_(call),
        me_(static_cast<uint32>(block.rank())),
        ranks_(static_cast<uint32>(block.num_ranks())),
        thread_(static_cast<uint32>(block.thread_idx())),
        threads_(static_cast<uint32>(block.num_threads())) {}

  // By all threads; false when a wait failed, on some of them.
  STRETTO_PRIMITIVE bool wait_emptied() {
    if (call_ < 2) return true;
    bool good = true;
    for (uint32 r = thread_; r < ranks_; r += threads_) {
      good = wait(r, (call_ - 1) * unit_count_, r) && good;
    }
    return good;
  }
  STRETTO_PRIMITIVE void tell_emptied() {
    if (call_ == 0) return;
    for (uint32 i = thread_; i < ranks_; i += threads_) add(me_, 1, next(i));
  }
  // By one thread a rank.
  STRETTO_PRIMITIVE void tell_counts(uint32 to) { add(ranks_ + me_, 1, to); }
  STRETTO_PRIMITIVE bool wait_counts(uint32 from) { return wait(ranks_ + from, call_ + 1, from); }
  STRETTO_PRIMITIVE void tell_part(uint32 part, bool last, uint32 to) {
    add(part_of(me_), last ? kParts - part : 1, to);
  }
  STRETTO_PRIMITIVE bool wait_part(uint32 part, uint32 from) {
    return wait(part_of(from), call_ * kParts + part + 1, from);
  }
  STRETTO_PRIMITIVE uint32 next(uint32 i) const { return (me_ + 1 + i) % ranks_; }

 private:
  STRETTO_PRIMITIVE uint32 part_of(uint32 source) const {
    return 2 * ranks_ + source * unit_count_ + unit_;
  }
  STRETTO_PRIMITIVE bool wait(uint32 word, uint64 value, uint32 from) {
    return block_.wait_until(words_ + word, Compare::kGe, value, Where::here(),
                             static_cast<int>(from));
  }
  STRETTO_PRIMITIVE void add(uint32 word, uint64 value, uint32 to) {
    block_.signal(words_ + word, value, SignalOp::kAdd, static_cast<int>(to));
  }

  Block& block_;
  Ptr<Block, uint64> words_;
  uint32 unit_, unit_count_;
  uint64 call_;
  uint32 me_, ranks_, thread_, threads_;
};

}  // namespace stretto::device
