// Rows that go to the ranks of the experts that they choose, and come back as weighted sums: few of
// them, by sentinels (slots.h). At a rank a row's place is its token's. So whoever has a token's
// ids knows who sends its row, to whom and where: nothing is counted, sorted or signalled first.
//
// Rank r has tokens [r, r + 1) x block_tokens of all `tokens`, the last ones fewer, and experts as
// ExpertShares deals them, or a part of every expert. What a rank alone has of its tokens, ids or
// weights, goes to all others ahead of rows, as a token's *notes*. A note is read by many threads,
// and so cleared a call later (call.h); a vector of a row is read by one, which poisons it again.
#pragma once

#include "stretto/device/lang/kernels/slots.h"
#include "stretto/device/routing.h"

namespace stretto::device {

// The same on all ranks.
struct ChosenSizes {
  uint32 tokens, block_tokens;  // of all ranks; of one that has as many as any has
  uint32 top_k, experts;
  uint32 row_vectors;
  uint32 notes_ids, notes_weights;  // 1: each rank has those of its own tokens alone
  uint32 comes_back;                // 1: in the same call sums come to slots of their own
  uint32 of_all_experts;            // 1: each rank has a part of every expert

  STRETTO_HOST_DEVICE uint32 words_of_note() const { return top_k * (notes_ids + notes_weights); }
  STRETTO_HOST_DEVICE uint32 vectors_of_note() const { return (words_of_note() + 3) / 4; }
  // Two calls' rows, and perhaps sums.
  STRETTO_HOST_DEVICE uint64 row_slots(uint64 ranks) const {
    return (uint64{2} + 2 * comes_back) * ranks * block_tokens;
  }
  // These, and three calls' notes.
  STRETTO_HOST_DEVICE uint64 slot_vectors(uint64 ranks) const {
    return row_slots(ranks) * row_vectors + uint64{3} * ranks * block_tokens * vectors_of_note();
  }
};

// What all of these kernels are called with.
template <class Block>
struct ChosenArgs {
  ChosenSizes sizes;
  // Local: of all tokens, or of own ones; top_k each. One of the two is null.
  Ptr<Block, const int32> ids;
  Ptr<Block, const int64> wide_ids;
  Ptr<Block, const float> weights;  // likewise; null: none
  Ptr<Block, Vec16> slots;          // symmetric, poisoned at first: slot_vectors()
  Ptr<Block, Vec16> greetings;      // symmetric, kNoGreeting at first: 3 x num_ranks
  Ptr<Block, uint64> state;         // local: num_blocks, zero at first
  Ptr<Block, uint64> bad_ids;  // local, one word, added up: ids that are no expert's and not -1
};

// What ranks must agree on (greeting.h).
struct ChosenGreeting {
  static constexpr uint32 kSends = 5, kSums = 6, kBoth = 7;  // beside those of PartsGreeting

  STRETTO_PRIMITIVE Vec16 words() const {
    const uint32 kind = sizes.of_all_experts << 3 | collective;
    return {{sizes.tokens, sizes.experts, sizes.row_vectors, sizes.top_k << 4 | kind}};
  }
  template <class Block>
  STRETTO_PRIMITIVE bool same(Block& block, int rank, const Vec16& theirs) const {
    return same_number(block, rank, "collective", collective, theirs.word[3] & 7) &&
           same_number(block, rank, "of_all_experts", sizes.of_all_experts,
                       theirs.word[3] >> 3 & 1) &&
           same_number(block, rank, "tokens", sizes.tokens, theirs.word[0]) &&
           same_number(block, rank, "experts", sizes.experts, theirs.word[1]) &&
           same_number(block, rank, "row_vectors", sizes.row_vectors, theirs.word[2]) &&
           same_number(block, rank, "top_k", sizes.top_k, theirs.word[3] >> 4);
  }
  ChosenSizes sizes;
  uint32 collective;
};

template <class Format, class Block>
class ChosenRows {
 public:
  // `others`: of ThreadShare.
  STRETTO_PRIMITIVE ChosenRows(Block& block, const ChosenArgs<Block>& args, uint32 collective,
                               uint32 others = 1)
      : block_(block),
        args_(args),
        sizes_(args.sizes),
        ranks_(static_cast<uint32>(block.num_ranks())),
        me_(static_cast<uint32>(block.rank())),
        own_first_(first_of(me_)),
        own_count_(first_of(me_ + 1) - own_first_),
        share_(ThreadShare::of(block, others)),
        call_(collective == ChosenGreeting::kSums ? begin_early_call(block, args.state)
                                                  : begin_call(block, args.state)),
        greeting_{args.sizes, collective} {
    const bool has_all = sizes_.of_all_experts != 0;
    const ExpertShares shares{static_cast<int32>(sizes_.experts),
                              has_all ? 1 : static_cast<int32>(ranks_)};
    experts_of_rank_ = static_cast<uint32>(shares.block());
    next_ranks_ = has_all ? 0 : experts_of_rank_;
  }

