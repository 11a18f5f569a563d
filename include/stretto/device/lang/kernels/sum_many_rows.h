// The way back of many rows that chose experts: what sum_chosen_rows.h does, at the rate of memory.
//
// There a warp looks up what a token has chosen for each piece of its row, and loads wait for three
// looks in a row. Here a block has neighbouring pieces of each rank's tokens. It looks up all that
// these tokens have here once, by a thread each, and then does nothing but load, add and store:
// terms of one piece, or those of several pieces where a token has few, eight vectors of a thread
// at once. A warp sums a piece of the others' tokens, sends it, and then adds up one of its own
// tokens, whose sums came meanwhile. So links and memory are busy together from first to last.
#pragma once

#include "stretto/device/lang/kernels/chosen_terms.h"

namespace stretto::device {

// What a block looks up at once, in its shared memory.
struct NamedTerms {
  static constexpr int32 kMost = 2048;
  static constexpr int32 kRows = 0, kWeights = 4 * kMost, kCounts = 8 * kMost;
  static constexpr int32 kRanks = 12 * kMost;  // of own tokens, that send sums of them: a bit each
  static constexpr int32 kBytes = 20 * kMost;
};

// kTerms: that a token has at least of the eight vectors. kMost: terms that a block looks up at
// once.
template <class Format, int kTerms, class Block, int32 kMost>
class SumManyRows : ChosenTerms<Format, 8 / kTerms, Block> {
  static constexpr int kInFlight = 8 / kTerms;
  using Base = ChosenTerms<Format, kInFlight, Block>;
  using Base::block_, Base::its_, Base::sizes_, Base::me_, Base::ranks_, Base::own_count_,
      Base::lanes_, Base::pieces_, Base::kSlots;
  using typename Base::Piece, typename Base::Sums;

 public:
  STRETTO_PRIMITIVE SumManyRows(Block& block, const SumChosenArgs<Block>& args)
      : Base(block, args),
        rows_(block.template shared<uint32>(NamedTerms::kRows)),
        weights_(block.template shared<float>(NamedTerms::kWeights)),
        counts_(block.template shared<uint32>(NamedTerms::kCounts)),
        ranks_of_(block.template shared<uint64>(NamedTerms::kRanks)) {}

  STRETTO_PRIMITIVE void run() {
    Base::run_call([&] {
      Base::start();
      return sum_all();
    });
  }

 private:
  // Own sums come behind so many pieces of the others' by the same warp.
  static constexpr uint32 kBehind = 2;

  // The block's pieces, as many tokens at a time as it can look up. All ranks cut alike.
  STRETTO_PRIMITIVE bool sum_all() {
    const auto all = static_cast<uint32>(block_.num_blocks());
    const auto index = static_cast<uint32>(block_.block_idx());
    const uint32 blocks = all > 1 ? all - 1 : 1;  // one greets
    if (index >= blocks) return true;
    const uint32 begin = part_of(index, blocks), end = part_of(index + 1, blocks);
    const uint32 most = kMost / (ranks_ * sizes_.top_k);
    bool good = true;
    for (uint32 first = begin; first < end;) {
      const uint32 place = first / pieces_;
      const uint32 whole = (place + most) * pieces_;
      const uint32 last = whole < end ? whole : end;
      if (first != begin) block_.sync();
      places_ = (last - 1) / pieces_ - place + 1;
      good = look_up(place) && good;
      good = !block_.sync_or(!good);
      if (!good) return false;
      good = sum_pieces(first, last, place);
      first = last;
    }
    return good;
  }
  STRETTO_PRIMITIVE uint32 part_of(uint32 block, uint32 blocks) const {
    return static_cast<uint32>(static_cast<uint64>(Base::all_) * block / blocks);
  }

  // What each rank's tokens of places first, first + 1, ... have here, by a thread a token.
  STRETTO_PRIMITIVE bool look_up(uint32 first) {
    const auto threads = static_cast<uint32>(block_.num_threads());
    for (auto t = static_cast<uint32>(block_.thread_idx()); t < ranks_ * places_; t += threads) {
      const uint32 rank = t / places_, token = Base::first_of(rank) + first + t % places_;
      uint32 count = 0;
      if (token < Base::first_of(rank + 1) && !name_terms(token, t * sizes_.top_k, count)) {
        return false;
      }
      counts_[t] = count;
      if (rank == me_ && token < Base::first_of(rank + 1)) {
        ranks_of_[t % places_] = Base::ranks_of_row(token);
      }
    }
    return true;
  }
  STRETTO_PRIMITIVE bool name_terms(uint32 token, uint32 at, uint32& count) {
    for (uint32 first = 0; first < sizes_.top_k; first += kSlots) {
      int32 ids[kSlots];
      Base::load_ids(token, first, ids);
      uint32 rows[kSlots] = {};
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (Base::is_here(ids[j])) rows[j] = static_cast<uint32>(Base::row_of(token, first + j));
      }
      float weights[kSlots] = {};
      if (!Base::find_weights(token, first, weights)) return false;
      STRETTO_UNROLL for (uint32 j = 0; j < kSlots; ++j) {
        if (!Base::is_here(ids[j])) continue;
        rows_[at + count] = rows[j];
        weights_[at + count] = weights[j];
        ++count;
      }
    }
    return true;
  }

