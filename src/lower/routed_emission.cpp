#include "lower/routed_emission.h"

#include <algorithm>

namespace stretto {

RoutedEmission::RoutedEmission(Lowering& lowering, RoutedLowering& of)
    : state(lowering),
      op(lowering.parts[of.of_part].rows.op),
      product(of),
      blocks(lowering.routed_blocks[of.blocks]),
      ranks(lowering.op.ranks),
      events(of.schedule.sync == Sync::event),
      emit(lowering, of.lanes, lowering.parts[of.of_part]),
      comm(ranks, std::max(1, of.lanes.comm)),
      compute(ranks, lanes_of_tiles()) {
  if (!product.op.only_moves()) reserve_tiles();
}

// Most tasks are of tiles: at most five operands a product, and three of what follows it.
void RoutedEmission::reserve_tiles() {
  size_t entries = 0;  // that are tasks
  for (int block = 0; block < blocks.count; ++block) {
    blocks.for_each_task(block, [&](int32_t, int32_t) { ++entries; });
  }
  const size_t products = product.stacks.size(), stages = product.part.stages.size();
  const size_t tiles =
      entries * static_cast<size_t>(product.col_tiles()) * static_cast<size_t>(ranks);
  state.program.reserve(state.program.size() + tiles * stages);
  state.plan.operands.reserve(state.plan.operands.size() +
                              tiles * (5 * products + 3 * (stages - products)));
}

void RoutedEmission::boundaries() {
  for (int rank = 0; rank < ranks; ++rank) emit.boundary(rank);
}

Region RoutedEmission::own_rows(const GatheredRows& rows, int rank) const {
  const RowShards shards{op.tensor(rows.tensor).rows, ranks};
  const bool has_all = state.plan.buffers[rows.own].sharded_rows == 0;
  const auto first = static_cast<int32_t>(has_all ? shards.begin(rank) : 0);
  return region_of({first, first + static_cast<int32_t>(shards.size(rank)), 0, cols_of(rows)},
                   rows.own, rank);
}

Region RoutedEmission::rows_of_source(const GatheredRows& rows, int source, int at) const {
  const RowShards shards{op.tensor(rows.tensor).rows, ranks};
  return region_of({static_cast<int32_t>(shards.begin(source)),
                    static_cast<int32_t>(shards.end(source)), 0, cols_of(rows)},
                   rows.all, at);
}

Region RoutedEmission::rows_of_block(const GatheredRows& rows, int block, int rank, int32_t first,
                                     int32_t last) const {
  const bool has_own = rows.is_gathered && blocks.by_source && block == rank;
  const int32_t base = has_own ? 0 : blocks.first_token(block);
  return region_of({base + first, base + last, 0, cols_of(rows)}, has_own ? rows.own : rows.all,
                   rank);
}

Region RoutedEmission::rows_to_pick(int block, int rank) const {
  const auto k = static_cast<int32_t>(product.op.local_k());
  Region rows = product.takes_choices(op)
                    ? region_of({blocks.first_token(block) * blocks.top_k,
                                 blocks.last_token(block) * blocks.top_k, 0, k},
                                product.x.own, rank)
                    : rows_of_block(product.x, block, rank, 0, tokens_of(block));
  // Of what it has whole, a rank multiplies its range of K.
  rows.col0 = state.plan.buffers[rows.buffer].cols == k ? 0 : rank * k;
  rows.col1 = rows.col0 + k;
  return rows;
}

std::vector<int> RoutedEmission::order_of_blocks(int rank) const {
  std::vector<int> order;
  if (!blocks.by_source) return {0};
  const bool own_last = product.adds_terms();
  for (int i = 0; i < ranks; ++i) {
    const int block = own_last ? (rank + 1 + i) % ranks : (rank - i + ranks) % ranks;
    if (block < blocks.count) order.push_back(block);
  }
  return order;
}

Region RoutedEmission::choices_of(int block, int32_t first, int32_t last, int rank) const {
  const int32_t base = blocks.first_token(block);
  return region_of({(base + first) * blocks.top_k, (base + last) * blocks.top_k, 0, 1}, blocks.rows,
                   rank);
}

}  // namespace stretto
