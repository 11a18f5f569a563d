// Rows to the ranks that have an expert of their choice, in one hop (chosen_rows.h). There each
// lies by its token, or once for each choice whose expert is there. Rows that choose none of a
// rank's experts are not sent there, and their places stay as they were.
//
// Bits arrive as they were sent, but that -0.0 arrives as +0.0, at its own rank also.
#pragma once

#include "stretto/device/lang/kernels/chosen_rows.h"

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
class SendChosenRows : ChosenRows<Format, Block> {
  using Base = ChosenRows<Format, Block>;
  using Base::block_, Base::sizes_, Base::me_, Base::ranks_, Base::share_, Base::own_first_,
      Base::own_count_;

 public:
  STRETTO_PRIMITIVE SendChosenRows(Block& block, const SendChosenArgs<Block>& args)
      : Base(block, args.chosen, ChosenGreeting::kSends), its_(args) {}

  STRETTO_PRIMITIVE void run() {
    Base::greet_others();
    Base::send_notes();
    send();
    Base::clear_before();
    bool good = !Base::is_greeting_block() || count();
    good = Base::hear_others() && good;
    good = good && take_notes() && take_rows();
    Base::end(good);
  }

 private:
  STRETTO_PRIMITIVE void send() {
    const uint32 end = own_count_ * sizes_.row_vectors;
    for (uint32 first = share_.first; first < end; first += kInFlight * share_.step) {
      Vec16 values[kInFlight] = {};
      uint64 ranks[kInFlight];
      STRETTO_UNROLL for (uint32 v = 0; v < kInFlight; ++v) {
        const uint32 i = first + v * share_.step;
        if (i < end) values[v] = its_.input[i];
      }
      STRETTO_UNROLL for (uint32 v = 0; v < kInFlight; ++v) {
        const uint32 i = first + v * share_.step;
        ranks[v] = i < end ? Base::ranks_of(own_first_ + i / sizes_.row_vectors) : 0;
        values[v] = positive_zeros<Format>(values[v]);
      }
      STRETTO_ROLLED for (uint32 k = 1; k < ranks_; ++k) {
        const auto to = static_cast<uint32>(
            rank_after(static_cast<int>(me_), static_cast<int>(k), static_cast<int>(ranks_)));
        auto slots = block_.peer(Base::row_slot(me_, 0), static_cast<int>(to));
        STRETTO_UNROLL for (uint32 v = 0; v < kInFlight; ++v) {
          if ((ranks[v] >> to & 1) != 0) block_.store(slots + (first + v * share_.step), values[v]);
        }
      }
      STRETTO_UNROLL for (uint32 v = 0; v < kInFlight; ++v) {
        const uint32 i = first + v * share_.step;
        if ((ranks[v] >> me_ & 1) == 0) continue;
        const uint32 token = own_first_ + i / sizes_.row_vectors;
        put(token, i % sizes_.row_vectors, values[v]);
      }
    }
  }

  // A vector of a row that has an expert here.
  STRETTO_PRIMITIVE void put(uint32 token, uint32 at, const Vec16& value) {
    if (its_.by_choice == 0) {
      its_.rows[static_cast<uint64>(token) * sizes_.row_vectors + at] = value;
      return;
    }
    const uint64 first = static_cast<uint64>(token) * sizes_.top_k;
    for (uint32 j = 0; j < sizes_.top_k; ++j) {
      if (Base::is_here(Base::known_id(token, j)))
        its_.rows[(first + j) * sizes_.row_vectors + at] = value;
    }
  }

