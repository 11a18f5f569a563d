// Sends tokens to the ranks that own their experts, and lists them there by expert.
//
// No host takes part: counts travel with the data, and call numbers live on the device, so a graph
// can be replayed. Slots alternate between calls. That is enough: who sends call e + 2 has been
// told by all blocks of every rank that they are in call e + 1, hence have emptied the slots of e.
//
// Launch the same grid on every rank and in every call, with dispatch_shared_bytes() of shared
// memory and whole warps. Ids of -1 are dropped entries. Ids out of range are dropped too, and
// counted; so are tokens over max_tokens, and rows over max_rows, which their expert does not get.
#pragma once

#include "stretto/device/lang/kernels/experts.h"

namespace stretto::device {

// Counters in `problems`, added up over calls.
enum Problem : uint32 { kIdsOutOfRange, kTokensOverMost, kRowsOverMost, kProblems };

template <class Block>
struct DispatchArgs {
  ExpertShape shape;
  uint32 tokens;                           // of this rank
  Ptr<Block, const uint32> device_tokens;  // local: instead of `tokens` where not null
  Ptr<Block, const Vec16> input;           // local: tokens x hidden, bf16
  Ptr<Block, const int32> ids;             // local: tokens x top_k
  Ptr<Block, const float> weights;         // local: tokens x top_k

  // Symmetric, two of each by call.
  Ptr<Block, Vec16> slots;        // [call][source][max_tokens][token_vectors()]
  Ptr<Block, float> scale_slots;  // [call][source][max_tokens][token_scales()]
  Ptr<Block, Vec16> entry_slots;  // [call][source][max_tokens][top_k]
  Ptr<Block, uint32> counts;      // [call][source][count_words()]
  Ptr<Block, uint64> arrived;     // symmetric: one of each source, zero at first

  // Results, local.
  Ptr<Block, uint32> token_slots;     // [max_tokens][ranks]: in which slot of the rank, or kNone
  Ptr<Block, uint32> received;        // [source]: tokens
  Ptr<Block, uint32> entry_rows;      // [source][max_tokens][top_k]: row of the entry, or kNone
  Ptr<Block, float> entry_weights;    // [source][max_tokens][top_k]
  Ptr<Block, uint32> expert_offsets;  // [local experts + 1]: first row, aligned
  Ptr<Block, uint32> expert_counts;   // [local experts]: rows
  Ptr<Block, Vec16> rows;             // [max_rows][token_vectors()], by expert, source and token
  Ptr<Block, float> row_scales;       // [max_rows][token_scales()]
  Ptr<Block, uint32> problems;        // [kProblems], zero at first
  Ptr<Block, uint64> calls;           // [num_blocks], zero at first
};

template <class Block>
class Dispatch {
 public:
  STRETTO_PRIMITIVE Dispatch(Block& block, const DispatchArgs<Block>& args)
      : block_(block),
        args_(args),
        lanes_(block),
        ranks_(static_cast<uint32>(block.num_ranks())),
        me_(static_cast<uint32>(block.rank())),
        thread_(static_cast<uint32>(block.thread_idx())),
        threads_(static_cast<uint32>(block.num_threads())),
        local_(args.shape.experts / ranks_),
        k_(args.shape.top_k),
        masks_(shared<uint64>(block, 0)),
        expert_counts_(shared<uint32>(block, static_cast<int>(8 * threads_))),
        rank_counts_(expert_counts_ + args.shape.experts),
        offsets_(rank_counts_ + ranks_),
        aligned_rows_(offsets_ + (local_ + 1)),
        tile_ids_(aligned_rows_ + local_),
        tile_places_(tile_ids_ + kSendTokens * k_),
        tile_slots_(tile_places_ + kSendTokens * k_),
        tile_goes_(tile_slots_ + kSendTokens * ranks_),
        scratch_(tile_goes_ + kSendTokens * ranks_) {
    call_ = args.calls[block.block_idx()];
    half_ = call_ % 2 * ranks_;
    uint32 tokens = args.tokens;
    if (args.device_tokens) tokens = args.device_tokens[0];
    if (tokens > args.shape.max_tokens) {
      problem(kTokensOverMost, tokens - args.shape.max_tokens, true);
      tokens = args.shape.max_tokens;
    }
    const auto blocks = static_cast<uint32>(block.num_blocks());
    const auto index = static_cast<uint32>(block.block_idx());
    begin_ = part_begin(tokens, index, blocks);
    end_ = part_begin(tokens, index + 1, blocks);
  }

