// Rows to the ranks of the experts that they choose and back as weighted sums, in one call, where
// nothing else is made of them (chosen_rows.h): who gets a row multiplies it by its weights from
// the slot in which it came, and sends the sum back at once. So a row is stored in no other place,
// and nobody waits for more than the piece of a row that he has in hand.
//
// Bits are those of send_chosen_rows.h and sum_chosen_rows.h one behind the other.
//
// Threads of all ranks have the same pieces: what one sends, the one of its number takes, and sends
// the sum back to it. It sends its piece of turn n, then takes others' of turn n - 1, then the sums
// of turn n - 2. So what it waits for was sent ahead of whatever its sender waits for from then on,
// and rows and sums of many tokens are on the link together.
#pragma once

#include "stretto/device/fused.h"
#include "stretto/device/lang/kernels/chosen_rows.h"

namespace stretto::device {

template <class Block>
struct RoundTripArgs {
  ChosenArgs<Block> chosen;       // ids and weights of own tokens; notes of both
  Ptr<Block, const Vec16> input;  // local: own tokens' rows
  Ptr<Block, Vec16> output;       // local: their sums
};

template <class Format, int kInFlight, class Block>
class RoundTripRows : ChosenRows<Format, Block> {
  using Base = ChosenRows<Format, Block>;
  using Base::args_, Base::block_, Base::sizes_, Base::me_, Base::ranks_, Base::share_,
      Base::own_first_, Base::own_count_;

 public:
  STRETTO_PRIMITIVE RoundTripRows(Block& block, const RoundTripArgs<Block>& args)
      : Base(block, args.chosen, ChosenGreeting::kBoth), its_(args) {
    const auto warp = static_cast<uint32>(block.warp_size());
    lanes_ = static_cast<uint32>(block.num_threads()) % warp == 0 ? warp : 1;
    pieces_ = (sizes_.row_vectors + kInFlight * lanes_ - 1) / (kInFlight * lanes_);
    turn_ = share_.step / lanes_;
    all_ = sizes_.block_tokens * pieces_;
  }

  STRETTO_PRIMITIVE void run() {
    // The greeting block has none.
    const bool works = share_.first != ThreadShare::kNone;
    const uint32 first = works ? share_.first / lanes_ : all_;
    load(first);
    Base::greet_others();
    send_notes();
    Base::clear_before();
    bool good = !works || trips(first);
    if (Base::is_greeting_block()) good = count_bad() && good;
    good = Base::hear_others() && good;
    Base::end(good);
  }

 private:
  static constexpr uint32 kSlots = 8;           // of a token, looked at together
  static constexpr uint32 kNotes = kSlots / 2;  // the vectors of their notes
  // Whose sums are taken together.
  static constexpr uint32 kRanks = kInFlight < 4 ? 4 / kInFlight : 1;

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

