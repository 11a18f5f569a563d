// Rows to the ranks of their experts and back as weighted sums, call after call with other choices:
// all ranks, one, none, several experts of one rank, ids that are no expert's. Either every rank
// has all ids and rows lie by choice, or each has those of its own tokens, and rows lie by token,
// or nowhere: then one kernel takes them there and back. Experts are dealt to ranks, or each rank
// has a part of all. Or rows go, without weights, and nothing comes back: calls of that alone keep
// their slots apart.
#pragma once

#include <vector>

#include "fibre/scenarios/read_behind.h"
#include "stretto/device/lang/kernels/round_trip_rows.h"
#include "stretto/device/lang/kernels/send_chosen_rows.h"
#include "stretto/device/lang/kernels/sum_chosen_rows.h"
#include "stretto/device/lang/kernels/sum_many_rows.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

using namespace device;

struct ChosenCase {
  bool by_choice = true;  // ids of all tokens everywhere; weights of own ones
  uint32 top_k = 3;
  uint32 tokens = 7;
  bool round_trip = false;  // not by choice
  bool of_all_experts = false;
  bool many = false;   // sums by the kernel of many rows
  uint32 vectors = 2;  // of a row
  // Of rows by token: behind a kernel that makes the rows, whose end sums do not await before they
  // look up what they are of.
  bool early = false;
  // That kernel stands behind another one, and lets sums start while that one may still run.
  bool behind_two = false;
  bool comes_back = true;
};

inline constexpr uint32 kChosenVectors = 2, kChosenExperts = 7;
inline constexpr size_t kChosenCalls = 5;
inline constexpr int32 kFewTerms = 40;  // of one to three tokens of each rank

inline int32 chosen_id(size_t call, size_t token, size_t slot) {
  const auto mixed = static_cast<int32>((call * 31 + token * 17 + slot * 5) % 97);
  switch ((call + token) % 6) {
    case 0:
      return -1;
    case 1:  // of one rank, and twice the same expert
      return 0;
    case 2:  // no experts'
      return slot == 0 ? -2147450880 : slot == 1 ? 1000 : mixed % 7;
    default:
      return mixed % 9 - 1;
  }
}
inline float chosen_weight(size_t call, size_t token, size_t slot) {
  const size_t mixed = call * 13 + token * 7 + slot * 3;
  return mixed % 11 == 0 ? -0.0f : float(int(mixed % 15) - 7) / 8;
}
inline Vec16 chosen_row(size_t call, size_t token, size_t vector) {
  float values[8];
  for (size_t e = 0; e < 8; ++e) {
    const size_t mixed = call * 19 + token * 11 + vector * 23 + e * 5;
    values[e] = mixed % 13 == 0 ? -0.0f : float(int(mixed % 41) - 20) / 4;
  }
  return Bf16x8::round(values);
}

class ChosenWorld {
 public:
  ChosenWorld(World& world, const ChosenCase& its)
      : world_(world),
        its_(its),
        ranks_(uint32(world.shape().ranks)),
        block_tokens_((its.tokens + ranks_ - 1) / ranks_),
        shares_{int32(kChosenExperts), its.of_all_experts ? 1 : int32(ranks_)},
        sends_(memory("sends", sent_sizes())),
        sums_(memory("sums", sizes(false, its.by_choice))),
        bad_(world.local<uint64>("bad", 1, 0)) {}

  void run() {
    for (size_t call = 0; call < kChosenCalls; ++call) add(call);
    if (!world_.run()) return;
    for (size_t call = 0; call < kChosenCalls; ++call) check(call);
    for (uint32 r = 0; r < ranks_; ++r) {
      const uint64 kernels = its_.round_trip || !its_.comes_back ? 1 : 2;
      world_.expect(bad_.get(int(r), 0) == kernels * all_bad(), "bad ids are counted otherwise");
    }
  }

