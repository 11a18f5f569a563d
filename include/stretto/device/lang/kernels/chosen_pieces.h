// How rows that choose experts are shared out (chosen_rows.h): by pieces of a row, of which a
// warp's threads have neighbouring vectors. So what a token chooses is looked up once a piece,
// several choices at a time, and all threads of a warp find the same.
//
// All threads of all ranks go through a rank's pieces in the same turns, one piece of their own
// each. They send those of a turn before they take what others have sent in the turn before; the
// pieces that a rank takes in a turn are dealt out anew, so that of few tokens of many ranks all
// threads take some. So whatever a thread waits for is sent ahead of all that its sender waits for
// in the same turn and later ones, and many tokens are sent and taken together.
#pragma once

#include "stretto/device/lang/kernels/chosen_rows.h"

namespace stretto::device {

// kInFlight: vectors of a thread in a piece.
template <class Format, int kInFlight, class Block>
class ChosenPieces : public ChosenRows<Format, Block> {
  using Base = ChosenRows<Format, Block>;

 protected:
  using Base::args_, Base::block_, Base::sizes_, Base::me_, Base::ranks_, Base::share_,
      Base::own_count_;

 public:
  STRETTO_PRIMITIVE ChosenPieces(Block& block, const ChosenArgs<Block>& args, uint32 collective,
                                 uint32 others = 1)
      : Base(block, args, collective, others) {
    const auto warp = static_cast<uint32>(block.warp_size());
    lanes_ = static_cast<uint32>(block.num_threads()) % warp == 0 ? warp : 1;
    pieces_ = (sizes_.row_vectors + kInFlight * lanes_ - 1) / (kInFlight * lanes_);
    turn_ = share_.step / lanes_;
    all_ = sizes_.block_tokens * pieces_;
    // The greeting block has none, nor have those that make a partition.
    first_ = share_.first != ThreadShare::kNone ? share_.first / lanes_ : kNoPiece;
  }

 protected:
  static constexpr uint32 kSlots = 8;           // of a token, looked at together
  static constexpr uint32 kNoPiece = 1u << 31;  // there are fewer

  // A thread's part of a piece: vectors at, at + lanes_, ... of the row of a rank's token.
  struct Piece {
    uint32 place, at;
  };
  STRETTO_PRIMITIVE Piece piece(uint32 p) const {
    return {p / pieces_, p % pieces_ * (kInFlight * lanes_) + share_.first % lanes_};
  }
  STRETTO_PRIMITIVE bool has(const Piece& its, uint32 u) const {
    return its.at + u * lanes_ < sizes_.row_vectors;
  }
  // Of the vectors of a piece, where its row begins.
  STRETTO_PRIMITIVE void find(const Piece& its, Ptr<Block, Vec16> row,
                              Ptr<Block, Vec16> (&at)[kInFlight]) const {
    STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
      if (has(its, u)) at[u] = row + (its.at + u * lanes_);
    }
  }
  // Of the pieces of other ranks' tokens that are taken in the turn whose first piece is `begin`,
  // this thread's: visit(rank, piece), the next rank's first; false ends it.
  template <class Visit>
  STRETTO_PRIMITIVE bool each_taken(uint32 begin, Visit visit) const {
    const uint32 others = ranks_ - 1;
    const uint32 pieces = all_ - begin < turn_ ? all_ - begin : turn_;
    STRETTO_ROLLED for (uint32 i = first_; i < pieces * others; i += turn_) {
      const Piece its = piece(begin + i / others);
      const auto rank = static_cast<uint32>(rank_after(
          static_cast<int>(me_), static_cast<int>(1 + i % others), static_cast<int>(ranks_)));
      if (its.place >= Base::first_of(rank + 1) - Base::first_of(rank)) continue;
      if (!visit(rank, its)) return false;
    }
    return true;
  }

  // Vectors first, first + 1, ... of a note of `rank`, up to `end`, once they have come.
  template <uint32 kCount>
  STRETTO_PRIMITIVE bool wait_note(uint32 rank, Ptr<Block, Vec16> note, uint32 first, uint32 end,
                                   Vec16 (&words)[kCount]) {
    Ptr<Block, Vec16> at[kCount] = {};
    STRETTO_UNROLL for (uint32 v = 0; v < kCount; ++v) {
      if (first + v < end) at[v] = note + (first + v);
    }
    const auto from = static_cast<int>(rank);
    return block_.wait_each_not(at, Base::kPoison, words, [&](int) { return from; });
  }

  // The words of slots first, first + 1, ... of the note of another rank's token, whose vectors
  // have one for each of four slots.
  STRETTO_PRIMITIVE bool wait_slots(uint32 token, uint32 first, Vec16 (&words)[kSlots / 4]) {
    const uint32 end = (sizes_.top_k + 3) / 4;
    return wait_note(Base::rank_of(token), Base::note_of(token), first / 4, end, words);
  }

  // What stands in this rank's memory. kAhead: it was made by a kernel that has ended, but no wait
  // of this one is between, so what L1 has may be older.
  template <bool kAhead, class T>
  STRETTO_PRIMITIVE auto read(Ptr<Block, T> at) {
    if constexpr (kAhead) {
      return block_.load_ended(at);
    } else {
      return at[0];
    }
  }
  // Slots first, first + 1, ... of row `row` of the ids that this rank has.
  template <bool kAhead = false>
  STRETTO_PRIMITIVE void load_ids(uint32 row, uint32 first, int32 (&ids)[kSlots]) {
    const uint64 at = static_cast<uint64>(row) * sizes_.top_k + first;
    STRETTO_UNROLL for (int32& id : ids) id = kNoExpert;
    if (args_.wide_ids) {
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (first + j < sizes_.top_k) ids[j] = narrow_id(read<kAhead>(args_.wide_ids + (at + j)));
      }
    } else {
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (first + j < sizes_.top_k) ids[j] = read<kAhead>(args_.ids + (at + j));
      }
    }
  }
  // The ranks that have one of them, a bit each.
  STRETTO_PRIMITIVE uint64 ranks_with(const int32 (&ids)[kSlots]) const {
    uint64 ranks = 0;
    for (uint32 r = 0; r < ranks_; ++r) {
      bool any = false;
      STRETTO_UNROLL for (const int32 id : ids) any = Base::is_on(r, id) || any;
      if (any) ranks |= uint64{1} << r;
    }
    return ranks;
  }
  STRETTO_PRIMITIVE uint64 ranks_of_row(uint32 row) {
    uint64 ranks = 0;
    for (uint32 first = 0; first < sizes_.top_k; first += kSlots) {
      int32 ids[kSlots];
      load_ids(row, first, ids);
      ranks |= ranks_with(ids);
    }
    return ranks;
  }

  uint32 lanes_, pieces_;  // threads that share a piece; pieces of a row
  uint32 turn_, all_;      // pieces of all threads' turn; of a rank that has most tokens
  uint32 first_;           // the thread's first
};

}  // namespace stretto::device
