// Rows to the ranks of the experts that they choose and back as weighted sums, in one call, where
// nothing else is made of them (chosen_rows.h): who gets a row multiplies it by its weights from
// the slot in which it came, and sends the sum back at once. So a row is stored in no other place,
// and nobody waits for more than the piece of a row that he has in hand.
//
// Bits are those of send_chosen_rows.h and sum_chosen_rows.h one behind the other.
//
// Of its pieces (chosen_pieces.h) a thread sends that of turn n, then takes others' of turn n - 1,
// then the sums of turn n - 2: rows and sums of many tokens are on the link together.
#pragma once

#include "stretto/device/lang/kernels/chosen_sender.h"
#include "stretto/device/lang/kernels/chosen_sums.h"

namespace stretto::device {

template <class Block>
struct RoundTripArgs {
  ChosenArgs<Block> chosen;       // ids and weights of own tokens; notes of both
  Ptr<Block, const Vec16> input;  // local: own tokens' rows
  Ptr<Block, Vec16> output;       // local: their sums
};

template <class Format, int kInFlight, class Block>
class RoundTripRows : ChosenSender<Format, kInFlight, Block, ChosenSums<Format, kInFlight, Block>> {
  using Base = ChosenSender<Format, kInFlight, Block, ChosenSums<Format, kInFlight, Block>>;
  using Base::args_, Base::block_, Base::sizes_, Base::me_, Base::ranks_, Base::share_,
      Base::own_count_, Base::kSlots;
  using typename Base::Piece, typename Base::Sums;

 public:
  STRETTO_PRIMITIVE RoundTripRows(Block& block, const RoundTripArgs<Block>& args)
      : Base(block, args.chosen, ChosenGreeting::kBoth, args.input), its_(args) {}

  STRETTO_PRIMITIVE void run() {
    Base::load(Base::first_);
    Base::greet_others();
    send_notes();
    Base::clear_before();
    bool good = trips();
    good = count_bad() && good;
    good = Base::hear_others() && good;
    Base::end(good);
  }

 private:
  static constexpr uint32 kNotes = kSlots / 2;  // vectors of notes of as many slots

  STRETTO_PRIMITIVE bool trips() {
    const uint32 turn = Base::turn_, all = Base::all_;
    for (uint32 begin = 0; begin < all + 2 * turn; begin += turn) {
      const uint32 p = begin + Base::first_;
      Base::send(p);
      Base::load(p + turn);
      if (begin >= turn && begin - turn < all && !weigh(begin - turn)) return false;
      if (begin >= 2 * turn && !add(p - 2 * turn)) return false;
    }
    return true;
  }

  // A note is pairs of an id and its weight, two a vector.
  STRETTO_PRIMITIVE void send_notes() {
    const uint32 vectors = sizes_.vectors_of_note();
    for (uint32 i = share_.first; i < own_count_ * vectors; i += share_.step) {
      const uint32 place = i / vectors, slot = i % vectors * 2;
      const uint64 choice = static_cast<uint64>(place) * sizes_.top_k + slot;
      Vec16 words = {{Base::noted_id(choice), Base::noted_weight(choice), 0, 0}};
      if (slot + 1 < sizes_.top_k) {
        words.word[2] = Base::noted_id(choice + 1);
        words.word[3] = Base::noted_weight(choice + 1);
      }
      send_to_others<Block>(block_, Base::note_slot(this->call_.now, me_, place) + slot / 2, words);
    }
  }

