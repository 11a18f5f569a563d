// Where dispatch puts what it sends: the place of every (token, expert) pair among those of its
// source and expert, and the slot of every token at every rank that it goes to.
#pragma once

#include "stretto/device/lang/kernels/dispatch_args.h"

namespace stretto::device {

template <class Block>
class DispatchPlaces : protected DispatchHalf<Block> {
 protected:
  using Half = DispatchHalf<Block>;
  using Half::args_, Half::block_, Half::expert_counts_, Half::free_, Half::k_, Half::local_,
      Half::problem, Half::rank_counts_, Half::ranks_, Half::thread_, Half::threads_;

  STRETTO_PRIMITIVE DispatchPlaces(Block& block, const DispatchArgs<Block>& args)
      : Half(block, args),
        tile_ids_(free_),
        tile_places_(tile_ids_ + kSendTokens * k_),
        tile_slots_(tile_places_ + kSendTokens * k_),
        tile_goes_(tile_slots_ + kSendTokens * ranks_),
        masks_(shared<uint64>(block, 0)) {}

  // Adds `step` for every entry of these tokens to its expert, and for every rank a token goes to.
  STRETTO_PRIMITIVE void tally(uint32 begin, uint32 end, uint32 step) {
    for (uint32 tile = begin; tile < end; tile += threads_) {
      tally_tile(tile, end - tile < threads_ ? end - tile : threads_, step);
    }
  }

  // Places of a tile's entries and slots of its tokens, in the order of tokens.
  STRETTO_PRIMITIVE void find_places(uint32 tile, uint32 count) {
    for (uint32 i = thread_; i < count * k_; i += threads_) {
      tile_ids_[i] = expert_at(tile + i / k_, i % k_, true);
    }
    block_.sync();
    for (uint32 i = thread_; i < count * k_; i += threads_) {
      const uint32 expert = tile_ids_[i];
      uint32 place = 0;
      if (expert != kNone) place = expert_counts_[expert];
      for (uint32 before = 0; before < i; ++before) {
        const uint32 other = tile_ids_[before];
        if (other == expert) ++place;
      }
      tile_places_[i] = place;
    }
    for (uint32 i = thread_; i < count * ranks_; i += threads_) {
      const uint32 first = i % ranks_ * local_;
      uint32 goes = 0;
      for (uint32 j = 0; j < k_; ++j) {
        const uint32 expert = tile_ids_[i / ranks_ * k_ + j];
        if (expert - first < local_) goes = 1;
      }
      tile_goes_[i] = goes;
    }
    block_.sync();
    for (uint32 i = thread_; i < count * ranks_; i += threads_) {
      uint32 slot = rank_counts_[i % ranks_];
      for (uint32 before = i % ranks_; before < i; before += ranks_) {
        const uint32 goes = tile_goes_[before];
        slot += goes;
      }
      const uint32 goes = tile_goes_[i];
      if (goes == 0) slot = kNone;
      tile_slots_[i] = slot;
      args_.token_slots[static_cast<uint64>(tile) * ranks_ + i] = slot;
    }
    block_.sync();
    for (uint32 i = thread_; i < count * k_; i += threads_) {
      const uint32 expert = tile_ids_[i];
      if (expert == kNone) continue;
      block_.fetch_add(expert_counts_ + expert, 1, Order::kRelaxed, Scope::kBlock);
    }
    for (uint32 i = thread_; i < count * ranks_; i += threads_) {
      const uint32 slot = tile_slots_[i];
      if (slot == kNone) continue;
      block_.fetch_add(rank_counts_ + i % ranks_, 1, Order::kRelaxed, Scope::kBlock);
    }
  }

  // Shared memory: of a tile of kSendTokens tokens.
  Ptr<Block, uint32> tile_ids_, tile_places_, tile_slots_, tile_goes_;

 private:
  // The expert of an entry, or kNone.
  STRETTO_PRIMITIVE uint32 expert_at(uint32 token, uint32 j, bool count_problem) {
    const int32 id = args_.ids[static_cast<uint64>(token) * k_ + j];
    if (id >= 0 && static_cast<uint32>(id) < args_.shape.experts) return static_cast<uint32>(id);
    if (count_problem && id != -1) problem(kIdsOutOfRange, 1);
    return kNone;
  }

  STRETTO_PRIMITIVE void tally_tile(uint32 tile, uint32 count, uint32 step) {
    if (thread_ < count) {
      uint64 mask = 0;
      for (uint32 j = 0; j < k_; ++j) {
        const uint32 expert = expert_at(tile + thread_, j, false);
        if (expert == kNone) continue;
        mask |= 1ull << (expert / local_);
        block_.fetch_add(expert_counts_ + expert, step, Order::kRelaxed, Scope::kBlock);
      }
      masks_[thread_] = mask;
    }
    block_.sync();
    const uint32 parts = threads_ / ranks_ > 0 ? threads_ / ranks_ : 1;
    for (uint32 i = thread_; i < parts * ranks_; i += threads_) {
      const uint32 rank = i % ranks_;
      uint32 found = 0;
      const uint32 end = part_begin(count, i / ranks_ + 1, parts);
      for (uint32 t = part_begin(count, i / ranks_, parts); t < end; ++t) {
        const uint64 mask = masks_[t];
        found += static_cast<uint32>(mask >> rank & 1);
      }
      if (found > 0) {
        block_.fetch_add(rank_counts_ + rank, found * step, Order::kRelaxed, Scope::kBlock);
      }
    }
    block_.sync();
  }

  Ptr<Block, uint64> masks_;  // shared memory, by thread: ranks that a token goes to
};

}  // namespace stretto::device
