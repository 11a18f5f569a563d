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
    Base::run_call([&] {
      if (looks_early(its_)) look_ahead();
      Base::start();
      return sum_and_add();
    });
  }

 private:
  // What a token has chosen here in slots first, first + 1, ...
  struct Named {
    uint32 token = ~0u;  // nobody's
    uint32 rows[kSlots];
    float weights[kSlots];
    uint32 here;  // a bit each
  };
  template <bool kAhead = false>
  STRETTO_PRIMITIVE void name(uint32 token, uint32 first, Named& named) {
    named.token = token;
    named.here = 0;
    int32 ids[kSlots];
    Base::template load_ids<kAhead>(token, first, ids);
    STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
      const bool is_here = Base::is_here(ids[j]);
      if (is_here) named.here |= 1u << j;
      named.rows[j] =
          is_here ? static_cast<uint32>(Base::template row_of<kAhead>(token, first + j)) : 0;
    }
  }
  template <bool kAhead = false>
  STRETTO_PRIMITIVE bool weigh(uint32 token, uint32 first, Named& named) {
    STRETTO_UNROLL for (float& weight : named.weights) weight = 0;
    return Base::template find_weights<kAhead>(token, first, named.weights);
  }
  STRETTO_PRIMITIVE void name_ahead(uint32 token, Named& named) {
    name<true>(token, 0, named);
    if (named.here != 0) weigh<true>(token, 0, named);
  }
  // The first tokens that the thread sums, while the kernel that makes their rows still runs.
  STRETTO_PRIMITIVE void look_ahead() {
    Base::each_taken(0, [&](uint32 rank, const Piece& its) {
      name_ahead(Base::first_of(rank) + its.place, others_);
      return false;
    });
    if (Base::first_ >= Base::all_) return;
    const Piece own = Base::piece(Base::first_);
    if (own.place < own_count_) name_ahead(own_first_ + own.place, own_);
  }

  // Others wait for their tokens' sums; own ones are made while those cross.
  STRETTO_PRIMITIVE bool sum_and_add() {
    const uint32 turn = Base::turn_, all = Base::all_;
    for (uint32 begin = 0; begin < all + turn; begin += turn) {
      if (begin < all && !sum_others(begin)) return false;
      if (begin >= turn && !add(begin + Base::first_ - turn)) return false;
    }
    return true;
  }

  // This rank's sum of a piece of a token's row, of which `ahead` may be looked up already. `any`:
  // whether it has one of them.
  STRETTO_PRIMITIVE bool sum_token(uint32 token, const Named& ahead, const Piece& its, Sums& sums,
                                   bool& any) {
    Base::clear(sums);
    any = false;
    for (uint32 first = 0; first < sizes_.top_k; first += kSlots) {
      Named named = ahead;
      const bool is_named = first == 0 && ahead.token == token;
      if (!is_named) name(token, first, named);
      if (named.here == 0) continue;
      any = true;
      Vec16 rows[kSlots] = {};
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if ((named.here >> j & 1) != 0 && Base::has(its, 0)) {
          rows[j] = its_.rows[static_cast<uint64>(named.rows[j]) * sizes_.row_vectors + its.at];
        }
      }
      if (!is_named && !weigh(token, first, named)) return false;
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if ((named.here >> j & 1) != 0) Base::add_times(sums[0], rows[j], named.weights[j]);
      }
    }
    return true;
  }

  // Other ranks' tokens, to who has them.
  STRETTO_PRIMITIVE bool sum_others(uint32 begin) {
    return Base::each_taken(begin, [&](uint32 rank, const Piece& its) {
      Sums sums;
      bool any = false;
      if (!sum_token(Base::first_of(rank) + its.place, others_, its, sums, any)) return false;
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
    if (!sum_token(own_first_ + own.place, own_, own, sums, any)) return false;
    const Vec16 here[1] = {Format::round(sums[0])};
    return Base::add_sums(own, Base::ranks_of_row(own_first_ + own.place), here, its_.output);
  }

  Named others_, own_;
};

template <class Format, class Block>
STRETTO_KERNEL void sum_chosen_rows(Block& block, const SumChosenArgs<Block>& args) {
  if (!looks_early(args)) wait_for_kernels_before(block);
  SumChosenRows<Format, Block>(block, args).run();
}

}  // namespace stretto::device
