// The taking half of dispatch.
#pragma once

#include "stretto/device/lang/kernels/dispatch_args.h"

namespace stretto::device {

template <class Block>
class DispatchTake : DispatchHalf<Block> {
  using Half = DispatchHalf<Block>;
  using Half::args_, Half::block_, Half::call_, Half::count_index, Half::expert_counts_,
      Half::free_, Half::k_, Half::lanes_, Half::listed_at, Half::local_, Half::own_word,
      Half::part_counts_, Half::part_first_, Half::problem, Half::rank_counts_, Half::ranks_,
      Half::record_index, Half::same_index, Half::signals_, Half::slot_index, Half::thread_,
      Half::threads_, Half::units_, Half::await;

 public:
  STRETTO_PRIMITIVE DispatchTake(Block& block, const DispatchArgs<Block>& args)
      : Half(block, args),
        offsets_(free_),
        aligned_rows_(offsets_ + (local_ + 1)),
        scratch_(aligned_rows_ + local_) {}

  // False when a rank did not come, or called with something else.
  STRETTO_PRIMITIVE bool run() {
    bool failed = false;
    for (uint32 i = thread_; i < 2 * ranks_; i += threads_) {
      // Both at a time: counts, and the first part.
      const uint32 r = i % ranks_;
      failed = !await(i < ranks_ ? signals_.counts_of(r) : signals_.part_of(r),
                      i < ranks_ ? call_ + 1 : ExpertSignals::after(call_, 0), r) ||
               failed;
    }
    if (block_.sync_or(failed)) return false;
    if (block_.sync_or(!same_calls())) return false;
    find_offsets();
    uint64 ended = 0;  // sources of this thread whose last part has come
    for (uint32 part = 0; part < kParts; ++part) {
      bool more = false;
      for (uint32 r = thread_; r < ranks_; r += threads_) {
        PartRecord record{0, 0, true};
        if ((ended >> r & 1) == 0) {
          failed = part > 0 && !await(signals_.part_of(r), ExpertSignals::after(call_, part), r);
          if (failed) break;
          const uint64 word = args_.parts[record_index(r, part)];
          record = PartRecord::from(word);
          args_.part_list[listed_at(r, part)] = word;
          for (uint32 p = part + 1; record.last && p < kParts; ++p) {
            args_.part_list[listed_at(r, p)] = PartRecord::pack(0, 0, true);
          }
          ended |= static_cast<uint64>(record.last) << r;
        }
        part_first_[r] = record.first;
        part_counts_[r] = record.count;
        more = more || !record.last;
      }
      if (block_.sync_or(failed)) return false;
      take_part();
      if (!block_.sync_or(more)) break;
    }
    return true;
  }

 private:
  // One word a thread, so that all loads are in flight together.
  STRETTO_PRIMITIVE bool same_calls() {
    bool same = true;
    for (uint32 i = thread_; i < kSameWords * ranks_; i += threads_) {
      const uint32 which = i % kSameWords;
      const uint32 rank = i / kSameWords;
      const uint32 theirs = args_.counts[same_index(rank) + which];
      const uint32 own = own_word(which);
      if (theirs == own) continue;
      block_.disagree(static_cast<int>(rank), name_of_same(which), which, own, theirs);
      same = false;
    }
    return same;
  }