 private:
  struct Memory {
    Buffer<Vec16> slots, greetings;
    Buffer<uint64> state;
  };
  struct Call {
    Buffer<int32> ids, all_ids;
    Buffer<float> weights, all_weights;
    Buffer<Vec16> input, rows, output;
    Buffer<uint32> counts;
  };

  ChosenSizes sizes(bool notes_ids, bool notes_weights, bool comes_back = false) const {
    return {its_.tokens,           block_tokens_,      its_.top_k,
            kChosenExperts,        its_.vectors,       uint32(notes_ids),
            uint32(notes_weights), uint32(comes_back), uint32(its_.of_all_experts)};
  }
  ChosenSizes sent_sizes() const {
    return sizes(!its_.by_choice, !its_.by_choice && its_.comes_back, its_.round_trip);
  }
  Memory memory(const char* name, const ChosenSizes& of) {
    return {world_.symmetric<Vec16>(name, of.slot_vectors(ranks_), four_of(Bf16x8::kPoison)),
            world_.symmetric<Vec16>("greetings", size_t(3) * ranks_, four_of(kNoGreeting)),
            world_.local<uint64>("state", size_t(world_.shape().blocks), 0)};
  }
  uint32 first_of(uint32 rank) const { return std::min(its_.tokens, rank * block_tokens_); }
  ChosenArgs<Block> chosen(int r, const Memory& m, const ChosenSizes& of, const Buffer<int32>& ids,
                           const Buffer<float>& weights) const {
    return {
        of,        ids.at(r), {}, weights.at(r), m.slots.at(r), m.greetings.at(r), m.state.at(r),
        bad_.at(r)};
  }

