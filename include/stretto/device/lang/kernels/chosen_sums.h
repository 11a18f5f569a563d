// Sums of what experts made of a token's row: a rank's on their way to who has the token, and
// there those of all ranks, piece by piece (chosen_pieces.h).
#pragma once

#include "stretto/device/fused.h"
#include "stretto/device/lang/kernels/chosen_pieces.h"

namespace stretto::device {

template <class Format, int kInFlight, class Block>
class ChosenSums : public ChosenPieces<Format, kInFlight, Block> {
  using Base = ChosenPieces<Format, kInFlight, Block>;

 protected:
  using Base::block_, Base::sizes_, Base::me_, Base::ranks_, Base::lanes_, Base::has;
  using typename Base::Piece;

 public:
  STRETTO_PRIMITIVE ChosenSums(Block& block, const ChosenArgs<Block>& args, uint32 collective)
      : Base(block, args, collective) {}

 protected:
  using Sums = float[kInFlight][Format::kElements];
  static STRETTO_PRIMITIVE void clear(Sums& sums) {
    STRETTO_UNROLL for (auto& of_vector : sums) {
      STRETTO_UNROLL for (float& sum : of_vector) sum = 0;
    }
  }
  static STRETTO_PRIMITIVE void add_times(float (&sums)[Format::kElements], const Vec16& row,
                                          float weight) {
    float values[Format::kElements];
    Format::read(values, row);
    STRETTO_UNROLL for (int e = 0; e < Format::kElements; ++e) {
      sums[e] = fused(weight, values[e], sums[e]);
    }
  }

  // Sums of own tokens by rank: where rows come too, behind those.
  STRETTO_PRIMITIVE Ptr<Block, Vec16> sum_slot(uint32 of, uint32 place) const {
    const uint64 rows = uint64{2} * sizes_.comes_back * ranks_ * sizes_.block_tokens;
    return Base::row_slot(of, place) + rows * sizes_.row_vectors;
  }
  // To who has the token.
  STRETTO_PRIMITIVE void send_sums(uint32 to, const Piece& its, const Sums& sums) {
    auto slots = block_.peer(sum_slot(me_, its.place) + its.at, static_cast<int>(to));
    STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
      if (has(its, u)) {
        block_.store(slots + u * lanes_, canonical<Format>(Format::round(sums[u])));
      }
    }
  }
  // Adds up the sums of `ranks`, a bit each, of an own token, this rank's being `here`.
  STRETTO_PRIMITIVE bool add_sums(const Piece& own, uint64 ranks, const Vec16 (&here)[kInFlight],
                                  Ptr<Block, Vec16> output) {
    Sums sums;
    clear(sums);
    for (uint32 base = 0; base < ranks_; base += kRanks) {
      if (!add_ranks(base, ranks, own, here, sums)) return false;
    }
    auto row = output + static_cast<uint64>(own.place) * sizes_.row_vectors + own.at;
    STRETTO_UNROLL for (uint32 u = 0; u < kInFlight; ++u) {
      if (has(own, u)) row[u * lanes_] = Format::round(sums[u]);
    }
    return true;
  }

 private:
  // Ranks whose sums are taken together.
  static constexpr uint32 kRanks = kInFlight < 4 ? 4 / kInFlight : 1;

  // Of ranks base, base + 1, ..., kRanks of them.
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
    // They may send when they have heard from this rank.
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
};

}  // namespace stretto::device
