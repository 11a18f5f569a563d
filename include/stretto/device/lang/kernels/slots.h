// Slots whose data says itself that it has come.
//
// Every element is sent as a value that is never the sentinel (a negative zero), and slots hold the
// sentinel until the value comes. The thread that reads a slot poisons it again at once.
#pragma once

#include "stretto/device/lang/kernels/call.h"
#include "stretto/device/lang/kernels/greeting.h"

namespace stretto::device {

// Vectors whose loads one thread has in flight by default.
inline constexpr int kBatch = 8;

// `total` vectors in parts of `size`, one a rank; the last ones may be shorter or empty.
struct Parts {
  STRETTO_PRIMITIVE uint32 first(int rank) const { return size * static_cast<uint32>(rank); }
  STRETTO_PRIMITIVE bool has(int rank, uint32 i) const { return first(rank) + i < total; }
  // How many of `count` ranks from `rank` on have a vector i.
  STRETTO_PRIMITIVE int having(int rank, int count, uint32 i) const {
    while (count > 0 && !has(rank + count - 1, i)) --count;
    return count;
  }
  STRETTO_PRIMITIVE uint32 size_of(int rank) const {
    if (first(rank) >= total) return 0;
    return total - first(rank) < size ? total - first(rank) : size;
  }
  uint32 size;
  uint32 total;
};

// The first hop of two shots: vector i of each other rank's part goes into that rank's slot of this
// one, by one thread for all ranks, kInFlight of them at a time.
template <class Format, int kInFlight, class Block>
class PartSender {
 public:
  // Begins to load vectors i, which need no knowledge of the call.
  STRETTO_PRIMITIVE PartSender(Block& block, const Parts& parts, Ptr<Block, const Vec16> input,
                               uint32 i)
      : block_(block), parts_(parts), input_(input) {
    if (i < parts.size) load(i, 1);
  }
  // All of the thread's share, which began with that i. `slot`: where vector 0 goes, at any rank.
  STRETTO_PRIMITIVE void send(Ptr<Block, Vec16> slot, uint32 i, uint32 step) {
    while (i < parts_.size) {
      auto to = slot + i;
      store(to, i, 1);
      for (int k = 1 + kInFlight; k < block_.num_ranks(); k += kInFlight) {
        load(i, k);
        store(to, i, k);
      }
      i += step;
      if (i < parts_.size) load(i, 1);
    }
  }

 private:
  STRETTO_PRIMITIVE int owner(int k) const {
    return rank_after(block_.rank(), k, block_.num_ranks());
  }
  STRETTO_PRIMITIVE void load(uint32 i, int k) {
    STRETTO_UNROLL for (int u = 0; u < kInFlight; ++u) {
      if (k + u < block_.num_ranks() && parts_.has(owner(k + u), i)) {
        values_[u] = input_[parts_.first(owner(k + u)) + i];
      }
    }
  }
  STRETTO_PRIMITIVE void store(Ptr<Block, Vec16> slot, uint32 i, int k) {
    STRETTO_UNROLL for (int u = 0; u < kInFlight; ++u) {
      if (k + u < block_.num_ranks() && parts_.has(owner(k + u), i)) {
        block_.store(block_.peer(slot, owner(k + u)), canonical<Format>(values_[u]));
      }
    }
  }

  Block& block_;
  const Parts& parts_;
  Ptr<Block, const Vec16> input_;
  Vec16 values_[kInFlight];
};

// Takes vector j from `slots + j * stride` once it has come, for j < count but not j == skip; it
// is of rank first_rank + j.
template <class Format, int kInFlight, class Block>
STRETTO_PRIMITIVE bool take_slots(Block& block, Ptr<Block, Vec16> slots, uint64 stride, int count,
                                  int skip, Vec16 (&values)[kInFlight], int first_rank,
                                  Patience patience, Where where = Where::here()) {
  if (!block.wait_vectors_not(slots, stride, count, skip, Format::kPoison, values, where,
                              first_rank, patience)) {
    return false;
  }
  STRETTO_UNROLL for (int j = 0; j < kInFlight; ++j) {
    if (j < count && j != skip) {
      block.store(slots + static_cast<uint64>(j) * stride, four_of(Format::kPoison));
    }
  }
  return true;
}

// Adds up, in rank order, this rank's `own` and the vectors at slots + r * stride of the others; or
// those at slots alone, where the own one comes there too.
template <class Format, int kInFlight = kBatch, SentBy kSentBy = SentBy::kThis, class Block>
STRETTO_PRIMITIVE bool sum_slots(Block& block, Ptr<Block, Vec16> slots, uint64 stride,
                                 const Vec16& own, float (&sums)[Format::kElements],
                                 Where where = Where::here()) {
  const int ranks = block.num_ranks();
  const int me = kSentBy == SentBy::kThis ? block.rank() : ranks;
  STRETTO_UNROLL for (float& sum : sums) sum = 0;
  for (int base = 0; base < ranks; base += kInFlight) {
    Vec16 values[kInFlight];
    const int count = ranks - base < kInFlight ? ranks - base : kInFlight;
    if (!take_slots<Format>(block, slots + static_cast<uint64>(base) * stride, stride, count,
                            me - base, values, base, Patience::kUsual, where)) {
      return false;
    }
    STRETTO_UNROLL for (int j = 0; j < kInFlight; ++j) {
      if (base + j == me) values[j] = own;
      if (j < count) Format::add(sums, values[j]);
    }
  }
  return true;
}

// This rank's vector to a slot of all others.
template <class Block>
STRETTO_PRIMITIVE void send_to_others(Block& block, Ptr<Block, Vec16> slot, const Vec16& value) {
  const int ranks = block.num_ranks();
  for (int k = 1; k < ranks; ++k) {
    block.store(block.peer(slot, rank_after(block.rank(), k, ranks)), value);
  }
}

}  // namespace stretto::device
