// Rows to the ranks that have an expert of their choice, in one hop (chosen_rows.h). There each
// lies by its token, or once for each choice whose expert is there. Rows that choose none of a
// rank's experts are not sent there, and their places stay as they were.
//
// Bits arrive as they were sent, but that -0.0 arrives as +0.0, at its own rank also.
//
// Slots are used again without an answer: every rank greets every other in each call, also without
// a token, and hears all before it ends. So who is in call e + 2 knows that all have ended call e,
// whether or not sums of it have come back.
#pragma once

#include "stretto/device/lang/kernels/chosen_sender.h"

namespace stretto::device {

template <class Block>
struct SendChosenArgs {
  ChosenArgs<Block> chosen;
  Ptr<Block, const Vec16> input;  // local: rows of own tokens
  Ptr<Block, Vec16> rows;         // local: of all tokens, or of all their choices
  uint32 by_choice;               // 1: token t's choice j in row t * top_k + j
  // Local, of all tokens; null where ranks have them already, or nobody wants them.
  Ptr<Block, int32> all_ids;
  Ptr<Block, float> all_weights;
  Ptr<Block, uint32> counts;  // local: choices of each expert of this rank; null: nobody wants them
};

template <class Format, int kInFlight, class Block>
class SendChosenRows : protected ChosenSender<Format, kInFlight, Block> {
  using Base = ChosenSender<Format, kInFlight, Block>;

 protected:
  using Base::block_, Base::sizes_, Base::me_, Base::share_, Base::own_first_, Base::kSlots;
  using typename Base::Piece;

 public:
  STRETTO_PRIMITIVE SendChosenRows(Block& block, const SendChosenArgs<Block>& args,
                                   uint32 others = 1)
      : Base(block, args.chosen, ChosenGreeting::kSends, args.input, others), its_(args) {}

  STRETTO_PRIMITIVE void run() {
    Base::load(Base::first_);
    Base::greet_others();
    Base::send_notes();
    Base::clear_before();
    bool good = send_and_take();
    good = count() && good;
    good = Base::hear_others() && good;
    good = good && take_notes(share_.first, share_.step);
    Base::end(good);
  }

 protected:
  STRETTO_PRIMITIVE bool send_and_take() {
    const uint32 turn = Base::turn_;
    for (uint32 begin = 0; begin < Base::all_ + turn; begin += turn) {
      const uint32 p = begin + Base::first_;
      if (Base::send(p)) {
        const Piece own = Base::piece(p);
        if (!put(own_first_ + own.place, own, this->values_)) return false;
      }
      Base::load(p + turn);
      if (begin >= turn && !take(begin - turn)) return false;
    }
    return true;
  }

  // Slots first, first + 1, ... of a token: what the rank has, or once its note has come.
  STRETTO_PRIMITIVE bool find_ids(uint32 token, uint32 first, int32 (&ids)[kSlots]) {
    if (sizes_.notes_ids == 0 || Base::is_own(token)) {
      Base::load_ids(sizes_.notes_ids != 0 ? token - own_first_ : token, first, ids);
      return true;
    }
    Vec16 words[kSlots / 4] = {};
    if (!Base::wait_slots(token, first, words)) return false;
    STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
      ids[j] = first + j < sizes_.top_k ? static_cast<int32>(words[j / 4].word[j % 4]) : kNoExpert;
    }
    return true;
  }

  STRETTO_PRIMITIVE bool take(uint32 begin) {
    return Base::each_taken(begin, [&](uint32 rank, const Piece& its) {
      const uint32 token = Base::first_of(rank) + its.place;
      bool any = false;
      for (uint32 first = 0; first < sizes_.top_k; first += kSlots) {
        int32 ids[kSlots];
        if (!find_ids(token, first, ids)) return false;
        STRETTO_UNROLL for (const int32 id : ids) any = Base::is_here(id) || any;
      }
      if (!any) return true;
      Ptr<Block, Vec16> at[kInFlight] = {};
      Vec16 values[kInFlight] = {};
      Base::find(its, Base::row_slot(rank, its.place), at);
      if (!Base::take(at, values, [rank](int) { return static_cast<int>(rank); })) return false;
      return put(token, its, values);
    });
  }

