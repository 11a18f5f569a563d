// Rows to the ranks of their experts, and there the partition of all choices by the same kernel,
// call after call with the choices of chosen_rows.h. Experts are dealt to ranks, or each rank has a
// part of all; weights come along, or ids alone.
#pragma once

#include <vector>

#include "fibre/scenarios/chosen_rows.h"
#include "stretto/device/lang/kernels/send_and_route.h"
#include "stretto/device/make_partition.h"

namespace stretto::fibre {

class RoutedWorld {
 public:
  static constexpr uint32 kTokens = 7, kTopK = 5;
  static constexpr int32 kEntryRows = 4, kChoices = int32(kTokens * kTopK);

  explicit RoutedWorld(World& world, bool of_all_experts = false, bool has_weights = true)
      : world_(world),
        of_all_experts_(of_all_experts),
        has_weights_(has_weights),
        ranks_(uint32(world.shape().ranks)),
        block_tokens_((kTokens + ranks_ - 1) / ranks_),
        shares_{int32(kChosenExperts), of_all_experts ? 1 : int32(ranks_)},
        slots_(world.symmetric<Vec16>("slots", sizes().slot_vectors(ranks_),
                                      four_of(Bf16x8::kPoison))),
        greetings_(world.symmetric<Vec16>("greetings", size_t(3) * ranks_, four_of(kNoGreeting))),
        state_(world.local<uint64>("state", size_t(world.shape().blocks), 0)),
        route_blocks_(world.shape().blocks >= 4 ? 2 : 1),
        met_(world.local<uint64>("met", 1, 0)),
        totals_(world.local<int32>("totals", size_t(route_blocks_) * (kChosenExperts + 1), 0)),
        bad_(world.local<uint64>("bad", 1, 0)) {}

  void run() {
    for (size_t call = 0; call < kChosenCalls; ++call) add(call);
    if (!world_.run()) return;
    uint64 bad = 0;
    for (size_t call = 0; call < kChosenCalls; ++call) bad += check(call);
    for (uint32 r = 0; r < ranks_; ++r) {
      world_.expect(bad_.get(int(r), 0) == bad, "bad ids are counted otherwise");
    }
  }
  // Rank 1 does not come. Kernels behind this one read rows by what it leaves, whatever that is.
  void run_without_rank_1() {
    world_.make_absent(1);
    add(0);
    if (!world_.run()) return;
    world_.expect(world_.num_expired() > 0, "nobody noticed");
    for (int32 c = 0; c < kChoices; ++c) {
      const int32 row = calls_[0].row_of_choice.get(0, size_t(c));
      world_.expect(row >= 0 && row < entries_of(0) * kEntryRows, "a row is not in its table");
    }
  }

 private:
  struct Call {
    Buffer<int32> ids, all_ids;
    Buffer<float> weights, all_weights;
    Buffer<Vec16> input, rows;
    Buffer<int32> tokens, experts, row_of_choice, counts;
  };

  ChosenSizes sizes() const {
    return {kTokens, block_tokens_,        kTopK, kChosenExperts,         kChosenVectors,
            1,       uint32(has_weights_), 0,     uint32(of_all_experts_)};
  }
  uint32 first_of(uint32 rank) const { return std::min(kTokens, rank * block_tokens_); }
  int32 share_of(uint32 rank) const { return of_all_experts_ ? 0 : int32(rank); }
  int32 experts_of(uint32 rank) const { return shares_.size(share_of(rank)); }
  int32 entries_of(uint32 rank) const {
    return most_entries(kChoices, experts_of(rank), kEntryRows) + 1;
  }

