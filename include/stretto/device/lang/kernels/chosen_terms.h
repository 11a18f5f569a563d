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
  // Of few rows (sum_chosen_rows.h). 1: the kernel before this one makes rows alone, and it, or one
  // like it ahead of it, has waited for whoever made ids, weights and row_of_choice before the next
  // could start: so these are looked up before it has ended.
  uint32 looks_early;
};

// Notes cross behind all that the stream did before, and are looked up behind that.
template <class Block>
STRETTO_PRIMITIVE bool looks_early(const SumChosenArgs<Block>& args) {
  return args.looks_early != 0 && args.chosen.sizes.vectors_of_note() == 0;
}
// Where a kernel of sums waits for its stream itself: ahead of all else, or behind its first
// look-ups.
template <class Block>
STRETTO_KERNEL void wait_for_kernels_before(Block& block) {
  block.wait_for_kernel_before();
  block.let_next_start();
}

template <class Format, int kInFlight, class Block>
class ChosenTerms : public ChosenSums<Format, kInFlight, Block> {
  using Base = ChosenSums<Format, kInFlight, Block>;

 protected:
  using Base::args_, Base::block_, Base::sizes_, Base::own_first_, Base::kSlots;

 public:
  STRETTO_PRIMITIVE ChosenTerms(Block& block, const SumChosenArgs<Block>& args)
      : Base(block, args.chosen, ChosenGreeting::kSums), its_(args) {}

 protected:
  // A call; sum() takes part in it, and says whether the thread had what it awaited. It calls
  // start() behind what it looks up early.
  template <class Sum>
  STRETTO_PRIMITIVE void run_call(Sum sum) {
    if (!looks_early(its_)) Base::greet_others();
    Base::send_notes();
    bool good = sum();
    good = Base::count_bad_ids() && good;
    good = Base::hear_others() && good;
    Base::end(good);
  }
  STRETTO_PRIMITIVE void start() {
    if (looks_early(its_)) {
      wait_for_kernels_before(block_);
      Base::greet_others();
    }
    Base::clear_before();
  }

  template <bool kAhead = false>
  STRETTO_PRIMITIVE uint64 row_of(uint32 token, uint32 slot) {
    const uint64 choice = static_cast<uint64>(token) * sizes_.top_k + slot;
    if (its_.row_of_choice) {
      return static_cast<uint64>(Base::template read<kAhead>(its_.row_of_choice + choice));
    }
    return its_.by_choice != 0 ? choice : token;
  }
  // Of slots first, first + 1, ...: what the rank has, or once its note has come.
  template <bool kAhead = false>
  STRETTO_PRIMITIVE bool find_weights(uint32 token, uint32 first, float (&weights)[kSlots]) {
    if (sizes_.notes_weights == 0 || Base::is_own(token)) {
      const uint32 row = sizes_.notes_weights != 0 ? token - own_first_ : token;
      const uint64 at = static_cast<uint64>(row) * sizes_.top_k + first;
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (first + j < sizes_.top_k) {
          weights[j] = Base::template read<kAhead>(args_.weights + (at + j));
        }
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