 protected:
  static constexpr uint32 kPoison = Format::kPoison;

  STRETTO_PRIMITIVE uint32 first_of(uint32 rank) const {
    const uint64 first = static_cast<uint64>(rank) * sizes_.block_tokens;
    return first < sizes_.tokens ? static_cast<uint32>(first) : sizes_.tokens;
  }
  STRETTO_PRIMITIVE bool is_own(uint32 token) const { return token - own_first_ < own_count_; }
  STRETTO_PRIMITIVE uint32 rank_of(uint32 token) const { return token / sizes_.block_tokens; }
  STRETTO_PRIMITIVE uint32 place_of(uint32 token) const { return token % sizes_.block_tokens; }

  STRETTO_PRIMITIVE bool is_on(uint32 rank, int32 id) const {
    const auto expert = static_cast<uint32>(id);
    return expert < sizes_.experts && expert - rank * next_ranks_ < experts_of_rank_;
  }
  STRETTO_PRIMITIVE bool is_here(int32 id) const { return is_on(me_, id); }
  STRETTO_PRIMITIVE int32 id_at(uint64 at) const {
    return args_.wide_ids ? narrow_id(args_.wide_ids[at]) : args_.ids[at];
  }
  // Of a token whose ids this rank has.
  STRETTO_PRIMITIVE int32 id_of(uint32 token, uint32 slot) const {
    const uint32 row = sizes_.notes_ids != 0 ? token - own_first_ : token;
    return id_at(static_cast<uint64>(row) * sizes_.top_k + slot);
  }
  // Rows of this call, [source][place]; [rank][place] of sums.
  STRETTO_PRIMITIVE Ptr<Block, Vec16> row_slot(uint32 of, uint32 place) const {
    const uint64 row = (static_cast<uint64>(call_.parity) * ranks_ + of) * sizes_.block_tokens;
    return args_.slots + (row + place) * sizes_.row_vectors;
  }
  // Notes of one of three calls, [source][place].
  STRETTO_PRIMITIVE Ptr<Block, Vec16> note_slot(uint64 call, uint32 of, uint32 place) const {
    const uint64 note = (call * ranks_ + of) * sizes_.block_tokens + place;
    return args_.slots +
           (sizes_.row_slots(ranks_) * sizes_.row_vectors + note * sizes_.vectors_of_note());
  }
  STRETTO_PRIMITIVE Ptr<Block, Vec16> note_of(uint32 token) const {
    return note_slot(call_.now, rank_of(token), place_of(token));
  }

  STRETTO_PRIMITIVE void greet_others() {
    greet<Block>(block_, args_.greetings + call_.now * ranks_, greeting_);
  }
  // Words of notes are never the sentinel. A number that is the sentinel's is no expert's; a weight
  // that is, some -4.6e-41, becomes its neighbour.
  STRETTO_PRIMITIVE uint32 noted_id(uint64 choice) const {
    const auto id = static_cast<uint32>(id_at(choice));
    return id == kPoison ? static_cast<uint32>(kNoExpert) : id;
  }
  STRETTO_PRIMITIVE uint32 noted_weight(uint64 choice) const {
    const uint32 weight = bits_of_float(args_.weights[choice]);
    return weight == kPoison ? kPoison + 1 : weight;
  }
  // Word w of the note of own token `place`.
  STRETTO_PRIMITIVE uint32 note_word(uint32 place, uint32 w) const {
    const uint64 row = static_cast<uint64>(place) * sizes_.top_k;
    if (w >= sizes_.words_of_note()) return 0;
    const uint32 slot = w % sizes_.top_k;
    return sizes_.notes_ids != 0 && w < sizes_.top_k ? noted_id(row + slot)
                                                     : noted_weight(row + slot);
  }
  STRETTO_PRIMITIVE void send_notes() {
    const uint32 vectors = sizes_.vectors_of_note();
    for (uint32 i = share_.first; i < own_count_ * vectors; i += share_.step) {
      const uint32 place = i / vectors, at = i % vectors;
      Vec16 words;
      STRETTO_UNROLL for (uint32 w = 0; w < 4; ++w) words.word[w] = note_word(place, 4 * at + w);
      send_to_others<Block>(block_, note_slot(call_.now, me_, place) + at, words);
    }
  }
  // Clears what the call before has read, by all; greetings by the block that greets.
  STRETTO_PRIMITIVE void clear_before() {
    if (call_.call == 0) return;
    clear_greetings<Block>(block_, args_.greetings + call_.before * ranks_);
    const uint32 vectors = sizes_.vectors_of_note() * sizes_.block_tokens * ranks_;
    auto notes = note_slot(call_.before, 0, 0);
    for (uint32 i = share_.first; i < vectors; i += share_.step) notes[i] = four_of(kPoison);
  }
  STRETTO_PRIMITIVE bool hear_others() {
    return hear_greetings<Block>(block_, args_.greetings + call_.now * ranks_, greeting_);
  }
  STRETTO_PRIMITIVE void end(bool good) { end_call<Block>(block_, args_.state, call_.call, good); }

