// Products whose rows choose matrices: what the steps of lowering leave for one another. They do
// not cut tiles of a matrix, but entries of a partition, so they have steps of their own.
#pragma once

#include "lower/lanes.h"
#include "lower/rect.h"
#include "schedule/scheduled_segments.h"
#include "stretto/device/routing.h"
#include "stretto/lower.h"

namespace stretto {

// Tokens whose choices are partitioned together, and the partition that has their rows.
struct RoutedBlocks {
  int partition = -1;           // of the plan; -1: not declared yet
  int64_t tokens = 0;           // of all blocks
  int64_t tokens_of_block = 0;  // of whole ones
  int count = 0;
  int blocks_before = 0;  // in the partition: those of earlier parts of the rows
  int32_t experts = 0;    // that a rank has at most
  int32_t all_experts = 0;
  int dealt_to = 1;                                            // ranks; 1: each has all
  int32_t top_k = 0, entry_rows = 0, entries = 0;              // entries: of a block
  uint16_t choices = 0, experts_of = 0, rows = 0, counts = 0;  // buffers of tables
  // Into so many parts choices of a block are cut, so that many lanes make its tables; 1: one does.
  int parts = 1;
  uint16_t part_counts = 0;  // buffer of what parts count
  // Entries of a block that are tasks of their own; others, which few routings fill, are taken
  // kSpares at a time.
  int32_t single = 0;
  bool by_source = false;   // a block for each rank's tokens
  bool by_choice = false;   // the caller has rows by their choices: no partition, no tables
  bool has_tables = false;  // tasks that make them are emitted

  int32_t experts_of_rank(int rank) const {
    return device::ExpertShares{all_experts, dealt_to}.size(dealt_to == 1 ? 0 : rank);
  }
  // Of a block: its tokens, choices and rows of the partition.
  int32_t first_token(int block) const { return static_cast<int32_t>(block * tokens_of_block); }
  int32_t last_token(int block) const {
    return static_cast<int32_t>(std::min(tokens, (block + 1) * tokens_of_block));
  }
  int32_t first_entry(int block) const { return (blocks_before + block) * entries; }
  // In COUNTS: a count for each of the rank's experts, and one of bad ids.
  int32_t first_count(int block, int rank) const {
    return (blocks_before + block) * (experts_of_rank(rank) + 1);
  }
  Rect rows_of_entries(int32_t first, int32_t last, int32_t col0, int32_t col1) const {
    return {first * entry_rows, last * entry_rows, col0, col1};
  }
  static constexpr int32_t kSpares = 16;
  // Calls visit(first, last) for the entries of each task of a block.
  template <typename Visit>
  void for_each_task(int block, const Visit& visit) const {
    for (int32_t i = 0; i < entries;) {
      const int32_t next = i < single ? i + 1 : std::min(entries, i + kSpares);
      visit(first_entry(block) + i, first_entry(block) + next);
      i = next;
    }
  }
  Rect rows_of_block(int block, int32_t col0, int32_t col1) const {
    const int32_t first = first_entry(block) * entry_rows;
    return {first, first + entries * entry_rows, col0, col1};
  }
};

// A tensor of tokens that ranks need of all tokens.
struct GatheredRows {
  int tensor = -1;
  uint16_t own = 0;          // the rank's own rows, or all of them
  uint16_t all = 0;          // those of all ranks, where they have to be gathered
  bool is_gathered = false;  // own != all
};

struct RoutedLowering {
  RoutedLowering(const OperatorSegment& one, const Schedule& point, size_t at, size_t rows)
      : part(one), op(*one.product), schedule(point), number(at), of_part(rows) {}

  const OperatorSegment& part;
  const Segment op;
  const Schedule schedule;
  const size_t number;   // of the schedule
  const size_t of_part;  // of the rows
  size_t blocks = 0;     // in Lowering::routed_blocks
  GatheredRows x, ids, weights;
  std::vector<uint16_t> stacks;  // B, one or two
  std::vector<uint16_t> kept;    // by stage: where its tiles are until the next one takes them
  // Where permute=pass puts rows of X, in the order of the partition.
  std::optional<uint16_t> permuted = {};
  uint16_t out = 0;        // of the segment
  uint16_t part_sums = 0;  // what NCCL adds
  uint16_t slots = 0;      // a sum of every source, at who has the token
  LaneTable lanes = {};
  int sms_of_others = 0;
  bool has_sent_weights = false;  // they came with another product's tokens

  bool by_nccl() const { return op.ranks > 1 && schedule.mover == Mover::nccl; }
  // All lanes bring tokens, in kernels ahead of the product.
  bool by_lanes() const { return op.ranks > 1 && schedule.mover == Mover::epilogue; }
  // Copy engines bring tokens, while lanes bring what tables are made of, and make these.
  bool by_copies() const { return op.ranks > 1 && schedule.mover == Mover::copy_engine; }
  // Kernels of products await what was brought; else their tiles do, one by one.
  bool is_ahead() const { return by_nccl() || by_lanes() || by_copies(); }
  // Else owners add what the others write to them.
  bool sums_by_nccl() const { return by_nccl() && schedule.reduction == Reduction::nccl; }
  bool by_source() const { return op.ranks > 1 && schedule.granularity == Granularity::chunk; }
  // The kernel of a block's product begins as soon as that block's tokens are there.
  bool is_block_by_block() const {
    return by_copies() && by_source() && x.is_gathered && !op.only_moves();
  }
  bool communicates() const { return op.ranks > 1; }
  bool has_sums() const { return part.router_weights >= 0; }
  // Terms that ranks add up; else each weighs whole results, in its own columns.
  bool adds_terms() const { return communicates() && op.kind.out != Edge::none; }
  bool has_shares_of_experts() const { return op.kind.weight == Held::experts; }
  // X has a row for each choice, not for each token.
  bool takes_choices(const Operator& whole) const { return stretto::takes_choices(whole, part); }
  // Rows are added up from where the caller has them by choice: nothing takes them in the order of
  // a partition. Of one choice a token, a task could not tell ids from rows of a partition.
  bool sums_choices(const Operator& whole) const {
    return op.only_moves() && communicates() && has_sums() && op.top_k > 1 &&
           takes_choices(whole) && (!by_nccl() || by_ids());
  }
  // Collectives that go by ids bring tokens, and take sums back.
  bool goes_by_ids() const {
    return by_nccl() && schedule.collectives == CollectivesBy::low_latency;
  }
  // And nothing puts rows in order between them.
  bool by_ids() const { return goes_by_ids() && op.only_moves(); }
  int comm_lanes() const { return is_ahead() || !communicates() ? 0 : schedule.comm_sms; }
  int tile_cols() const { return schedule.tile_n / std::max(1, op.weights); }
  int col_tiles() const { return static_cast<int>((op.local_n() + tile_cols() - 1) / tile_cols()); }
  Rect cols_of(int tile) const {
    const int32_t first = tile * tile_cols();
    return {0, 0, first,
            static_cast<int32_t>(std::min<int64_t>(op.local_n(), first + tile_cols()))};
  }
};

// The partition that the product takes its rows from; `schedule` says how large entries are.
RoutedBlocks blocks_of(const RoutedLowering& product);
// Entries of a block that experts fill which are all as likely, in the mean.
int32_t expected_entries(const RoutedBlocks& blocks);

}  // namespace stretto
