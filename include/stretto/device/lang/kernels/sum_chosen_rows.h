// The way back of rows that chose experts (chosen_rows.h): a rank adds up, for each token, what its
// experts made of it, times the token's weights; who has the token adds up what ranks with a chosen
// expert made.
//
// A rank's sum is of fused multiply-adds in fp32 in the order of the slots, rounded once; the
// token's is of these in fp32 in rank order, rounded once. So its bits hang on nothing but data.
#pragma once

#include "stretto/device/fused.h"
#include "stretto/device/lang/kernels/chosen_rows.h"

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

template <class Format, int kInFlight, class Block>
class SumChosenRows : ChosenRows<Format, Block> {
  using Base = ChosenRows<Format, Block>;
  using Base::args_, Base::block_, Base::sizes_, Base::me_, Base::ranks_, Base::share_,
      Base::own_first_, Base::own_count_;

 public:
  STRETTO_PRIMITIVE SumChosenRows(Block& block, const SumChosenArgs<Block>& args)
      : Base(block, args.chosen, ChosenGreeting::kSums), its_(args) {}

  STRETTO_PRIMITIVE void run() {
    Base::greet_others();
    Base::send_notes();
    Base::clear_before();
    // While others' weights are on their way own tokens have theirs; else others wait for sums.
    const bool awaits = sizes_.notes_weights != 0;
    bool good = true;
    if (awaits) good = sum_own();
    good = good && sum_others();
    if (!awaits) good = good && sum_own();
    if (Base::is_greeting_block()) {
      good = Base::each_id([&](int32 id) { Base::count_if_bad(id); }) && good;
    }
    good = Base::hear_others() && good;
    good = good && add_sums();
    Base::end(good);
  }

 private:
  static constexpr uint32 kSlots = 4;  // whose rows are loaded together

  STRETTO_PRIMITIVE uint64 row_of(uint32 token, uint32 slot) const {
    const uint64 choice = static_cast<uint64>(token) * sizes_.top_k + slot;
    if (its_.row_of_choice) return static_cast<uint64>(its_.row_of_choice[choice]);
    return its_.by_choice != 0 ? choice : token;
  }

  // This rank's sum of vector `at` of a token's rows. `any`: whether it has one of them.
  STRETTO_PRIMITIVE bool sum_token(uint32 token, uint32 at, float (&sums)[Format::kElements],
                                   bool& any) {
    STRETTO_UNROLL for (float& sum : sums) sum = 0;
    any = false;
    const bool noted = sizes_.notes_weights != 0 && !Base::is_own(token);
    const uint32 weights_of = sizes_.notes_weights != 0 ? token - own_first_ : token;
    for (uint32 group = 0; group * kSlots < sizes_.top_k; ++group) {
      const uint32 first = group * kSlots;
      bool here[kSlots];
      Vec16 rows[kSlots] = {};
      float weights[kSlots] = {};
      bool any_here = false;
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        here[j] = first + j < sizes_.top_k && Base::is_here(Base::id_of(token, first + j));
        any_here = any_here || here[j];
      }
      if (!any_here) continue;
      any = true;
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (here[j]) rows[j] = its_.rows[row_of(token, first + j) * sizes_.row_vectors + at];
      }
      if (noted) {
        static_assert(kSlots == 4, "a group's weights are a vector of the note");
        Vec16 words;
        if (!Base::read_note(token, group, words)) return false;
        STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) weights[j] =
            float_of_bits(words.word[j]);
      } else {
        const uint64 row = static_cast<uint64>(weights_of) * sizes_.top_k + first;
        STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
          if (here[j]) weights[j] = args_.weights[row + j];
        }
      }
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (!here[j]) continue;
        float values[Format::kElements];
        Format::read(values, rows[j]);
        STRETTO_UNROLL for (int e = 0; e < Format::kElements; ++e) {
          sums[e] = fused(weights[j], values[e], sums[e]);
        }
      }
    }
    return true;
  }

  // Others' tokens, to who has them, the next rank's first.
  STRETTO_PRIMITIVE bool sum_others() {
    const uint32 end = Base::others() * sizes_.row_vectors;
    for (uint32 i = share_.first; i < end; i += share_.step) {
      const uint32 token = Base::token_of_others(i / sizes_.row_vectors);
      const uint32 at = i % sizes_.row_vectors;
      float sums[Format::kElements];
      bool any = false;
      if (!sum_token(token, at, sums, any)) return false;
      if (!any) continue;
      auto to = block_.peer(Base::row_slot(me_, Base::place_of(token)),
                            static_cast<int>(Base::rank_of(token)));
      block_.store(to + at, canonical<Format>(Format::round(sums)));
    }
    return true;
  }

  // Own tokens, to the slots of this rank, which nobody awaits: the thread takes them again itself.
  STRETTO_PRIMITIVE bool sum_own() {
    const uint32 end = own_count_ * sizes_.row_vectors;
    auto slots = Base::row_slot(me_, 0);
    for (uint32 i = share_.first; i < end; i += share_.step) {
      float sums[Format::kElements];
      bool any = false;
      if (!sum_token(own_first_ + i / sizes_.row_vectors, i % sizes_.row_vectors, sums, any)) {
        return false;
      }
      if (any) slots[i] = Format::round(sums);
    }
    return true;
  }

  // Of own tokens all ranks' sums, of each thread the vectors that it had in sum_own().
  STRETTO_PRIMITIVE bool add_sums() {
    const uint32 end = own_count_ * sizes_.row_vectors;
    PartWalk walk = PartWalk::of_all(block_, share_, end);
    float sums[Format::kElements] = {};
    while (walk.any()) {
      Ptr<Block, Vec16> at[kInFlight] = {};
      Vec16 values[kInFlight] = {};
      bool sent[kInFlight] = {};
      walk.template turn<kInFlight>([&](int j, int rank, uint32 i) {
        const uint64 ranks = Base::ranks_of(own_first_ + i / sizes_.row_vectors);
        if ((ranks >> rank & 1) == 0) return;
        auto slot = Base::row_slot(static_cast<uint32>(rank), 0) + i;
        if (static_cast<uint32>(rank) == me_) {
          values[j] = slot[0];
        } else {
          at[j] = slot;
        }
        sent[j] = true;
      });
      if (!Base::take(at, values, [&](int j) { return walk.rank_of(j); })) return false;
      walk = walk.template turn<kInFlight>([&](int j, int rank, uint32 i) {
        if (rank == 0) {
          STRETTO_UNROLL for (float& sum : sums) sum = 0;
        }
        if (sent[j]) Format::add(sums, values[j]);
        if (rank == block_.num_ranks() - 1) its_.output[i] = Format::round(sums);
      });
    }
    return true;
  }

  const SumChosenArgs<Block>& its_;
};

template <class Format, class Block, int kInFlight = 4>
STRETTO_KERNEL void sum_chosen_rows(Block& block, const SumChosenArgs<Block>& args) {
  SumChosenRows<Format, kInFlight, Block>(block, args).run();
}

}  // namespace stretto::device