  // Whether tokens choose an expert here: of kMost of them, in turn for each group of their ids.
  template <int kMost>
  STRETTO_PRIMITIVE bool find_chosen(const uint32 (&tokens)[kMost], const bool (&any)[kMost],
                                     bool (&chosen)[kMost]) {
    STRETTO_UNROLL for (int v = 0; v < kMost; ++v) chosen[v] = false;
    if (sizes_.notes_ids == 0) {
      for (uint32 j = 0; j < sizes_.top_k; ++j) {
        STRETTO_UNROLL for (int v = 0; v < kMost; ++v) {
          if (any[v] && Base::is_here(Base::id_of(tokens[v], j))) chosen[v] = true;
        }
      }
      return true;
    }
    for (uint32 group = 0; 4 * group < sizes_.top_k; ++group) {
      Ptr<Block, Vec16> at[kMost] = {};
      Vec16 words[kMost];
      STRETTO_UNROLL for (int v = 0; v < kMost; ++v) {
        if (any[v]) at[v] = Base::note_of(tokens[v]) + group;
      }
      if (!block_.wait_each_not(at, Base::kPoison, words, [&](int v) {
            return static_cast<int>(Base::rank_of(tokens[v]));
          })) {
        return false;
      }
      STRETTO_UNROLL for (int v = 0; v < kMost; ++v) {
        STRETTO_UNROLL for (uint32 w = 0; w < 4; ++w) {
          if (any[v] && 4 * group + w < sizes_.top_k &&
              Base::is_here(static_cast<int32>(words[v].word[w]))) {
            chosen[v] = true;
          }
        }
      }
    }
    return true;
  }

  STRETTO_PRIMITIVE bool take_rows() {
    const uint32 end = Base::others() * sizes_.row_vectors;
    for (uint32 first = share_.first; first < end; first += kInFlight * share_.step) {
      uint32 tokens[kInFlight];
      bool any[kInFlight], chosen[kInFlight];
      STRETTO_UNROLL for (uint32 v = 0; v < kInFlight; ++v) {
        const uint32 i = first + v * share_.step;
        any[v] = i < end;
        tokens[v] = Base::token_of_others(any[v] ? i / sizes_.row_vectors : 0);
      }
      if (!find_chosen(tokens, any, chosen)) return false;
      Ptr<Block, Vec16> at[kInFlight] = {};
      Vec16 values[kInFlight];
      STRETTO_UNROLL for (uint32 v = 0; v < kInFlight; ++v) {
        if (!chosen[v]) continue;
        const uint32 token = tokens[v];
        at[v] = Base::row_slot(Base::rank_of(token), Base::place_of(token)) +
                (first + v * share_.step) % sizes_.row_vectors;
      }
      if (!Base::take(at, values,
                      [&](int v) { return static_cast<int>(Base::rank_of(tokens[v])); })) {
        return false;
      }
      STRETTO_UNROLL for (uint32 v = 0; v < kInFlight; ++v) {
        if (chosen[v]) {
          put(tokens[v], (first + v * share_.step) % sizes_.row_vectors, values[v]);
        }
      }
    }
    return true;
  }

  // Own ids and weights, and others' notes, to where all of them lie.
  STRETTO_PRIMITIVE bool take_notes() {
    const uint32 vectors = sizes_.vectors_of_note();
    for (uint32 i = share_.first; i < sizes_.tokens * vectors; i += share_.step) {
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

  // By the block that greets, which has no share in the rows.
  STRETTO_PRIMITIVE bool count() {
    const auto thread = static_cast<uint32>(block_.thread_idx());
    const auto threads = static_cast<uint32>(block_.num_threads());
    const uint32 first = me_ * Base::experts_of_rank_;
    const uint32 left = first < sizes_.experts ? sizes_.experts - first : 0;
    const uint32 here = left < Base::experts_of_rank_ ? left : Base::experts_of_rank_;
    for (uint32 i = thread; its_.counts && i < here; i += threads) its_.counts[i] = 0;
    block_.sync();
    return Base::each_id([&](int32 id) {
      Base::count_if_bad(id);
      if (!its_.counts || !Base::is_here(id)) return;
      block_.fetch_add(its_.counts + (static_cast<uint32>(id) - first), 1, Order::kRelaxed,
                       Scope::kGpu);
    });
  }

  const SendChosenArgs<Block>& its_;
};

template <class Format, class Block, int kInFlight = 4>
STRETTO_KERNEL void send_chosen_rows(Block& block, const SendChosenArgs<Block>& args) {
  SendChosenRows<Format, kInFlight, Block>(block, args).run();
}

}  // namespace stretto::device