  // Takes values[j] from row slot at[j], of another rank's token or sum, where that is not null.
  template <int kMost, class RankOf>
  STRETTO_PRIMITIVE bool take(const Ptr<Block, Vec16> (&at)[kMost], Vec16 (&values)[kMost],
                              RankOf rank_of_slot, Patience patience = Patience::kUsual,
                              Where where = Where::here()) {
    if (!block_.wait_each_not(at, kPoison, values, rank_of_slot, where, patience)) return false;
    STRETTO_UNROLL for (int j = 0; j < kMost; ++j) {
      if (at[j]) block_.store(at[j], four_of(kPoison));
    }
    return true;
  }
  // Waits for one vector of a note.
  STRETTO_PRIMITIVE bool read_note(uint32 token, uint32 vector, Vec16& words,
                                   Where where = Where::here()) {
    return block_.wait_words_not(note_of(token) + vector, kPoison, words, where,
                                 static_cast<int>(rank_of(token)));
  }

  // Visits the ids of all tokens, four at a time: those first, first + step, ...: visit(id).
  template <class Visit>
  STRETTO_PRIMITIVE bool each_id(uint32 first, uint32 step, Visit visit) {
    for (uint32 i = first; i < sizes_.tokens * id_groups(); i += step) {
      const uint32 token = i / id_groups(), slot = i % id_groups() * 4;
      Vec16 words = {};
      if (sizes_.notes_ids != 0 && !is_own(token)) {
        if (!read_note(token, slot / 4, words)) return false;
      } else {
        STRETTO_UNROLL for (uint32 w = 0; w < 4; ++w) {
          if (slot + w < sizes_.top_k) words.word[w] = static_cast<uint32>(id_of(token, slot + w));
        }
      }
      STRETTO_UNROLL for (uint32 w = 0; w < 4; ++w) {
        if (slot + w < sizes_.top_k) visit(static_cast<int32>(words.word[w]));
      }
    }
    return true;
  }
  STRETTO_PRIMITIVE uint32 id_groups() const { return (sizes_.top_k + 3) / 4; }
  // Of so many vectors of ids those that a thread counts: the block that greets has them all, or,
  // of many, all who have rows, which would else wait for it.
  STRETTO_PRIMITIVE ThreadShare counted(uint32 vectors) const {
    const auto threads = static_cast<uint32>(block_.num_threads());
    if (vectors > 4 * threads) return share_;
    const auto thread = static_cast<uint32>(block_.thread_idx());
    return {is_greeting_block() ? thread : ThreadShare::kNone, threads};
  }
  // Where somebody wants to know.
  STRETTO_PRIMITIVE bool count_bad_ids() {
    if (!args_.bad_ids) return true;
    const ThreadShare own = counted(sizes_.tokens * id_groups());
    return each_id(own.first, own.step, [&](int32 id) { count_if_bad(id); });
  }
  STRETTO_PRIMITIVE void count_if_bad(int32 id) {
    if (!args_.bad_ids || id == -1 || static_cast<uint32>(id) < sizes_.experts) return;
    block_.fetch_add(args_.bad_ids, 1, Order::kRelaxed, Scope::kGpu);
  }
  STRETTO_PRIMITIVE bool is_greeting_block() const {
    return block_.block_idx() == block_.num_blocks() - 1;
  }

  Block& block_;
  const ChosenArgs<Block>& args_;
  const ChosenSizes& sizes_;
  uint32 ranks_, me_, own_first_, own_count_;
  uint32 experts_of_rank_ = 0, next_ranks_ = 0;  // the next rank's experts begin so much later
  ThreadShare share_;
  CallShare call_;
  ChosenGreeting greeting_;
};

}  // namespace stretto::device