  STRETTO_PRIMITIVE bool weigh(uint32 begin) {
    return Base::each_taken(begin,
                            [&](uint32 rank, const Piece& its) { return weigh_of(rank, its); });
  }
  STRETTO_PRIMITIVE bool weigh_of(uint32 rank, const Piece& its) {
    const auto from = [rank](int) { return static_cast<int>(rank); };
    auto note = Base::note_slot(this->call_.now, rank, its.place);
    Vec16 pairs[kNotes] = {};
    bool any = false;
    for (uint32 first = 0; first < sizes_.top_k; first += kSlots) {
      if (!Base::wait_note(rank, note, first / 2, (sizes_.top_k + 1) / 2, pairs)) return false;
      each_here(pairs, first, [&](float) { any = true; });
    }
    if (!any) return true;
    Ptr<Block, Vec16> at[kInFlight] = {};
    Vec16 rows[kInFlight] = {};
    Base::find(its, Base::row_slot(rank, its.place), at);
    if (!Base::take(at, rows, from)) return false;
    Sums sums;
    Base::clear(sums);
    for (uint32 first = 0; first < sizes_.top_k; first += kSlots) {
      if (sizes_.top_k > kSlots) {  // they have come
        STRETTO_UNROLL for (uint32 v = 0; v < kNotes; ++v) {
          if (first + 2 * v < sizes_.top_k) pairs[v] = block_.load(note + (first / 2 + v));
        }
      }
      each_here(pairs, first, [&](float weight) { add_rows(sums, rows, weight); });
    }
    Base::send_sums(rank, its, sums);
    return true;
  }
  static STRETTO_PRIMITIVE void add_rows(Sums& sums, const Vec16 (&rows)[kInFlight], float weight) {
    STRETTO_UNROLL for (int u = 0; u < kInFlight; ++u) Base::add_times(sums[u], rows[u], weight);
  }
  // visit(weight) for each slot from `first` on, of these, whose expert is here.
  template <class Visit>
  STRETTO_PRIMITIVE void each_here(const Vec16 (&pairs)[kNotes], uint32 first, Visit visit) const {
    STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
      const Vec16& pair = pairs[j / 2];
      const auto id = static_cast<int32>(pair.word[2 * (j % 2)]);
      if (first + j < sizes_.top_k && Base::is_here(id)) {
        visit(float_of_bits(pair.word[2 * (j % 2) + 1]));
      }
    }
  }

  // Own tokens' sums of all ranks.
  STRETTO_PRIMITIVE bool add(uint32 p) {
    if (p >= Base::all_) return true;
    const Piece own = Base::piece(p);
    if (own.place >= own_count_) return true;
    Vec16 here[kInFlight] = {};
    Base::load_row(own, here);
    Sums sums;
    Base::clear(sums);
    uint64 ranks = 0;
    for (uint32 first = 0; first < sizes_.top_k; first += kSlots) {
      int32 ids[kSlots];
      Base::load_ids(own.place, first, ids);
      float weights[kSlots] = {};
      const uint64 row = static_cast<uint64>(own.place) * sizes_.top_k + first;
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (first + j < sizes_.top_k) weights[j] = args_.weights[row + j];
      }
      ranks |= Base::ranks_with(ids);
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (Base::is_here(ids[j])) add_rows(sums, here, weights[j]);
      }
    }
    STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) here[u] = Format::round(sums[u]);
    return Base::add_sums(own, ranks, here, its_.output);
  }

  // Pairs of a note are two choices.
  STRETTO_PRIMITIVE bool count_bad() {
    if (!args_.bad_ids) return true;
    const uint32 vectors = sizes_.vectors_of_note();
    const ThreadShare own = Base::counted(sizes_.tokens * vectors);
    for (uint32 i = own.first; i < sizes_.tokens * vectors; i += own.step) {
      const uint32 token = i / vectors, slot = i % vectors * 2;
      const bool is_own = Base::is_own(token);
      Vec16 pairs = {};
      if (!is_own && !Base::read_note(token, slot / 2, pairs)) return false;
      STRETTO_UNROLL for (uint32 j = 0; j < 2; ++j) {
        if (slot + j >= sizes_.top_k) break;
        Base::count_if_bad(is_own ? Base::id_of(token, slot + j)
                                  : static_cast<int32>(pairs.word[2 * j]));
      }
    }
    return true;
  }

  const RoundTripArgs<Block>& its_;
};

template <class Format, class Block, int kInFlight = 2>
STRETTO_KERNEL void round_trip_rows(Block& block, const RoundTripArgs<Block>& args) {
  RoundTripRows<Format, kInFlight, Block>(block, args).run();
}

}  // namespace stretto::device
