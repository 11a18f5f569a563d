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
// Taken as the greatest of a group whose elements are smaller: the factor that maps much less to
// 448 would be infinite, and infinity times zero is no number.
inline constexpr float kLeastOfGroup = 1e-30f;
inline constexpr uint32 kSendTokens = 16;  // whose places a block finds at a time
inline constexpr uint32 kParts = 4;        // into which the tokens of a unit are cut
inline constexpr uint32 kWholeTokens = 4;  // of a unit: so few go as one part

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
// What must be the same in a call of all ranks, and of a combine and its dispatch.
inline constexpr uint32 kSameWords = 6;
STRETTO_PRIMITIVE const char* name_of_same(uint32 which) {
  if (which == 0) return "hidden";
  if (which == 1) return "experts";
  if (which == 2) return "top_k";
  if (which == 3) return "max_tokens";
  return which == 4 ? "fp8" : "blocks";
}
STRETTO_PRIMITIVE uint32 same_word(const ExpertShape& shape, uint32 blocks, uint32 which) {
  if (which == 0) return shape.hidden;
  if (which == 1) return shape.experts;
  if (which == 2) return shape.top_k;
  if (which == 3) return shape.max_tokens;
  return which == 4 ? shape.fp8 : blocks;
}
// A source's counts, in 32-bit words of whole lines of 128 bytes, so that no line has two writers:
// one of what must be the same, which lies alike whatever a rank was called with; then rows of each
// local expert, and tokens.
inline constexpr uint32 kLineWords = 32;
STRETTO_HOST_DEVICE uint64 source_counts(const ExpertShape& shape, uint32 ranks) {
  return (shape.experts / ranks + kLineWords) / kLineWords * kLineWords;
}
// Words of the counts of all sources, two of each by call.
STRETTO_HOST_DEVICE uint64 count_words(const ExpertShape& shape, uint32 ranks) {
  return 2 * ranks * (kLineWords + source_counts(shape, ranks));
}
// Words of the signals of a dispatch or a combine, a line each, and records of parts, for a grid of
// `blocks`. A part's record is read once, after its signal, so these need no lines.
inline constexpr uint32 kSignalWords = 16;
STRETTO_HOST_DEVICE uint64 expert_signals(uint32 ranks, uint32 blocks) {
  return static_cast<uint64>(ranks) * (blocks + 1) * kSignalWords;
}
STRETTO_HOST_DEVICE uint64 part_records(uint32 ranks, uint32 blocks) {
  return static_cast<uint64>(ranks) * blocks * kParts;
}
// Shared memory of a block of `threads`.
STRETTO_HOST_DEVICE uint64 dispatch_shared_bytes(const ExpertShape& shape, uint32 ranks,
                                                 uint32 threads, uint32 warp_size = 32) {
  const uint32 warps = threads < warp_size ? 1 : threads / warp_size;
  return 8 * static_cast<uint64>(threads) +
         4 * (shape.experts + 2 * (shape.experts / ranks) + 3 * ranks + 1 +
              2 * kSendTokens * (shape.top_k + ranks) + static_cast<uint64>(warps) * shape.top_k);
}

STRETTO_HOST_DEVICE uint64 combine_shared_bytes(uint32 ranks) { return 8 * ranks; }

// A block's number of calls so far, in a word that keeps the grid too: to find one that changes.
struct BlockCalls {
  static constexpr uint32 kBits = 44;
  STRETTO_HOST_DEVICE static uint64 of(uint64 word) { return word & ((1ull << kBits) - 1); }
  STRETTO_HOST_DEVICE static uint64 pack(uint64 calls, uint32 blocks) {
    return calls | static_cast<uint64>(blocks) << kBits;
  }
  // By all threads. False, and said, when the calls before had another grid.
  template <class Block>
  STRETTO_PRIMITIVE static bool same_grid(Block& block, uint64 word) {
    const auto blocks = static_cast<uint32>(block.num_blocks());
    const auto before = static_cast<uint32>(word >> kBits);
    if (word == 0 || before == blocks) return true;
    if (block.thread_idx() == 0) block.disagree(block.rank(), "blocks", 0, blocks, before);
    return false;
  }
};

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
// with many, a unit is two blocks, of which one sends while the other takes what has come.
struct Units {
  STRETTO_HOST_DEVICE static Units of(const ExpertShape& shape, uint32 blocks, uint32 block) {
    const bool split = blocks > 1 && shape.max_tokens > kWholeTokens * blocks;
    const uint32 count = split ? blocks / 2 : blocks;
    return {count, block % count, split ? 2u : 1u, block / count};
  }
  // Where a list of this unit's parts of `source` begins, in a list of all units'.
  STRETTO_HOST_DEVICE uint64 first_listed(uint32 source, uint32 ranks) const {
    return (static_cast<uint64>(index) * ranks + source) * kParts;
  }
  STRETTO_HOST_DEVICE bool split() const { return workers == 2; }
  STRETTO_HOST_DEVICE bool sends() const { return worker == 0; }
  STRETTO_HOST_DEVICE bool takes() const { return worker + 1 == workers; }
  uint32 count, index;     // units of a rank, and which of them this block is of
  uint32 workers, worker;  // blocks of a unit, and which of them it is; a block may be left over
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

// Symmetric words that tell the units of a rank how far the others are, over all calls. In
// dispatch, unit u of a source adds 1 for each part, and what is missing to kParts with the last;
// the first unit adds 1 when the counts have gone. In combine, each block of a unit adds 1.
//
// Slots alternate between calls, and that is enough: who sends call e has ended call e - 1, hence
// heard from every rank in it, and a rank that is in call e - 1 has ended call e - 2, whose slots
// call e overwrites.
struct ExpertSignals {
  // Where unit u's lie depends on no grid, so that ranks with other grids find out.
  STRETTO_HOST_DEVICE uint32 part_of(uint32 source) const {
    return (ranks * (units.index + 1) + source) * kSignalWords;
  }
  STRETTO_HOST_DEVICE uint32 counts_of(uint32 source) const { return source * kSignalWords; }
  // What a part adds, and what has been added when it has come.
  STRETTO_HOST_DEVICE static uint64 step(uint32 part, bool last) {
    return last ? kParts - part : 1;
  }
  STRETTO_HOST_DEVICE static uint64 after(uint64 call, uint32 part) {
    return call * kParts + part + 1;
  }
  Units units;
  uint32 ranks;
};

}  // namespace stretto::device
