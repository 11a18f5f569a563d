// The sending half of dispatch.
#pragma once

#include "stretto/device/lang/kernels/dispatch_places.h"

namespace stretto::device {

template <class Block>
class DispatchSend : DispatchPlaces<Block> {
  using Half = DispatchHalf<Block>;
  using Places = DispatchPlaces<Block>;
  using Half::args_, Half::block_, Half::count_index, Half::expert_counts_, Half::k_, Half::lanes_,
      Half::local_, Half::me_, Half::next, Half::own_word, Half::part_counts_, Half::part_first_,
      Half::problem, Half::rank_counts_, Half::ranks_, Half::record_index, Half::same_index,
      Half::signals_, Half::slot_index, Half::thread_, Half::threads_, Half::units_, Half::tell;
  using Places::tile_ids_, Places::tile_places_, Places::tile_slots_, Places::tally,
      Places::find_places;

 public:
  STRETTO_PRIMITIVE DispatchSend(Block& block, const DispatchArgs<Block>& args)
      : Places(block, args) {
    uint32 tokens = args.tokens;
    if (args.device_tokens) tokens = args.device_tokens[0];
    if (tokens > args.shape.max_tokens) {
      if (thread_ == 0 && block.block_idx() == 0) {
        problem(kTokensOverMost, tokens - args.shape.max_tokens);
      }
      tokens = args.shape.max_tokens;
    }
    tokens_ = tokens;
    own_ = UnitTokens::of(tokens, units_);
  }

  STRETTO_PRIMITIVE void run() {
    clear();
    // The first unit says how many rows there are, since its block is the first that runs: who has
    // the SMs for some blocks only still goes on. For many tokens it says so before it sends its
    // own, since those that take wait for it.
    const bool counts = units_.index == 0;
    const bool ahead = counts && units_.split();
    if (ahead) {
      tally(0, tokens_, 1);
      write_counts();
      block_.sync();
      for (uint32 i = thread_; i < ranks_; i += threads_) tell(signals_.counts_of(me_), 1, next(i));
      clear();
    }
    tally(0, own_.begin, 1);
    for (uint32 part = 0; part < own_.parts; ++part) {
      for (uint32 i = thread_; i < ranks_; i += threads_) {  // as in tell_part()
        part_first_[next(i)] = rank_counts_[next(i)];
      }
      const uint32 end = own_.first_of(part + 1);
      for (uint32 tile = own_.first_of(part); tile < end; tile += kSendTokens) {
        const uint32 count = end - tile < kSendTokens ? end - tile : kSendTokens;
        find_places(tile, count);
        send_entries(tile, count);
        send_tokens(tile, count);
        block_.sync();
      }
      for (uint32 i = thread_; i < ranks_; i += threads_) {
        const uint32 first = part_first_[next(i)];
        const uint32 after = rank_counts_[next(i)];
        part_counts_[next(i)] = after - first;
      }
      const bool last = part + 1 == own_.parts;
      if (counts && !ahead && last) {
        tally(own_.end, tokens_, 1);
        write_counts();
        block_.sync();
      }
      tell_part(part, last, counts && !ahead);
    }
  }

 private:
  STRETTO_PRIMITIVE void clear() {
    for (uint32 i = thread_; i < args_.shape.experts + ranks_; i += threads_) {
      expert_counts_[i] = 0;  // and the ranks' behind them
    }
    block_.sync();
  }

  STRETTO_PRIMITIVE void write_counts() {
    const uint32 words = local_ + 1 + kSameWords;
    for (uint32 i = thread_; i < ranks_ * words; i += threads_) {
      const uint32 rank = i / words;
      const uint32 word = i % words;
      uint32 value = 0;
      uint64 at = count_index(me_) + word;
      if (word < local_) {
        value = expert_counts_[rank * local_ + word];
      } else if (word == local_) {
        value = rank_counts_[rank];
      } else {
        at = same_index(me_) + word - local_ - 1;
        value = own_word(word - local_ - 1);
      }
      block_.peer(args_.counts, static_cast<int>(rank))[at] = value;
    }
  }

  STRETTO_PRIMITIVE void send_entries(uint32 tile, uint32 count) {
    for (uint32 i = thread_; i < count * ranks_ * k_; i += threads_) {
      const uint32 j = i % k_;
      const uint32 rank = i / k_ % ranks_;
      const uint32 t = i / k_ / ranks_;
      const uint32 slot = tile_slots_[t * ranks_ + rank];
      if (slot == kNone) continue;
      const uint32 expert = tile_ids_[t * k_ + j];
      const float weight = args_.weights[static_cast<uint64>(tile + t) * k_ + j];
      Vec16 entry = {{kNone, 0, bits_of_float(weight), 0}};
      if (expert != kNone && expert / local_ == rank) {
        entry.word[0] = expert % local_;
        entry.word[1] = tile_places_[t * k_ + j];
      }
      block_.peer(args_.entry_slots, static_cast<int>(rank))[slot_index(me_, slot) * k_ + j] =
          entry;
    }
  }

