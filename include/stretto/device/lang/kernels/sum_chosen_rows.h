// The way back of rows that chose experts (chosen_rows.h): a rank adds up, for each token, what its
// experts made of it, times the token's weights; who has the token adds up what ranks with a chosen
// expert made.
//
// A rank's sum is of fused multiply-adds in fp32 in the order of the slots, rounded once; the
// token's is of these in fp32 in rank order, rounded once. So its bits hang on nothing but data.
#pragma once

#include "stretto/device/lang/kernels/chosen_terms.h"

namespace stretto::device {

// A thread loads the rows of eight choices of one vector together.
template <class Format, class Block>
class SumChosenRows : ChosenTerms<Format, 1, Block> {
  using Base = ChosenTerms<Format, 1, Block>;
  using Base::its_, Base::sizes_, Base::own_first_, Base::own_count_, Base::kSlots;
  using typename Base::Piece, typename Base::Sums;

 public:
  STRETTO_PRIMITIVE SumChosenRows(Block& block, const SumChosenArgs<Block>& args)
      : Base(block, args) {}

  STRETTO_PRIMITIVE void run() {
    Base::run_call([&] { return sum_and_add(); });
  }

 private:
  // Others wait for their tokens' sums; own ones are made while those cross.
  STRETTO_PRIMITIVE bool sum_and_add() {
    const uint32 turn = Base::turn_, all = Base::all_;
    for (uint32 begin = 0; begin < all + turn; begin += turn) {
      if (begin < all && !sum_others(begin)) return false;
      if (begin >= turn && !add(begin + Base::first_ - turn)) return false;
    }
    return true;
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
          rows[j] = its_.rows[Base::row_of(token, first + j) * sizes_.row_vectors + its.at];
        }
      }
      float weights[kSlots] = {};
      if (!Base::find_weights(token, first, weights)) return false;
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (Base::is_here(ids[j])) Base::add_times(sums[0], rows[j], weights[j]);
      }
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
};

template <class Format, class Block>
STRETTO_KERNEL void sum_chosen_rows(Block& block, const SumChosenArgs<Block>& args) {
  SumChosenRows<Format, Block>(block, args).run();
}

}  // namespace stretto::device