  STRETTO_PRIMITIVE void send() {
    for (uint32 i = thread_; i < args_.shape.experts + ranks_; i += threads_) {
      expert_counts_[i] = 0;  // and the ranks' behind them
    }
    block_.sync();
    for (uint32 tile = 0; tile < begin_; tile += threads_) {
      count_before(tile, begin_ - tile < threads_ ? begin_ - tile : threads_);
    }
    for (uint32 tile = begin_; tile < end_; tile += kSendTokens) {
      const uint32 count = end_ - tile < kSendTokens ? end_ - tile : kSendTokens;
      find_places(tile, count);
      send_entries(tile, count);
      send_tokens(tile, count);
      block_.sync();
    }
    if (block_.block_idx() == block_.num_blocks() - 1) send_counts();
    block_.sync();
    for (uint32 i = thread_; i < ranks_; i += threads_) {
      block_.signal(args_.arrived + me_, 1, SignalOp::kAdd, next(i));
    }
  }

  // Every block of every rank has sent what this rank gets.
  STRETTO_PRIMITIVE bool wait() {
    bool failed = false;
    const uint64 arrivals = (call_ + 1) * static_cast<uint64>(block_.num_blocks());
    for (uint32 r = thread_; r < ranks_; r += threads_) {
      failed = !block_.wait_until(args_.arrived + r, Compare::kGe, arrivals, Where::here(),
                                  static_cast<int>(r)) ||
               failed || !same_shape(r);
    }
    return !block_.sync_or(failed);
  }

  STRETTO_PRIMITIVE void receive() {
    find_offsets();
    uint32 all = 0;
    for (uint32 r = 0; r < ranks_; ++r) {
      const uint32 of_source = rank_counts_[r];
      all += of_source;
    }
    const uint64 vectors = token_vectors(args_.shape);
    const auto chunk = static_cast<uint64>(4 * lanes_.count);
    const auto chunks = static_cast<uint32>((vectors + chunk - 1) / chunk);
    const auto step = static_cast<uint32>(block_.num_blocks() * lanes_.warps);
    for (auto item = static_cast<uint32>(block_.block_idx() * lanes_.warps + lanes_.warp);
         item < all * chunks; item += step) {
      uint32 slot = item / chunks;
      uint32 source = 0;
      for (;; ++source) {
        const uint32 of_source = rank_counts_[source];
        if (slot < of_source) break;
        slot -= of_source;
      }
      take_token(source, slot, item % chunks * chunk);
    }
    block_.sync();
    if (thread_ == 0) args_.calls[block_.block_idx()] = call_ + 1;
  }

 private:
  STRETTO_PRIMITIVE int next(uint32 i) const { return static_cast<int>((me_ + 1 + i) % ranks_); }

  STRETTO_PRIMITIVE void problem(Problem what, uint32 amount, bool once = false) {
    if (once && (thread_ != 0 || block_.block_idx() != 0)) return;
    block_.fetch_add(args_.problems + static_cast<uint32>(what), amount, Order::kRelaxed,
                     Scope::kGpu);
  }
  // The expert of an entry, or kNone.
  STRETTO_PRIMITIVE uint32 expert_at(uint32 token, uint32 j, bool count_problem) {
    const int32 id = args_.ids[static_cast<uint64>(token) * k_ + j];
    if (id >= 0 && static_cast<uint32>(id) < args_.shape.experts) return static_cast<uint32>(id);
    if (count_problem && id != -1) problem(kIdsOutOfRange, 1);
    return kNone;
  }

