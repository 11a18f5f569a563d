// The second hop of a fused norm: owners sum their rows, and they or all ranks norm them
// (all_reduce_norm.h).
#pragma once

#include "stretto/device/lang/kernels/all_reduce_norm_args.h"
#include "stretto/device/lang/kernels/slots.h"

namespace stretto::device {

// The two-shot kernel after its first hop.
template <class Block, int kInFlight, bool kOwnRows>
class TwoShotNorm {
 public:
  STRETTO_PRIMITIVE TwoShotNorm(Block& block, const AllReduceNormArgs<Block>& args, uint32 rows,
                                uint64 stride, Ptr<Block, Vec16> slots)
      : block_(block),
        args_(args),
        rows_(rows),
        row_vectors_(static_cast<uint32>(args.row_vectors)),
        parts_{rows * row_vectors_, static_cast<uint32>(args.tokens) * row_vectors_},
        stride_(stride),
        slots_(slots),
        fp8_(static_cast<bool>(args.norm.fp8_scale)) {}

  // Own rows by all warps: summed and sent to whoever norms them, a block of this rank too.
  STRETTO_PRIMITIVE bool sum_own(const ThreadShare& share) {
    const int me = block_.rank();
    const uint32 first = parts_.first(me);
    const uint32 end = parts_.size_of(me);
    const uint32 kept = kOwnRows ? 0 : first;
    for (uint32 i = share.first; i < end; i += share.step) {
      const Vec16 own = args_.input[first + i];
      const Vec16 residual = args_.residual[kept + i];
      float sums[Bf16x8::kElements];
      if (!sum_slots<Bf16x8, kInFlight>(block_, slots_ + i, stride_, own, sums)) return false;
      const Vec16 h = add_residual(residual, sums);
      auto slot = gathered(me) + i;
      if (!kOwnRows) send_to_others<Block>(block_, slot, h);
      block_.store(slot, h);
      args_.new_residual[kept + i] = h;
    }
    return true;
  }
  // Whole rows by blocks, all of them, the first of each owner first; or the own ones only, whose
  // norms go to the others.
  STRETTO_PRIMITIVE bool norm_rows(bool good) {
    const uint32 ranks = kOwnRows ? 1 : static_cast<uint32>(block_.num_ranks());
    for (auto p = static_cast<uint32>(block_.block_idx()); p < rows_ * ranks;
         p += static_cast<uint32>(block_.num_blocks())) {
      const uint32 row = p / ranks;
      const int owner = kOwnRows ? block_.rank() : static_cast<int>(p - row * ranks);
      const uint32 i = row * row_vectors_;
      if (!parts_.has(owner, i)) continue;
      auto from = gathered(owner) + i;
      MadeRow made;
      for (auto v = static_cast<uint32>(block_.thread_idx()); good && v < row_vectors_;
           v += static_cast<uint32>(block_.num_threads())) {
        Vec16 h;
        good = block_.wait_words_not(from + v, Bf16x8::kPoison, h, Where::here(), owner,
                                     Patience::kLonger);
        if (!good) {
          made.drop();
          break;
        }
        if (owner != block_.rank()) args_.new_residual[parts_.first(owner) + i + v] = h;
        made.add(v, h);
      }
      const auto again = [&](uint32 v) -> Vec16 { return block_.load(from + v); };
      norm_row(block_, args_.norm, row_vectors_, again, made,
               [&](uint32 v, const float(&values)[Bf16x8::kElements], float inverse_scale) {
                 block_.store(from + v, four_of(Bf16x8::kPoison));
                 auto out = args_.output + (parts_.first(owner) + i) / (fp8_ ? 2 : 1);
                 store_normed<Block>(out, v, fp8_, values, inverse_scale);
                 if (kOwnRows) send_normed(i, v, values, inverse_scale);
               });
    }
    return good;
  }
  // The others' rows by all warps, normed already.
  STRETTO_PRIMITIVE bool take_rows(const ThreadShare& share) {
    constexpr int kTaken = kInFlight / 2;
    const int ranks = block_.num_ranks();
    const uint32 shrink = fp8_ ? 2 : 1;
    const Parts sent{parts_.size / shrink, parts_.total / shrink};
    for (uint32 i = share.first; i < sent.size; i += share.step) {
      for (int base = 0; base < ranks; base += kTaken) {
        Vec16 values[kTaken];
        const int most = ranks - base < kTaken ? ranks - base : kTaken;
        const int count = sent.having(base, most, i);
        const int skip = block_.rank() - base;
        if (!take_slots<Bf16x8>(block_, gathered(base) + i, stride_, count, skip, values, base,
                                Patience::kLonger)) {
          return false;
        }
        STRETTO_UNROLL for (int j = 0; j < kTaken; ++j) {
          if (j < count && j != skip) args_.output[sent.first(base + j) + i] = values[j];
        }
      }
    }
    return true;
  }

 private:
  STRETTO_PRIMITIVE void send_normed(uint32 i, uint32 v, const float (&values)[Bf16x8::kElements],
                                     float inverse_scale) {
    auto sent = gathered(block_.rank()) + i / (fp8_ ? 2 : 1);
    if (!fp8_) {
      send_to_others<Block>(block_, sent + v, canonical<Bf16x8>(Bf16x8::round(values)));
      return;
    }
    const uint64 bytes = fp8_of(values, inverse_scale);
    const int ranks = block_.num_ranks();
    for (int k = 1; k < ranks; ++k) {
      auto to = block_.peer(sent, rank_after(block_.rank(), k, ranks));
      block_.store(pointer_cast<uint64>(to) + v, bytes);
    }
  }
  // [owner][its row]: sums, or norms where owners norm.
  STRETTO_PRIMITIVE Ptr<Block, Vec16> gathered(int owner) const {
    return slots_ +
           static_cast<uint32>(block_.num_ranks() + owner) * renewed_before_hopper(stride_);
  }

  Block& block_;
  const AllReduceNormArgs<Block>& args_;
  uint32 rows_;  // of an owner
  uint32 row_vectors_;
  Parts parts_;
  uint64 stride_;            // of a rank's slots
  Ptr<Block, Vec16> slots_;  // of the first hop: [source][own row]; then of the second
  bool fp8_;
};

}  // namespace stretto::device