  void add(size_t call) {
    const auto most = size_t(most_entries(kChoices, int32(kChosenExperts), kEntryRows)) + 1;
    const size_t own = block_tokens_;
    Call c{world_.local<int32>("ids", own * kTopK),
           world_.local<int32>("all ids", kChoices, 0),
           world_.local<float>("weights", own * kTopK),
           world_.local<float>("all weights", kChoices, 0),
           world_.local<Vec16>("input", own * kChosenVectors),
           world_.local<Vec16>("rows", kTokens * kChosenVectors, four_of(0)),
           world_.local<int32>("CHOICES", most * kEntryRows, kUntouched),
           world_.local<int32>("EXPERTS", most, kUntouched),
           world_.local<int32>("ROWS", kChoices, kUntouched),
           world_.local<int32>("COUNTS", kChosenExperts + 1, kUntouched)};
    for (uint32 r = 0; r < ranks_; ++r) {
      const uint32 first = first_of(r), last = first_of(r + 1);
      for (uint32 t = first; t < last; ++t) {
        for (uint32 j = 0; j < kTopK; ++j) {
          const size_t at = size_t(t - first) * kTopK + j;
          c.ids.set(int(r), at, chosen_id(call, t, j));
          c.weights.set(int(r), at, chosen_weight(call, t, j));
        }
        for (uint32 v = 0; v < kChosenVectors; ++v) {
          c.input.set(int(r), size_t(t - first) * kChosenVectors + v, chosen_row(call, t, v));
        }
      }
    }
    const ChosenSizes of = sizes();
    world_.launch([=, *this](Block& block) {
      const int r = block.rank();
      const auto rank = uint32(r);
      ChosenArgs<Block> chosen{of,           c.ids.at(r),      {},           c.weights.at(r),
                               slots_.at(r), greetings_.at(r), state_.at(r), bad_.at(r)};
      Pointer<float> all_weights = c.all_weights.at(r);
      if (!has_weights_) {
        chosen.weights = {};
        all_weights = {};
      }
      send_and_route<Bf16x8, Block, 1>(
          block, {{chosen, c.input.at(r), c.rows.at(r), 0, c.all_ids.at(r), all_weights, {}},
                  {shares_.begin(share_of(rank)), experts_of(rank), kEntryRows, entries_of(rank),
                   c.tokens.at(r), c.experts.at(r), c.row_of_choice.at(r), c.counts.at(r),
                   c.counts.at(r) + experts_of(rank), route_blocks_, met_.at(r), totals_.at(r)}});
    });
    Call kept = c;
    kept.rows = read_behind(world_, c.rows);
    kept.all_ids = read_behind(world_, c.all_ids);
    kept.all_weights = read_behind(world_, c.all_weights);
    kept.tokens = read_behind(world_, c.tokens);
    kept.experts = read_behind(world_, c.experts);
    kept.row_of_choice = read_behind(world_, c.row_of_choice);
    kept.counts = read_behind(world_, c.counts);
    calls_.push_back(kept);
  }

  void expect_all(const Buffer<int32>& got, uint32 rank, const std::vector<int32>& want,
                  const char* what) {
    for (size_t i = 0; i < want.size(); ++i) {
      world_.expect(got.get(int(rank), i) == want[i], what);
    }
  }

  // How many ids are bad.
  uint64 check(size_t call) {
    const Call& c = calls_[call];
    std::vector<int32> ids;
    for (uint32 t = 0; t < kTokens; ++t) {
      for (uint32 j = 0; j < kTopK; ++j) ids.push_back(chosen_id(call, t, j));
    }
    int32 bad = 0;
    for (uint32 r = 0; r < ranks_; ++r) {
      const int32 own = experts_of(r), entries = entries_of(r);
      std::vector<int32> tokens(size_t(entries) * kEntryRows), experts(size_t(entries), 0),
          rows(ids.size()), counts(size_t(own) + 1), scratch(size_t(partition_scratch(own, 1)));
      make_partition(Choices<int32>{ids.data(), kChoices, 1, int32(kChosenExperts),
                                    shares_.begin(share_of(r)), own},
                     Partition{kEntryRows, entries, tokens.data(), experts.data(), rows.data(),
                               counts.data(), &counts.back()},
                     scratch.data());
      bad = counts.back();
      expect_all(c.tokens, r, tokens, "a row's choice is wrong");
      expect_all(c.experts, r, experts, "an entry's expert is wrong");
      expect_all(c.row_of_choice, r, rows, "a choice's row is wrong");
      expect_all(c.counts, r, counts, "a count is wrong");
      check_rows(c, call, r);
    }
    return uint64(bad);
  }
  // A token's row is where one of its experts is.
  void check_rows(const Call& c, size_t call, uint32 rank) {
    for (uint32 t = 0; t < kTokens; ++t) {
      bool any = false;
      for (uint32 j = 0; j < kTopK; ++j) {
        const int32 own = chosen_id(call, t, j) - shares_.begin(share_of(rank));
        any = any || (own >= 0 && own < experts_of(rank));
        const float weight = has_weights_ ? chosen_weight(call, t, j) : 0.0f;
        world_.expect(c.all_weights.get(int(rank), size_t(t) * kTopK + j) == weight,
                      "a weight is wrong");
      }
      for (uint32 v = 0; v < kChosenVectors; ++v) {
        const Vec16 want = any ? positive_zeros<Bf16x8>(chosen_row(call, t, v)) : four_of(0);
        const Vec16 got = c.rows.get(int(rank), size_t(t) * kChosenVectors + v);
        for (int w = 0; w < 4; ++w) world_.expect(got.word[w] == want.word[w], "a row is wrong");
      }
    }
  }

  static constexpr int32 kUntouched = -77;
  World& world_;
  bool of_all_experts_, has_weights_;
  uint32 ranks_, block_tokens_;
  ExpertShares shares_;
  Buffer<Vec16> slots_, greetings_;
  Buffer<uint64> state_;
  int32 route_blocks_;
  Buffer<uint64> met_;
  Buffer<int32> totals_;
  Buffer<uint64> bad_;
  std::vector<Call> calls_ = {};
};

inline void routed_rows_calls(World& world) { RoutedWorld(world).run(); }
inline void routed_rows_of_all(World& world) { RoutedWorld(world, true).run(); }
inline void routed_rows_of_ids(World& world) { RoutedWorld(world, true, false).run(); }
inline void routed_rows_of_one(World& world) { RoutedWorld(world, true).run_without_rank_1(); }

}  // namespace stretto::fibre
