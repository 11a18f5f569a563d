// What the emission of a product of routed rows has in common: who has which rows of tokens, and
// the lanes that are dealt its tasks.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "lower/emitter.h"

namespace stretto {

struct RoutedEmission {
  RoutedEmission(Lowering& lowering, RoutedLowering& of);

  Lowering& state;
  const Operator& op;
  RoutedLowering& product;
  RoutedBlocks& blocks;
  const int ranks;
  const bool events;  // kernels wait and notify at boundaries
  Emitter emit;
  Dealer comm, compute;
  int32_t collectives = 0;

  uint32_t comm_lane(int rank) { return product.lanes.comm_lane(rank, comm.next(rank)); }
  uint32_t compute_lane(int rank) { return product.lanes.compute_lane(rank, compute.next(rank)); }
  void boundaries();
  // Of copy engines: what crosses nodes holds up nothing else.
  int copy_queue(int rank, int to) const {
    return state.machine.same_node(rank, to) ? 0 : product.lanes.copy - 1;
  }
  // One lane counts choices, where no partition does.
  int lanes_of_tiles() const {
    return std::max(1, product.lanes.compute - (blocks.by_choice ? 1 : 0));
  }

  int32_t cols_of(const GatheredRows& rows) const { return state.plan.buffers[rows.own].cols; }
  Region own_rows(const GatheredRows& rows, int rank) const;
  Region rows_of_source(const GatheredRows& rows, int source, int at) const;
  // Rows [first, last) of a block, counted from its first, where the rank has them.
  Region rows_of_block(const GatheredRows& rows, int block, int rank, int32_t first,
                       int32_t last) const;
  // X of a block, whose rows choices pick, and how many choices each has.
  Region rows_to_pick(int block, int rank) const;
  int32_t choices_of_row() const { return product.takes_choices(op) ? 1 : blocks.top_k; }
  int32_t tokens_of(int block) const {
    return blocks.last_token(block) - blocks.first_token(block);
  }
  // A rank's blocks in the order in which it takes them.
  std::vector<int> order_of_blocks(int rank) const;
  // Table rows of the choices of tokens [first, last) of a block.
  Region choices_of(int block, int32_t first, int32_t last, int rank) const;

 private:
  void reserve_tiles();
};

// Every rank's rows to who needs them, and the tables that say which rows are whose.
void gather_routed_tokens(RoutedEmission& of);
// These tables. `beside`: what lanes that make none do meanwhile, where a lane makes a whole one.
void make_partitions(RoutedEmission& of, const std::function<void()>& beside);
// With permute=pass: X of each rank's `turn`-th block into the order of its partition. Nothing to
// do but where kernels of products take block by block.
void permute_block(RoutedEmission& of, int turn);

// The same by collectives that go by ids, weights with them, and the way back (emit_by_ids.cpp).
void dispatch_by_ids(RoutedEmission& of);
void combine_by_ids(RoutedEmission& of);

// What products leave, weighed and summed up for each token.
class RoutedSums {
 public:
  explicit RoutedSums(RoutedEmission& of) : of_(of), product_(of.product), blocks_(of.blocks) {}

  // Who weighs rows writes sums to their owners.
  bool are_sent() const { return product_.adds_terms() && !product_.sums_by_nccl(); }
  // Sums leave while others are multiplied; else behind all tiles.
  bool are_sent_at_once() const { return product_.adds_terms() && !product_.is_ahead(); }
  bool are_beside_tiles() const { return are_sent_at_once() && !product_.op.only_moves(); }
  // Of the block that is the rank's `turn`-th, the columns of some tiles.
  void sum_up(int rank, int turn, const Rect& cols);
  // Where sums are all that is left to do: whole rows, or as many columns as leave every lane some.
  void sum_up_all();
  // What owners do with what has been sent.
  void finish();
  void reduce_by_nccl();

 private:
  void sum_choices(int rank, const Rect& cols);
  void sum_rows(int rank, int block, int owner, int32_t first, int32_t last, const Rect& cols);
  size_t sum_stage() const { return product_.part.stages.size() - 1; }
  int parts_of(int32_t rows) const;
  int column_parts() const;
  // Whose rows of a block are summed apart from others'.
  int owners() const { return blocks_.by_source ? 1 : of_.ranks; }
  Region place_of_sum(int rank, int block, int owner, const Rect& rows) const;
  Rect cols_of_part(int part, int parts) const;
  void add_all_slots();
  void add_slots(const Rect& cols, int most_parts);
  void write_sum(int rank, const Rect& own);

  RoutedEmission& of_;
  const RoutedLowering& product_;
  const RoutedBlocks& blocks_;
};

}  // namespace stretto