  // A piece of a row that has an expert here.
  STRETTO_PRIMITIVE bool put(uint32 token, const Piece& its, const Vec16 (&values)[kInFlight]) {
    if (its_.by_choice == 0) {
      put_row(token, its, values);
      return true;
    }
    for (uint32 first = 0; first < sizes_.top_k; first += kSlots) {
      int32 ids[kSlots];
      if (!find_ids(token, first, ids)) return false;
      const uint64 choice = static_cast<uint64>(token) * sizes_.top_k + first;
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (Base::is_here(ids[j])) put_row(choice + j, its, values);
      }
    }
    return true;
  }
  STRETTO_PRIMITIVE void put_row(uint64 row, const Piece& its, const Vec16 (&values)[kInFlight]) {
    auto to = its_.rows + row * sizes_.row_vectors + its.at;
    STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
      if (Base::has(its, u)) to[u * Base::lanes_] = values[u];
    }
  }

  // Own ids and weights, and others' notes, to where all of them lie: vectors first, first + step,
  // ... of all tokens'.
  STRETTO_PRIMITIVE bool take_notes(uint32 first, uint32 step) {
    const uint32 vectors = sizes_.vectors_of_note();
    for (uint32 i = first; i < sizes_.tokens * vectors; i += step) {
      const uint32 token = i / vectors, at = i % vectors;
      Vec16 words;
      if (Base::is_own(token)) {
        STRETTO_UNROLL for (uint32 w = 0; w < 4; ++w) {
          words.word[w] = Base::note_word(token - own_first_, 4 * at + w);
        }
      } else if (!Base::read_note(token, at, words)) {
        return false;
      }
      STRETTO_UNROLL for (uint32 w = 0; w < 4; ++w) put_note(token, 4 * at + w, words.word[w]);
    }
    return true;
  }
  STRETTO_PRIMITIVE void put_note(uint32 token, uint32 w, uint32 word) {
    if (w >= sizes_.words_of_note()) return;
    const uint64 at = static_cast<uint64>(token) * sizes_.top_k + w % sizes_.top_k;
    if (sizes_.notes_ids != 0 && w < sizes_.top_k) {
      if (its_.all_ids) its_.all_ids[at] = static_cast<int32>(word);
    } else if (its_.all_weights) {
      its_.all_weights[at] = float_of_bits(word);
    }
  }

  // Of experts by the block that greets, which has no share in the rows.
  STRETTO_PRIMITIVE bool count() {
    if (!its_.counts) return Base::count_bad_ids();
    if (!Base::is_greeting_block()) return true;
    const auto thread = static_cast<uint32>(block_.thread_idx());
    const auto threads = static_cast<uint32>(block_.num_threads());
    const uint32 first = me_ * Base::next_ranks_;
    const uint32 left = first < sizes_.experts ? sizes_.experts - first : 0;
    const uint32 here = left < Base::experts_of_rank_ ? left : Base::experts_of_rank_;
    for (uint32 i = thread; i < here; i += threads) its_.counts[i] = 0;
    block_.sync();
    return Base::each_id(thread, threads, [&](int32 id) {
      Base::count_if_bad(id);
      if (!Base::is_here(id)) return;
      block_.fetch_add(its_.counts + (static_cast<uint32>(id) - first), 1, Order::kRelaxed,
                       Scope::kGpu);
    });
  }

  const SendChosenArgs<Block>& its_;
};

template <class Format, class Block, int kInFlight = 2>
STRETTO_KERNEL void send_chosen_rows(Block& block, const SendChosenArgs<Block>& args) {
  SendChosenRows<Format, kInFlight, Block>(block, args).run();
}

}  // namespace stretto::device
