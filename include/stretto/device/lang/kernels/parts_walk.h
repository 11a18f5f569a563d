// What a thread sends and takes of parts, one a rank (slots.h): as many loads in flight whether it
// has one vector of many ranks or many vectors of few.
#pragma once

#include "stretto/device/lang/kernels/slots.h"

namespace stretto::device {

// The thread's vectors of its share i, i + step, ... below `end`: of each the ranks in turn.
class PartWalk {
 public:
  // In rank order, this one too.
  template <class Block>
  STRETTO_PRIMITIVE static PartWalk of_all(Block& block, const ThreadShare& share, uint32 end) {
    return {share, end, 0, 0, block.num_ranks()};
  }
  // The others, the next one first.
  template <class Block>
  STRETTO_PRIMITIVE static PartWalk of_others(Block& block, const ThreadShare& share, uint32 end) {
    return {share, block.num_ranks() > 1 ? end : 0, block.rank(), 1, block.num_ranks()};
  }

  STRETTO_PRIMITIVE bool any() const { return i_ < end_; }
  // visit(j, rank, i) of the next kMost, j < kMost; the walk from there on.
  template <int kMost, class Visit>
  STRETTO_PRIMITIVE PartWalk turn(Visit visit) const {
    PartWalk at = *this;
    STRETTO_UNROLL for (int j = 0; j < kMost; ++j) {
      if (!at.any()) break;
      visit(j, at.rank(), at.i_);
      at.advance();
    }
    return at;
  }
  // The rank of the j-th part from here.
  STRETTO_PRIMITIVE int rank_of(int j) const {
    PartWalk at = *this;
    for (; j > 0; --j) at.advance();
    return at.rank();
  }

 private:
  STRETTO_PRIMITIVE PartWalk(const ThreadShare& share, uint32 end, int origin, int first, int ranks)
      : i_(share.first),
        step_(share.step),
        end_(end),
        origin_(origin),
        first_(first),
        next_(first),
        ranks_(ranks) {}
  STRETTO_PRIMITIVE int rank() const { return rank_after(origin_, next_, ranks_); }
  STRETTO_PRIMITIVE void advance() {
    if (++next_ < ranks_) return;
    next_ = first_;
    i_ += step_;
  }

