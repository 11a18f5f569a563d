// Own tokens' rows, to the ranks that have an expert of their choice: piece by piece
// (chosen_pieces.h), loaded a turn before they are sent.
#pragma once

#include "stretto/device/lang/kernels/chosen_pieces.h"

namespace stretto::device {

// Pieces: whose pieces they are (ChosenPieces, or what knows of sums besides).
template <class Format, int kInFlight, class Block,
          class Pieces = ChosenPieces<Format, kInFlight, Block>>
class ChosenSender : public Pieces {
  using Base = Pieces;

 protected:
  using Base::block_, Base::sizes_, Base::me_, Base::ranks_, Base::own_count_, Base::lanes_;

 public:
  // `others` than usual: of ThreadShare.
  template <class... Others>
  STRETTO_PRIMITIVE ChosenSender(Block& block, const ChosenArgs<Block>& args, uint32 collective,
                                 Ptr<Block, const Vec16> input, Others... others)
      : Base(block, args, collective, others...), input_(input) {}

 protected:
  // Begins with a piece, if there is one of this number: what needs no knowledge of the call.
  STRETTO_PRIMITIVE void load(uint32 p) {
    goes_ = 0;
    if (p >= Base::all_) return;
    const auto own = Base::piece(p);
    if (own.place >= own_count_) return;
    load_row(own, values_);
    goes_ = Base::ranks_of_row(sizes_.notes_ids != 0 ? own.place : Base::own_first_ + own.place);
  }
  STRETTO_PRIMITIVE void load_row(const typename Base::Piece& own, Vec16 (&values)[kInFlight]) {
    auto row = input_ + static_cast<uint64>(own.place) * sizes_.row_vectors + own.at;
    STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
      if (Base::has(own, u)) values[u] = row[u * lanes_];
    }
  }
  // What load(p) has loaded, to others; true where this rank is one of those that it goes to.
  STRETTO_PRIMITIVE bool send(uint32 p) {
    if (goes_ == 0) return false;
    const auto own = Base::piece(p);
    auto slots = Base::row_slot(me_, own.place) + own.at;
    STRETTO_UNROLL for (Vec16& value : values_) value = positive_zeros<Format>(value);
    STRETTO_ROLLED for (uint32 k = 1; k < ranks_; ++k) {
      const int to =
          rank_after(static_cast<int>(me_), static_cast<int>(k), static_cast<int>(ranks_));
      if ((goes_ >> to & 1) == 0) continue;
      auto at = block_.peer(slots, to);
      STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
        if (Base::has(own, u)) block_.store(at + u * lanes_, values_[u]);
      }
    }
    return (goes_ >> me_ & 1) != 0;
  }

  Vec16 values_[kInFlight] = {};

 private:
  Ptr<Block, const Vec16> input_;
  uint64 goes_ = 0;  // to which ranks
};

}  // namespace stretto::device