  void add(size_t call) {
    const size_t choices = size_t(its_.tokens) * its_.top_k;
    const size_t rows = (its_.by_choice ? choices : its_.tokens) * its_.vectors;
    const size_t own = size_t(block_tokens_);
    Call c{world_.local<int32>("ids", choices),
           world_.local<int32>("all ids", choices, 0),
           world_.local<float>("weights", own * its_.top_k),
           world_.local<float>("all weights", choices, 0),
           world_.local<Vec16>("input", own * its_.vectors),
           world_.local<Vec16>("rows", rows, four_of(kUntouchedRow)),
           world_.local<Vec16>("output", own * its_.vectors, four_of(kUntouchedRow)),
           world_.local<uint32>("counts", kChosenExperts, 0)};
    for (uint32 r = 0; r < ranks_; ++r) {
      const uint32 first = first_of(r), last = first_of(r + 1);
      for (uint32 t = its_.by_choice ? 0 : first; t < (its_.by_choice ? its_.tokens : last); ++t) {
        const size_t row = its_.by_choice ? t : t - first;
        for (uint32 j = 0; j < its_.top_k; ++j) {
          c.ids.set(int(r), row * its_.top_k + j, chosen_id(call, t, j));
        }
      }
      for (uint32 t = first; t < last; ++t) {
        for (uint32 j = 0; j < its_.top_k; ++j) {
          c.weights.set(int(r), (t - first) * its_.top_k + j, chosen_weight(call, t, j));
        }
        for (uint32 v = 0; v < its_.vectors; ++v) {
          c.input.set(int(r), (t - first) * its_.vectors + v, chosen_row(call, t, v));
        }
      }
    }
    if (its_.round_trip) {
      launch_round_trip(c);
    } else {
      launch_send(c);
      if (its_.comes_back) launch_sums(c);
    }
    Call kept = c;
    kept.all_ids = read_behind(world_, c.all_ids);
    kept.rows = read_behind(world_, c.rows);
    kept.output = read_behind(world_, c.output);
    kept.counts = read_behind(world_, c.counts);
    calls_.push_back(kept);
  }
  void launch_round_trip(const Call& c) {
    const ChosenSizes both = sent_sizes();
    world_.launch([=, *this](Block& block) {
      const int r = block.rank();
      round_trip_rows<Bf16x8, Block, 1>(
          block, {chosen(r, sends_, both, c.ids, c.weights), c.input.at(r), c.output.at(r)});
    });
  }
  void launch_send(const Call& c) {
    const ChosenSizes sent = sent_sizes();
    world_.launch([=, *this](Block& block) {
      if (its_.early) wait_for_kernels_before(block);
      const int r = block.rank();
      ChosenArgs<Block> args = chosen(r, sends_, sent, c.ids, c.weights);
      if (!its_.comes_back) args.weights = {};
      send_chosen_rows<Bf16x8, Block, 1>(
          block, {args, c.input.at(r), c.rows.at(r), uint32(its_.by_choice), c.all_ids.at(r),
                  its_.comes_back ? c.all_weights.at(r) : Pointer<float>{}, c.counts.at(r)});
    });
  }
  void launch_sums(const Call& c) {
    const bool by_choice = its_.by_choice;
    const ChosenSizes summed = sizes(false, by_choice);
    if (its_.behind_two) {
      world_.launch_early(
          [=, *this](Block& block) { make_rows(block, c.rows.at(block.rank()), true); });
    }
    if (its_.early) {
      world_.launch_early(
          [=, *this](Block& block) { make_rows(block, c.rows.at(block.rank()), false); });
    }
    world_.launch_early([=, *this](Block& block) {
      const int r = block.rank();
      const SumChosenArgs<Block> args{chosen(r, sums_, summed, by_choice ? c.ids : c.all_ids,
                                             by_choice ? c.weights : c.all_weights),
                                      c.rows.at(r),
                                      uint32(by_choice),
                                      {},
                                      c.output.at(r),
                                      uint32(its_.early)};
      if (its_.many) wait_for_kernels_before(block);  // as who launches it on a GPU does
      if (!its_.many) {
        sum_chosen_rows<Bf16x8, Block>(block, args);
      } else if (its_.top_k < 5) {
        sum_many_rows<Bf16x8, 4, Block>(block, args);
      } else if (its_.vectors > 2) {  // a block looks up what its tokens have in several turns
        sum_many_rows<Bf16x8, 8, Block, kFewTerms>(block, args);
      } else {
        sum_many_rows<Bf16x8, 2, Block>(block, args);
      }
    });
  }

  // As a product of experts does: it writes rows and nothing else, and waits for its stream before
  // it lets the next kernel start; or at its end, where it awaits tiles of another ahead of it,
  // which is the first of two. Then either makes half of the rows.
  void make_rows(Block& block, Pointer<Vec16> rows, bool is_first) const {
    const bool waits_last = its_.behind_two && !is_first;
    if (!waits_last) block.wait_for_kernel_before();
    block.let_next_start();
    const auto step = uint32(block.num_blocks() * block.num_threads());
    auto i = uint32(block.block_idx() * block.num_threads() + block.thread_idx());
    for (; i < its_.tokens * its_.vectors; i += step) {
      if (its_.behind_two && (i % 2 == 0) != is_first) continue;
      const Vec16 row = rows[i];
      rows[i] = row;
    }
    if (waits_last) block.wait_for_kernel_before();
  }

  static bool is_expert(int32 id) { return id >= 0 && id < int32(kChosenExperts); }
  bool is_on(uint32 rank, int32 id) const {
    return is_expert(id) && (its_.of_all_experts || uint32(id / shares_.block()) == rank);
  }
  int32 share_of(uint32 rank) const { return its_.of_all_experts ? 0 : int32(rank); }
  uint64 all_bad() const {
    uint64 bad = 0;
    for (size_t call = 0; call < kChosenCalls; ++call) {
      for (uint32 t = 0; t < its_.tokens; ++t) {
        for (uint32 j = 0; j < its_.top_k; ++j) {
          const int32 id = chosen_id(call, t, j);
          bad += id != -1 && !is_expert(id);
        }
      }
    }
    return bad;
  }
  void expect_vector(const Vec16& got, const Vec16& want, const char* what) {
    for (int w = 0; w < 4; ++w) world_.expect(got.word[w] == want.word[w], what);
  }

