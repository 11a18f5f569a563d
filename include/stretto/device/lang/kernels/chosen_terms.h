// What a rank's experts made of tokens' rows, as the terms of sums: where they lie, and their
// weights.
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

template <class Format, int kInFlight, class Block>
class ChosenTerms : public ChosenSums<Format, kInFlight, Block> {
  using Base = ChosenSums<Format, kInFlight, Block>;

 protected:
  using Base::args_, Base::sizes_, Base::own_first_, Base::kSlots;

 public:
  STRETTO_PRIMITIVE ChosenTerms(Block& block, const SumChosenArgs<Block>& args)
      : Base(block, args.chosen, ChosenGreeting::kSums), its_(args) {}

 protected:
  // A call; sum() takes part in it, and says whether the thread had what it awaited.
  template <class Sum>
  STRETTO_PRIMITIVE void run_call(Sum sum) {
    Base::greet_others();
    Base::send_notes();
    Base::clear_before();
    bool good = sum();
    good = Base::count_bad_ids() && good;
    good = Base::hear_others() && good;
    Base::end(good);
  }

  STRETTO_PRIMITIVE uint64 row_of(uint32 token, uint32 slot) const {
    const uint64 choice = static_cast<uint64>(token) * sizes_.top_k + slot;
    if (its_.row_of_choice) return static_cast<uint64>(its_.row_of_choice[choice]);
    return its_.by_choice != 0 ? choice : token;
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
    Vec16 words[kSlots / 4] = {};
    if (!Base::wait_slots(token, first, words)) return false;
    STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
      weights[j] = float_of_bits(words[j / 4].word[j % 4]);
    }
    return true;
  }

  const SumChosenArgs<Block>& its_;
};

}  // namespace stretto::device