  STRETTO_PRIMITIVE bool trips(uint32 first) {
    for (uint32 p = first; p < all_ + 2 * turn_; p += turn_) {
      send(p);
      load(p + turn_);
      if (p >= turn_ && p - turn_ < all_ && !weigh(p - turn_)) return false;
      if (p >= 2 * turn_ && !add(p - 2 * turn_)) return false;
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

  // Slots first, first + 1, ... of own token `place`.
  STRETTO_PRIMITIVE void load_ids(uint32 place, uint32 first, int32 (&ids)[kSlots]) const {
    const uint64 row = static_cast<uint64>(place) * sizes_.top_k + first;
    STRETTO_UNROLL for (int32& id : ids) id = kNoExpert;
    if (args_.wide_ids) {
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (first + j < sizes_.top_k) ids[j] = narrow_id(args_.wide_ids[row + j]);
      }
    } else {
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (first + j < sizes_.top_k) ids[j] = args_.ids[row + j];
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

  STRETTO_PRIMITIVE void load(uint32 p) {
    goes_ = 0;
    const Piece own = piece(p);
    if (own.place >= own_count_) return;
    auto row = its_.input + static_cast<uint64>(own.place) * sizes_.row_vectors + own.at;
    STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
      if (has(own, u)) values_[u] = row[u * lanes_];
    }
    for (uint32 first = 0; first < sizes_.top_k; first += kSlots) {
      int32 ids[kSlots];
      load_ids(own.place, first, ids);
      goes_ |= ranks_with(ids);
    }
  }
  // What load(p) has loaded.
  STRETTO_PRIMITIVE void send(uint32 p) {
    if (goes_ == 0) return;
    const Piece own = piece(p);
    auto slots = Base::row_slot(me_, own.place) + own.at;
    STRETTO_UNROLL for (Vec16& value : values_) value = positive_zeros<Format>(value);
    STRETTO_ROLLED for (uint32 k = 1; k < ranks_; ++k) {
      const int to = rank_after(static_cast<int>(me_), static_cast<int>(k), block_.num_ranks());
      if ((goes_ >> to & 1) == 0) continue;
      auto at = block_.peer(slots, to);
      STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
        if (has(own, u)) block_.store(at + u * lanes_, values_[u]);
      }
    }
  }

  using Sums = float[kInFlight][Format::kElements];
  static STRETTO_PRIMITIVE void clear(Sums& sums) {
    STRETTO_UNROLL for (auto& of_vector : sums) {
      STRETTO_UNROLL for (float& sum : of_vector) sum = 0;
    }
  }
  static STRETTO_PRIMITIVE void add_times(Sums& sums, const Vec16 (&rows)[kInFlight],
                                          float weight) {
    STRETTO_UNROLL for (int u = 0; u < kInFlight; ++u) {
      float values[Format::kElements];
      Format::read(values, rows[u]);
      STRETTO_UNROLL for (int e = 0; e < Format::kElements; ++e) {
        sums[u][e] = fused(weight, values[e], sums[u][e]);
      }
    }
  }

  // Of the other ranks' tokens of that place.
  STRETTO_PRIMITIVE bool weigh(uint32 p) {
    const Piece its = piece(p);
    STRETTO_ROLLED for (uint32 k = 1; k < ranks_; ++k) {
      const int from = rank_after(static_cast<int>(me_), static_cast<int>(k), block_.num_ranks());
      const uint32 first_token = Base::first_of(static_cast<uint32>(from));
      if (its.place >= Base::first_of(static_cast<uint32>(from) + 1) - first_token) continue;
      if (!weigh_of(from, its)) return false;
    }
    return true;
  }
  STRETTO_PRIMITIVE bool weigh_of(int from, const Piece& its) {
    const auto from_rank = [from](int) { return from; };
    auto note = Base::note_slot(this->call_.now, static_cast<uint32>(from), its.place);
    Vec16 pairs[kNotes] = {};
    bool any = false;
    for (uint32 first = 0; first < sizes_.top_k; first += kSlots) {
      Ptr<Block, Vec16> at[kNotes] = {};
      STRETTO_UNROLL for (uint32 v = 0; v < kNotes; ++v) {
        if (first + 2 * v < sizes_.top_k) at[v] = note + (first / 2 + v);
      }
      if (!block_.wait_each_not(at, Base::kPoison, pairs, from_rank)) return false;
      each_here(pairs, first, [&](float) { any = true; });
    }
    if (!any) return true;
    auto slots = Base::row_slot(static_cast<uint32>(from), its.place) + its.at;
    Ptr<Block, Vec16> at[kInFlight] = {};
    Vec16 rows[kInFlight] = {};
    STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
      if (has(its, u)) at[u] = slots + u * lanes_;
    }
    if (!Base::take(at, rows, from_rank)) return false;
    Sums sums;
    clear(sums);
    for (uint32 first = 0; first < sizes_.top_k; first += kSlots) {
      if (sizes_.top_k > kSlots) {  // they have come
        STRETTO_UNROLL for (uint32 v = 0; v < kNotes; ++v) {
          if (first + 2 * v < sizes_.top_k) pairs[v] = block_.load(note + (first / 2 + v));
        }
      }
      each_here(pairs, first, [&](float weight) { add_times(sums, rows, weight); });
    }
    auto back = block_.peer(sum_slot(me_, its.place) + its.at, from);
    STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
      if (has(its, u)) {
        block_.store(back + u * lanes_, canonical<Format>(Format::round(sums[u])));
      }
    }
    return true;
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