  void check(size_t call) {
    const Call& c = calls_[call];
    std::vector<uint32> counts(ranks_ * size_t(kChosenExperts), 0);
    for (uint32 t = 0; t < its_.tokens; ++t) {
      std::vector<uint32> has(ranks_, 0);
      for (uint32 j = 0; j < its_.top_k; ++j) {
        const int32 id = chosen_id(call, t, j);
        for (uint32 r = 0; r < ranks_; ++r) {
          if (!its_.by_choice && !its_.round_trip) check_id(c, r, size_t(t) * its_.top_k + j, id);
          if (its_.by_choice) {
            check_row(c, call, r, t, size_t(t) * its_.top_k + j, is_on(r, id));
          }
          if (!is_on(r, id)) continue;
          has[r] = 1;
          ++counts[r * kChosenExperts + uint32(id - shares_.begin(share_of(r)))];
        }
      }
      for (uint32 r = 0; !its_.by_choice && r < ranks_; ++r) {
        check_row(c, call, r, t, t, has[r] != 0 && !its_.round_trip);
      }
      if (its_.comes_back) check_sum(c, call, t);
    }
    for (uint32 r = 0; !its_.round_trip && r < ranks_; ++r) {
      for (int32 e = 0; e < shares_.size(share_of(r)); ++e) {
        world_.expect(c.counts.get(int(r), size_t(e)) == counts[r * kChosenExperts + uint32(e)],
                      "a count is wrong");
      }
    }
  }
  // An id that is the sentinel has become one that chooses nobody.
  void check_id(const Call& c, uint32 r, size_t choice, int32 id) {
    const int32 got = c.all_ids.get(int(r), choice);
    world_.expect(got == id || (uint32(id) == Bf16x8::kPoison && got == kNoExpert),
                  "an id is wrong");
  }
  void check_row(const Call& c, size_t call, uint32 r, uint32 t, size_t row, bool is_there) {
    for (uint32 v = 0; v < its_.vectors; ++v) {
      const Vec16 want =
          is_there ? positive_zeros<Bf16x8>(chosen_row(call, t, v)) : four_of(kUntouchedRow);
      expect_vector(c.rows.get(int(r), row * its_.vectors + v), want, "a row is wrong");
    }
  }
  void check_sum(const Call& c, size_t call, uint32 t) {
    const uint32 who = t / block_tokens_;
    for (uint32 v = 0; v < its_.vectors; ++v) {
      float all[8] = {};
      for (uint32 r = 0; r < ranks_; ++r) {
        float sums[8] = {}, values[8];
        bool any = false;
        Bf16x8::read(values, chosen_row(call, t, v));
        for (uint32 j = 0; j < its_.top_k; ++j) {
          if (!is_on(r, chosen_id(call, t, j))) continue;
          any = true;
          for (int e = 0; e < 8; ++e)
            sums[e] = fused(chosen_weight(call, t, j), values[e], sums[e]);
        }
        if (any) Bf16x8::add(all, Bf16x8::round(sums));
      }
      expect_vector(c.output.get(int(who), (t - who * block_tokens_) * its_.vectors + v),
                    Bf16x8::round(all), "a sum is wrong");
    }
  }

  static constexpr uint32 kUntouchedRow = 0x12341234u;
  World& world_;
  ChosenCase its_;
  uint32 ranks_, block_tokens_;
  ExpertShares shares_;
  Memory sends_, sums_;
  Buffer<uint64> bad_;
  std::vector<Call> calls_ = {};
};

inline void chosen_rows_calls(World& world, const ChosenCase& its) {
  ChosenWorld(world, its).run();
}

}  // namespace stretto::fibre