  STRETTO_PRIMITIVE void send_tokens(uint32 tile, uint32 count) {
    // What a warp takes at a time: four vectors a lane of bf16, or a group for some lanes of fp8.
    const bool fp8 = args_.shape.fp8 != 0;
    const auto lanes = static_cast<uint32>(lanes_.count);
    const auto size =
        static_cast<uint32>(fp8 ? token_scales(args_.shape) : token_vectors(args_.shape));
    const uint32 chunk = fp8 ? lanes / group_lanes() : 4 * lanes;
    const uint32 chunks = (size + chunk - 1) / chunk;
    for (auto item = static_cast<uint32>(lanes_.warp); item < count * chunks;
         item += static_cast<uint32>(lanes_.warps)) {
      const uint32 t = item / chunks;
      const uint32 first = item % chunks * chunk;
      if (fp8) {
        send_fp8(tile, t, first);
      } else {
        send_bf16(tile, t, first, size);
      }
    }
  }

  STRETTO_PRIMITIVE void send_bf16(uint32 tile, uint32 t, uint32 first, uint32 vectors) {
    auto from = args_.input + static_cast<uint64>(tile + t) * vectors;
    const auto step = static_cast<uint32>(lanes_.count);
    const uint32 v = first + static_cast<uint32>(lanes_.lane);
    Vec16 values[4];
    STRETTO_UNROLL for (uint32 u = 0; u < 4; ++u) {
      if (v + u * step < vectors) values[u] = from[v + u * step];
    }
    for (uint32 i = 0; i < ranks_; ++i) {
      const uint32 rank = next(i);
      const uint32 slot = tile_slots_[t * ranks_ + rank];
      if (slot == kNone) continue;
      auto to = block_.peer(args_.slots, static_cast<int>(rank)) + slot_index(me_, slot) * vectors;
      STRETTO_UNROLL for (uint32 u = 0; u < 4; ++u) {
        if (v + u * step < vectors) to[v + u * step] = values[u];
      }
    }
  }

  // Groups of 128 elements, eight lanes to each, or as many as a warp has.
  STRETTO_PRIMITIVE void send_fp8(uint32 tile, uint32 t, uint32 first_group) {
    constexpr uint32 kPairs = kScaleGroup / 16;  // of vectors of bf16: one vector of fp8 each
    const auto vectors = static_cast<uint32>(token_vectors(args_.shape));
    const uint32 lanes = group_lanes();
    const uint32 lane = static_cast<uint32>(lanes_.lane) % lanes;
    const uint32 group = first_group + static_cast<uint32>(lanes_.lane) / lanes;
    const bool inside = group < token_scales(args_.shape);
    auto from = args_.input + (static_cast<uint64>(tile + t) * vectors + group * kPairs) * 2;
    float most = kLeastOfGroup;
    for (uint32 p = lane; inside && p < kPairs; p += lanes) {
      float values[16] = {};
      load_pair(from + p * 2, values);
      STRETTO_UNROLL for (float value : values) {
        const float size = value < 0 ? -value : value;
        most = size > most ? size : most;
      }
    }
    most = block_.warp_max(most, static_cast<int>(lanes));
    const float inverse = 448.0f / most;
    for (uint32 p = lane; inside && p < kPairs; p += lanes) {
      float values[16] = {};
      load_pair(from + p * 2, values);
      STRETTO_UNROLL for (float& value : values) value *= inverse;
      const Vec16 quantised = {{e4m3x4_from_floats(values), e4m3x4_from_floats(values + 4),
                                e4m3x4_from_floats(values + 8), e4m3x4_from_floats(values + 12)}};
      for (uint32 i = 0; i < ranks_; ++i) {
        const auto rank = static_cast<int>(next(i));
        const uint32 slot = tile_slots_[t * ranks_ + static_cast<uint32>(rank)];
        if (slot == kNone) continue;
        const uint64 at = slot_index(me_, slot);
        block_.peer(args_.slots, rank)[at * vectors + group * kPairs + p] = quantised;
        if (p == 0) {
          block_.peer(args_.scale_slots, rank)[at * token_scales(args_.shape) + group] =
              most / 448.0f;
        }
      }
    }
  }
  STRETTO_PRIMITIVE uint32 group_lanes() const {
    return static_cast<uint32>(lanes_.count < 8 ? lanes_.count : 8);
  }
  STRETTO_PRIMITIVE static void load_pair(Ptr<Block, const Vec16> from, float (&values)[16]) {
    const Vec16 a = from[0];
    const Vec16 b = from[1];
    Bf16x8::add(values, a);
    Bf16x8::add(values + 8, b);
  }

  // With the counts' signals beside those of the last part, where they have not gone ahead.
  STRETTO_PRIMITIVE void tell_part(uint32 part, bool last, bool counts) {
    const uint32 signals = last && counts ? 2 * ranks_ : ranks_;
    for (uint32 i = thread_; i < signals; i += threads_) {
      const uint32 r = next(i);
      if (i < ranks_) {
        const uint32 first = part_first_[r];
        const uint32 count = part_counts_[r];
        block_.peer(args_.parts, static_cast<int>(r))[record_index(me_, part)] =
            PartRecord::pack(first, count, last);
      }
      tell(i < ranks_ ? signals_.part_of(me_) : signals_.counts_of(me_),
           i < ranks_ ? ExpertSignals::step(part, last) : 1, r);
    }
  }

  uint32 tokens_;
  UnitTokens own_;
};

}  // namespace stretto::device