  // Pieces first, first + 1, ... of each rank's tokens, of which those of place `named` are the
  // first that are looked up.
  STRETTO_PRIMITIVE bool sum_pieces(uint32 first, uint32 last, uint32 named) {
    const uint32 turn = static_cast<uint32>(block_.num_threads()) / lanes_;
    const uint32 behind = kBehind * turn;
    const uint32 p = first + static_cast<uint32>(block_.thread_idx()) / lanes_;
    STRETTO_ROLLED for (uint32 at = p; at < last + behind; at += turn) {
      if (at < last) sum_others(at, named);
      if (at >= first + behind && !add_own(at - behind, named)) return false;
    }
    return true;
  }
  STRETTO_PRIMITIVE Piece piece(uint32 p) const {
    const auto thread = static_cast<uint32>(block_.thread_idx());
    return {p / pieces_, p % pieces_ * (kInFlight * lanes_) + thread % lanes_};
  }
  STRETTO_PRIMITIVE void sum_others(uint32 p, uint32 named) {
    const Piece its = piece(p);
    STRETTO_ROLLED for (uint32 i = 1; i < ranks_; ++i) {
      const auto rank = static_cast<uint32>(
          rank_after(static_cast<int>(me_), static_cast<int>(i), static_cast<int>(ranks_)));
      const uint32 t = rank * places_ + its.place - named;
      if (counts_[t] == 0) continue;
      Sums sums;
      sum_terms(t, its, sums);
      Base::send_sums(rank, its, sums);
    }
  }
  STRETTO_PRIMITIVE bool add_own(uint32 p, uint32 named) {
    const Piece own = piece(p);
    if (own.place >= own_count_) return true;
    Sums sums;
    sum_terms(me_ * places_ + own.place - named, own, sums);
    Vec16 here[kInFlight];
    STRETTO_UNROLL for (int u = 0; u < kInFlight; ++u) here[u] = Format::round(sums[u]);
    return Base::add_sums(own, ranks_of_[own.place - named], here, its_.output);
  }

  // No load hangs on another, nor on whether there is such a term or vector: what there is not is
  // one that there is, once more. Nor is there a branch behind them, into which a compiler would
  // move them one by one.
  STRETTO_PRIMITIVE void sum_terms(uint32 t, const Piece& its, Sums& sums) const {
    Base::clear(sums);
    const uint32 count = counts_[t], base = t * sizes_.top_k, end = sizes_.row_vectors - 1;
    const uint32 last = count - 1;
    STRETTO_ROLLED for (uint32 at = 0; at < count; at += kTerms) {
      Vec16 parts[kTerms][kInFlight];
      float weights[kTerms];
      STRETTO_UNROLL for (uint32 i = 0; i < kTerms; ++i) {
        const uint32 term = base + (at + i < last ? at + i : last);
        const auto row = its_.rows + static_cast<uint64>(rows_[term]) * sizes_.row_vectors;
        weights[i] = weights_[term];
        STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
          const uint32 vector = its.at + u * lanes_;
          parts[i][u] = row[vector < end ? vector : end];
        }
      }
      STRETTO_UNROLL for (uint32 i = 0; i < kTerms; ++i) {
        const bool is_there = at + i < count;
        STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
          float values[Format::kElements];
          Format::read(values, parts[i][u]);
          STRETTO_UNROLL for (int e = 0; e < Format::kElements; ++e) {
            const float sum = fused(weights[i], values[e], sums[u][e]);
            sums[u][e] = is_there ? sum : sums[u][e];
          }
        }
      }
    }
  }

  Ptr<Block, uint32> rows_;
  Ptr<Block, float> weights_;
  Ptr<Block, uint32> counts_;
  Ptr<Block, uint64> ranks_of_;
  uint32 places_ = 0;  // looked up of each rank
};

// kTerms: 2, 4 or 8. ranks * top_k is at most kMost, with NamedTerms::kBytes of shared memory.
template <class Format, int kTerms, class Block, int32 kMost = NamedTerms::kMost>
STRETTO_KERNEL void sum_many_rows(Block& block, const SumChosenArgs<Block>& args) {
  static_assert(kMost <= NamedTerms::kMost);
  SumManyRows<Format, kTerms, Block, kMost>(block, args).run();
}

}  // namespace stretto::device
