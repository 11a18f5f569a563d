// The way back of rows that chose experts (chosen_rows.h): a rank adds up, for each token, what its
// experts made of it, times the token's weights; who has the token adds up what ranks with a chosen
// expert made.
//
// A rank's sum is of fused multiply-adds in fp32 in the order of the slots, rounded once; the
// token's is of these in fp32 in rank order, rounded once. So its bits hang on nothing but data.
#pragma once

#include "stretto/device/lang/kernels/chosen_sums.h"

namespace stretto::device {

template <class Block>
struct SumChosenArgs {
  ChosenArgs<Block> chosen;  // ids of all tokens; weights of all or, in notes, of own ones
  // Local. Token t's slot j is row t of it, or t * top_k + j, or row_of_choice[t * top_k + j].
  Ptr<Block, const Vec16> rows;
  uint32 by_choice;
  Ptr<Block, const int32> row_of_choice;  // of all choices; null: in one of the other two ways
  Ptr<Block, Vec16> output;               // local: own tokens' rows
};

// A thread loads the rows of eight choices of one vector together.
template <class Format, class Block>
class SumChosenRows : ChosenSums<Format, 1, Block> {
  using Base = ChosenSums<Format, 1, Block>;
  using Base::args_, Base::block_, Base::sizes_, Base::me_, Base::own_first_, Base::own_count_,
      Base::kSlots;
  using typename Base::Piece, typename Base::Sums;

 public:
  STRETTO_PRIMITIVE SumChosenRows(Block& block, const SumChosenArgs<Block>& args)
      : Base(block, args.chosen, ChosenGreeting::kSums), its_(args) {}

  STRETTO_PRIMITIVE void run() {
    Base::greet_others();
    Base::send_notes();
    Base::clear_before();
    bool good = sum_and_add();
    if (Base::is_greeting_block()) {
      good = Base::each_id([&](int32 id) { Base::count_if_bad(id); }) && good;
    }
    good = Base::hear_others() && good;
    Base::end(good);
  }

 private:
  static constexpr uint32 kNotes = kSlots / 4;  // vectors of the weights of as many slots

  // Others wait for their tokens' sums; own ones are made while those cross.
  STRETTO_PRIMITIVE bool sum_and_add() {
    const uint32 turn = Base::turn_, all = Base::all_;
    for (uint32 begin = 0; begin < all + turn; begin += turn) {
      if (begin < all && !sum_others(begin)) return false;
      if (begin >= turn && !add(begin + Base::first_ - turn)) return false;
    }
    return true;
  }

  STRETTO_PRIMITIVE uint64 row_of(uint32 token, uint32 slot) const {
    const uint64 choice = static_cast<uint64>(token) * sizes_.top_k + slot;
    if (its_.row_of_choice) return static_cast<uint64>(its_.row_of_choice[choice]);
    return its_.by_choice != 0 ? choice : token;
  }

  // This rank's sum of a piece of a token's row. `any`: whether it has one of them.
  STRETTO_PRIMITIVE bool sum_token(uint32 token, const Piece& its, Sums& sums, bool& any) {
    Base::clear(sums);
    any = false;
    for (uint32 first = 0; first < sizes_.top_k; first += kSlots) {
      int32 ids[kSlots];
      Base::load_ids(token, first, ids);
      bool any_here = false;
      STRETTO_UNROLL for (const int32 id : ids) any_here = Base::is_here(id) || any_here;
      if (!any_here) continue;
      any = true;
      Vec16 rows[kSlots] = {};
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (Base::is_here(ids[j]) && Base::has(its, 0)) {
          rows[j] = its_.rows[row_of(token, first + j) * sizes_.row_vectors + its.at];
        }
      }
      float weights[kSlots] = {};
      if (!find_weights(token, first, weights)) return false;
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (Base::is_here(ids[j])) Base::add_times(sums[0], rows[j], weights[j]);
      }
    }
    return true;
  }
  // Of slots first, first + 1, ...: what the rank has, or once its note has come.
  STRETTO_PRIMITIVE bool find_weights(uint32 token, uint32 first, float (&weights)[kSlots]) {
    if (sizes_.notes_weights == 0 || Base::is_own(token)) {
      const uint32 row = sizes_.notes_weights != 0 ? token - own_first_ : token;
      const uint64 at = static_cast<uint64>(row) * sizes_.top_k + first;
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (first + j < sizes_.top_k) weights[j] = args_.weights[at + j];
      }
      return true;
    }
    Vec16 words[kNotes] = {};
    const uint32 end = (sizes_.top_k + 3) / 4;
    if (!Base::wait_note(Base::rank_of(token), Base::note_of(token), first / 4, end, words)) {
      return false;
    }
    STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
      weights[j] = float_of_bits(words[j / 4].word[j % 4]);
    }
    return true;
  }

  // Other ranks' tokens, to who has them.
  STRETTO_PRIMITIVE bool sum_others(uint32 begin) {
    return Base::each_taken(begin, [&](uint32 rank, const Piece& its) {
      Sums sums;
      bool any = false;
      if (!sum_token(Base::first_of(rank) + its.place, its, sums, any)) return false;
      if (any) Base::send_sums(rank, its, sums);
      return true;
    });
  }

  STRETTO_PRIMITIVE bool add(uint32 p) {
    if (p >= Base::all_) return true;
    const Piece own = Base::piece(p);
    if (own.place >= own_count_) return true;
    Sums sums;
    bool any = false;
    if (!sum_token(own_first_ + own.place, own, sums, any)) return false;
    const Vec16 here[1] = {Format::round(sums[0])};
    return Base::add_sums(own, Base::ranks_of_row(own_first_ + own.place), here, its_.output);
  }

  const SumChosenArgs<Block>& its_;
};

template <class Format, class Block>
STRETTO_KERNEL void sum_chosen_rows(Block& block, const SumChosenArgs<Block>& args) {
  SumChosenRows<Format, Block>(block, args).run();
}

}  // namespace stretto::device