  // From here on expert_counts_[e * ranks + source] is the first row of the source's rows of local
  // expert e, and rank_counts_[source] the tokens from it.
  STRETTO_PRIMITIVE void find_offsets() {
    for (uint32 i = thread_; i < local_ * ranks_; i += threads_) {
      expert_counts_[i] = args_.counts[count_index(i % ranks_) + i / ranks_];
    }
    for (uint32 r = thread_; r < ranks_; r += threads_) {
      rank_counts_[r] = args_.counts[count_index(r) + local_];
    }
    block_.sync();
    const bool tells = units_.index == 0;
    for (uint32 e = thread_; e < local_; e += threads_) aligned_rows_[e] = aligned(rows_of(e));
    block_.sync();
    for (uint32 e = thread_; e <= local_; e += threads_) {
      uint32 offset = 0;
      STRETTO_UNROLL_8 for (uint32 other = 0; other < e; ++other) {
        const uint32 rows = aligned_rows_[other];
        offset += rows;
      }
      offsets_[e] = offset;
      if (tells) tell_expert(e, offset);
    }
    if (tells) {
      for (uint32 r = thread_; r < ranks_; r += threads_) {
        const uint32 tokens = rank_counts_[r];
        args_.received[r] = tokens;
      }
      for (uint32 i = thread_; i < kSameWords; i += threads_) args_.agreed[i] = own_word(i);
    }
    block_.sync();
    for (uint32 e = thread_; e < local_; e += threads_) {
      uint32 row = offsets_[e];
      for (uint32 r = 0; r < ranks_; ++r) {
        const uint32 count = expert_counts_[e * ranks_ + r];
        expert_counts_[e * ranks_ + r] = row;
        row += count;
      }
    }
    block_.sync();
  }
  // Its rows as far as there is room, so that who follows them never leaves `rows`.
  STRETTO_PRIMITIVE void tell_expert(uint32 expert, uint32 offset) {
    const uint32 room = args_.shape.max_rows > offset ? args_.shape.max_rows - offset : 0;
    args_.expert_offsets[expert] = room > 0 ? offset : args_.shape.max_rows;
    if (expert == local_) return;
    const uint32 rows = rows_of(expert);
    args_.expert_counts[expert] = rows < room ? rows : room;
  }
  STRETTO_PRIMITIVE uint32 rows_of(uint32 expert) const {
    uint32 rows = 0;
    for (uint32 r = 0; r < ranks_; ++r) {
      const uint32 count = expert_counts_[expert * ranks_ + r];
      rows += count;
    }
    return rows;
  }
  STRETTO_PRIMITIVE uint32 aligned(uint32 rows) const {
    return (rows + args_.shape.row_align - 1) / args_.shape.row_align * args_.shape.row_align;
  }
  STRETTO_PRIMITIVE void take_part() {
    uint32 all = 0;
    for (uint32 r = 0; r < ranks_; ++r) {
      const uint32 of_source = part_counts_[r];
      all += of_source;
    }
    const auto chunk = static_cast<uint32>(4 * lanes_.count);
    const uint32 chunks = (static_cast<uint32>(token_vectors(args_.shape)) + chunk - 1) / chunk;
    for (auto item = static_cast<uint32>(lanes_.warp); item < all * chunks;
         item += static_cast<uint32>(lanes_.warps)) {
      uint32 place = item / chunks;
      uint32 source = 0;
      for (;; ++source) {
        const uint32 of_source = part_counts_[source];
        if (place < of_source) break;
        place -= of_source;
      }
      const uint32 first = part_first_[source];
      take_token(source, first + place, item % chunks * chunk);
    }
  }

  // A chunk of a token goes to all its rows; the first chunk brings what is once a token.
  STRETTO_PRIMITIVE void take_token(uint32 source, uint32 slot, uint64 first) {
    const uint64 at = slot_index(source, slot);
    const uint64 kept = (static_cast<uint64>(source) * args_.shape.max_tokens + slot) * k_;
    auto rows = scratch_ + static_cast<uint32>(lanes_.warp) * k_;
    for (auto j = static_cast<uint32>(lanes_.lane); j < k_;
         j += static_cast<uint32>(lanes_.count)) {
      const Vec16 entry = args_.entry_slots[at * k_ + j];
      uint32 row = kNone;
      if (entry.word[0] != kNone) {
        const uint32 base = expert_counts_[entry.word[0] * ranks_ + source];
        row = base + entry.word[1];
        if (row >= args_.shape.max_rows) {
          row = kNone;
          if (first == 0) problem(kRowsOverMost, 1);
        }
      }
      rows[j] = row;
      if (first == 0) {
        args_.entry_rows[kept + j] = row;
        args_.entry_weights[kept + j] = float_of_bits(entry.word[2]);
      }
    }
    block_.sync_warp();
    const uint64 vectors = token_vectors(args_.shape);
    const auto step = static_cast<uint64>(lanes_.count);
    const uint64 v = first + static_cast<uint64>(lanes_.lane);
    Vec16 values[4];
    STRETTO_UNROLL for (uint64 u = 0; u < 4; ++u) {
      if (v + u * step < vectors) values[u] = args_.slots[at * vectors + v + u * step];
    }
    for (uint32 j = 0; j < k_; ++j) {
      const uint32 row = rows[j];
      if (row == kNone) continue;
      STRETTO_UNROLL for (uint64 u = 0; u < 4; ++u) {
        if (v + u * step < vectors) args_.rows[row * vectors + v + u * step] = values[u];
      }
      if (first != 0) continue;
      const uint64 scales = token_scales(args_.shape);
      for (auto s = static_cast<uint64>(lanes_.lane); s < scales; s += step) {
        const float scale = args_.scale_slots[at * scales + s];
        args_.row_scales[row * scales + s] = scale;
      }
    }
    block_.sync_warp();
  }

  // Shared memory; of scratch_, k_ words a warp.
  Ptr<Block, uint32> offsets_, aligned_rows_, scratch_;
};

}  // namespace stretto::device