  uint32 i_, step_, end_;
  int origin_;                // the rank that is counted from
  int first_, next_, ranks_;  // counted
};

// Takes values[j] from at[j] once it has come, where that is not null; it is of walk.rank_of(j).
template <class Format, int kInFlight, class Block>
STRETTO_PRIMITIVE bool take_each(Block& block, const Ptr<Block, Vec16> (&at)[kInFlight],
                                 Vec16 (&values)[kInFlight], const PartWalk& walk,
                                 Where where = Where::here()) {
  if (!block.wait_each_not(
          at, Format::kPoison, values, [&](int j) { return walk.rank_of(j); }, where)) {
    return false;
  }
  STRETTO_UNROLL for (int j = 0; j < kInFlight; ++j) {
    if (at[j]) block.store(at[j], four_of(Format::kPoison));
  }
  return true;
}

// Vector i < end of all ranks, added in fp32 in rank order and rounded once: this rank's own, and
// of others what comes to slots + rank * stride; or of all what comes there. A thread's vectors are
// in flight together.
template <class Format, int kInFlight, SentBy kSentBy = SentBy::kThis, class Block>
STRETTO_PRIMITIVE bool sum_each(Block& block, const ThreadShare& share, uint32 end,
                                Ptr<Block, const Vec16> own, Ptr<Block, Vec16> slots, uint64 stride,
                                Ptr<Block, Vec16> output, Where where = Where::here()) {
  const int me = block.rank();
  PartWalk walk = PartWalk::of_all(block, share, end);
  float sums[Format::kElements] = {};
  while (walk.any()) {
    Ptr<Block, Vec16> at[kInFlight] = {};
    Vec16 values[kInFlight];
    walk.turn<kInFlight>([&](int j, int rank, uint32 i) {
      if (kSentBy == SentBy::kThis && rank == me) {
        values[j] = own[i];
      } else {
        at[j] = slots + (static_cast<uint64>(rank) * stride + i);
      }
    });
    if (!take_each<Format>(block, at, values, walk, where)) return false;
    walk = walk.turn<kInFlight>([&](int j, int rank, uint32 i) {
      if (rank == 0) {
        STRETTO_UNROLL for (float& sum : sums) sum = 0;
      }
      Format::add(sums, values[j]);
      if (rank == block.num_ranks() - 1) output[i] = canonical<Format>(Format::round(sums));
    });
  }
  return true;
}

// This rank's part to a slot of all others, and to its own place, if any, without negative zeros.
template <class Format, int kInFlight, class Block>
class OwnPartSender {
 public:
  // Begins to load, which needs no knowledge of the call.
  STRETTO_PRIMITIVE OwnPartSender(Block& block, Ptr<Block, const Vec16> input, uint32 size,
                                  const ThreadShare& share)
      : block_(block), input_(input), size_(size), i_(share.first), step_(share.step) {
    load();
  }
  STRETTO_PRIMITIVE void send(Ptr<Block, Vec16> slot, Ptr<Block, Vec16> own_place) {
    while (i_ < size_) {
      STRETTO_UNROLL for (int v = 0; v < kInFlight; ++v) {
        if (!has(v)) break;
        values_[v] = positive_zeros<Format>(values_[v]);
      }
      STRETTO_ROLLED for (int k = 1; k < block_.num_ranks(); ++k) {
        auto to = block_.peer(slot, rank_after(block_.rank(), k, block_.num_ranks()));
        STRETTO_UNROLL for (int v = 0; v < kInFlight; ++v) {
          if (!has(v)) break;
          block_.store(to + at(v), values_[v]);
        }
      }
      STRETTO_UNROLL for (int v = 0; v < kInFlight; ++v) {
        if (!own_place || !has(v)) break;
        own_place[at(v)] = values_[v];
      }
      i_ += kInFlight * step_;
      load();
    }
  }

 private:
  STRETTO_PRIMITIVE uint32 at(int v) const { return i_ + static_cast<uint32>(v) * step_; }
  STRETTO_PRIMITIVE bool has(int v) const { return at(v) < size_; }
  STRETTO_PRIMITIVE void load() {
    STRETTO_UNROLL for (int v = 0; v < kInFlight; ++v) {
      if (!has(v)) break;
      values_[v] = input_[at(v)];
    }
  }

  Block& block_;
  Ptr<Block, const Vec16> input_;
  uint32 size_;
  uint32 i_, step_;
  Vec16 values_[kInFlight];
};

// Each other rank's part of the input to a slot of that rank.
template <class Format, int kInFlight, class Block>
class EachPartSender {
 public:
  // Begins to load, which needs no knowledge of the call.
  STRETTO_PRIMITIVE EachPartSender(Block& block, Ptr<Block, const Vec16> input, const Parts& parts,
                                   const ThreadShare& share)
      : block_(block),
        input_(input),
        parts_(parts),
        walk_(PartWalk::of_others(block, share, parts.size)) {
    load();
  }
  STRETTO_PRIMITIVE void send(Ptr<Block, Vec16> slot) {
    while (walk_.any()) {
      walk_ = walk_.turn<kInFlight>([&](int j, int rank, uint32 i) {
        if (!parts_.has(rank, i)) return;
        block_.store(block_.peer(slot, rank) + i, canonical<Format>(values_[j]));
      });
      load();
    }
  }

 private:
  STRETTO_PRIMITIVE void load() {
    walk_.turn<kInFlight>([&](int j, int rank, uint32 i) {
      if (parts_.has(rank, i)) values_[j] = input_[parts_.first(rank) + i];
    });
  }

  Block& block_;
  Ptr<Block, const Vec16> input_;
  Parts parts_;
  PartWalk walk_;
  Vec16 values_[kInFlight];
};

}  // namespace stretto::device