  // Sums of own tokens by rank, behind those of rows.
  STRETTO_PRIMITIVE Ptr<Block, Vec16> sum_slot(uint32 of, uint32 place) const {
    const uint64 rows = uint64{2} * ranks_ * sizes_.block_tokens;
    return Base::row_slot(of, place) + rows * sizes_.row_vectors;
  }

  // Own tokens' sums of all ranks.
  STRETTO_PRIMITIVE bool add(uint32 p) {
    const Piece own = piece(p);
    if (own.place >= own_count_) return true;
    const uint64 at_row = static_cast<uint64>(own.place) * sizes_.row_vectors + own.at;
    Vec16 here[kInFlight] = {};
    STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
      if (has(own, u)) here[u] = positive_zeros<Format>(its_.input[at_row + u * lanes_]);
    }
    Sums sums;
    clear(sums);
    uint64 ranks = 0;
    for (uint32 first = 0; first < sizes_.top_k; first += kSlots) {
      int32 ids[kSlots];
      load_ids(own.place, first, ids);
      float weights[kSlots] = {};
      const uint64 row = static_cast<uint64>(own.place) * sizes_.top_k + first;
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (first + j < sizes_.top_k) weights[j] = args_.weights[row + j];
      }
      ranks |= ranks_with(ids);
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (Base::is_here(ids[j])) add_times(sums, here, weights[j]);
      }
    }
    STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) here[u] = Format::round(sums[u]);
    clear(sums);
    for (uint32 base = 0; base < ranks_; base += kRanks) {
      if (!add_ranks(base, ranks, own, here, sums)) return false;
    }
    STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
      if (has(own, u)) its_.output[at_row + u * lanes_] = Format::round(sums[u]);
    }
    return true;
  }
  // Of those of `ranks` that are base, base + 1, ..., kRanks of them: this rank's sum is `here`.
  STRETTO_PRIMITIVE bool add_ranks(uint32 base, uint64 ranks, const Piece& own,
                                   const Vec16 (&here)[kInFlight], Sums& sums) {
    constexpr int kMost = static_cast<int>(kRanks) * kInFlight;
    Ptr<Block, Vec16> at[kMost] = {};
    Vec16 values[kMost] = {};
    const auto sends = [&](uint32 q) {
      return base + q < ranks_ && (ranks >> (base + q) & 1) != 0;
    };
    STRETTO_UNROLL for (uint32 q = 0; q < kRanks; ++q) {
      if (!sends(q)) continue;
      auto slots = sum_slot(base + q, own.place) + own.at;
      STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
        const uint32 j = q * kInFlight + u;
        if (base + q == me_) {
          values[j] = here[u];
        } else if (has(own, u)) {
          at[j] = slots + u * lanes_;
        }
      }
    }
    // They send when they have this rank's rows.
    if (!Base::take(
            at, values, [&](int j) { return static_cast<int>(base) + j / kInFlight; },
            Patience::kLonger)) {
      return false;
    }
    STRETTO_UNROLL for (uint32 q = 0; q < kRanks; ++q) {
      if (!sends(q)) continue;
      STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
        Format::add(sums[u], values[q * kInFlight + u]);
      }
    }
    return true;
  }

  // By the block that greets.
  STRETTO_PRIMITIVE bool count_bad() {
    if (!args_.bad_ids) return true;
    const auto thread = static_cast<uint32>(block_.thread_idx());
    const auto threads = static_cast<uint32>(block_.num_threads());
    const uint32 vectors = sizes_.vectors_of_note();
    for (uint32 i = thread; i < sizes_.tokens * vectors; i += threads) {
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
  uint32 lanes_, pieces_;  // threads that share a piece; pieces of a row
  uint32 turn_, all_;      // pieces of all threads' turn; of a rank that has most tokens
  Vec16 values_[kInFlight] = {};
  uint64 goes_ = 0;  // to which ranks
};

template <class Format, class Block, int kInFlight = 2>
STRETTO_KERNEL void round_trip_rows(Block& block, const RoundTripArgs<Block>& args) {
  RoundTripRows<Format, kInFlight, Block>(block, args).run();
}

}  // namespace stretto::device