  // How many entries of each expert and tokens for each rank come before this block's own.
  STRETTO_PRIMITIVE void count_before(uint32 tile, uint32 count) {
    if (thread_ < count) {
      uint64 mask = 0;
      for (uint32 j = 0; j < k_; ++j) {
        const uint32 expert = expert_at(tile + thread_, j, false);
        if (expert == kNone) continue;
        mask |= 1ull << (expert / local_);
        block_.fetch_add(expert_counts_ + expert, 1, Order::kRelaxed, Scope::kBlock);
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
        block_.fetch_add(rank_counts_ + rank, found, Order::kRelaxed, Scope::kBlock);
      }
    }
    block_.sync();
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

  // Slot `slot` of `source` in this call's half.
  STRETTO_PRIMITIVE uint64 slot_index(uint32 source, uint32 slot) const {
    return (half_ + source) * args_.shape.max_tokens + slot;
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
      const auto rank = static_cast<uint32>(next(i));
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
    float most = 0;
    for (uint32 p = lane; inside && p < kPairs; p += lanes) {
      float values[16] = {};
      load_pair(from + p * 2, values);
      STRETTO_UNROLL for (float value : values) {
        const float size = value < 0 ? -value : value;
        most = size > most ? size : most;
      }
    }
    most = block_.warp_max(most, static_cast<int>(lanes));
    const float inverse = most > 0 ? 448.0f / most : 0.0f;
    for (uint32 p = lane; inside && p < kPairs; p += lanes) {
      float values[16] = {};
      load_pair(from + p * 2, values);
      STRETTO_UNROLL for (float& value : values) value *= inverse;
      const Vec16 quantised = {{e4m3x4_from_floats(values), e4m3x4_from_floats(values + 4),
                                e4m3x4_from_floats(values + 8), e4m3x4_from_floats(values + 12)}};
      for (uint32 i = 0; i < ranks_; ++i) {
        const int rank = next(i);
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

  STRETTO_PRIMITIVE void send_counts() {
    block_.sync();
    const auto words = static_cast<uint32>(count_words(args_.shape, ranks_));
    for (uint32 i = thread_; i < ranks_ * words; i += threads_) {
      const uint32 rank = i / words;
      const uint32 word = i % words;
      uint32 value = shape_word(word);
      if (word < local_) {
        value = expert_counts_[rank * local_ + word];
      } else if (word == local_) {
        value = rank_counts_[rank];
      }
      block_.peer(args_.counts, static_cast<int>(rank))[(half_ + me_) * words + word] = value;
    }
  }
  // The last three words of counts: what all ranks must call with.
  STRETTO_PRIMITIVE uint32 shape_word(uint32 word) const {
    if (word == local_ + 1) return args_.shape.hidden;
    if (word == local_ + 2) return args_.shape.experts;
    return k_;
  }
  STRETTO_PRIMITIVE bool same_shape(uint32 rank) {
    constexpr const char* kNames[] = {"hidden", "experts", "top_k"};
    const uint64 words = count_words(args_.shape, ranks_);
    for (uint32 i = 0; i < 3; ++i) {
      const uint32 theirs = args_.counts[(half_ + rank) * words + local_ + 1 + i];
      const uint32 own = shape_word(local_ + 1 + i);
      if (theirs != own) {
        block_.disagree(static_cast<int>(rank), kNames[i], i, own, theirs);
        return false;
      }
    }
    return true;
  }

  // From here on expert_counts_[e * ranks + source] is the first row of the source's rows of local
  // expert e, and rank_counts_[source] the tokens from it.
  STRETTO_PRIMITIVE void find_offsets() {
    const uint64 words = count_words(args_.shape, ranks_);
    auto counts = args_.counts + half_ * words;
    for (uint32 i = thread_; i < local_ * ranks_; i += threads_) {
      expert_counts_[i] = counts[(i % ranks_) * words + i / ranks_];
    }
    for (uint32 r = thread_; r < ranks_; r += threads_) {
      rank_counts_[r] = counts[r * words + local_];
    }
    block_.sync();
    const bool tells = block_.block_idx() == 0;
    for (uint32 e = thread_; e < local_; e += threads_) {
      const uint32 rows = rows_of(e);
      aligned_rows_[e] = aligned(rows);
      if (tells) args_.expert_counts[e] = rows;
    }
    block_.sync();
    for (uint32 e = thread_; e <= local_; e += threads_) {
      uint32 offset = 0;
      STRETTO_UNROLL_8 for (uint32 other = 0; other < e; ++other) {
        const uint32 rows = aligned_rows_[other];
        offset += rows;
      }
      offsets_[e] = offset;
      if (tells) args_.expert_offsets[e] = offset;
    }
    if (tells) {
      for (uint32 r = thread_; r < ranks_; r += threads_) {
        const uint32 tokens = rank_counts_[r];
        args_.received[r] = tokens;
      }
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
  // A chunk of a token goes to all its rows; the first chunk brings what is once a token.
  STRETTO_PRIMITIVE void take_token(uint32 source, uint32 slot, uint64 first) {
    const uint64 at = slot_index(source, slot);
    const uint64 kept = (static_cast<uint64>(source) * args_.shape.max_tokens + slot) * k_;
    auto rows = scratch_ + static_cast<uint32>(lanes_.warp * lanes_.count) * k_;
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

  Block& block_;
  const DispatchArgs<Block>& args_;
  Lanes lanes_;
  uint32 ranks_, me_, thread_, threads_, local_, k_;
  uint64 call_, half_;
  uint32 begin_, end_;
  Ptr<Block, uint64> masks_;
  Ptr<Block, uint32> expert_counts_, rank_counts_, offsets_, aligned_rows_, tile_ids_, tile_places_,
      tile_slots_, tile_goes_, scratch_;
};

template <class Block>
STRETTO_KERNEL void dispatch(Block& block, const DispatchArgs<Block>& args) {
  Dispatch<Block> work(block, args);
  work.send();
  if (work.wait()) work.receive();
}

}  // namespace stretto::device
