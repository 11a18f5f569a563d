// Sums of a product of routed rows go back to who has the token: to the next ranks first.
#include <algorithm>

#include "lower/routed_emission.h"

namespace stretto {

void RoutedSums::sum_up(int rank, int turn, const Rect& cols) {
  if (blocks_.by_choice) return sum_choices(rank, cols);
  const int block = of_.order_of_blocks(rank)[static_cast<size_t>(turn)];
  if (blocks_.by_source) return sum_rows(rank, block, block, 0, of_.tokens_of(block), cols);
  const RowShards shards{blocks_.tokens, of_.ranks};
  for (int i = 1; i <= of_.ranks; ++i) {
    const int owner = (rank + i) % of_.ranks;
    sum_rows(rank, 0, owner, static_cast<int32_t>(shards.begin(owner)),
             static_cast<int32_t>(shards.end(owner)), cols);
  }
}

// Sums of rows that the caller has by choice: others' tokens' by the lanes that send, and its own,
// for which no weights have to come, by the lanes of tiles.
void RoutedSums::sum_choices(int rank, const Rect& cols) {
  const RowShards shards{blocks_.tokens, of_.ranks};
  const int32_t k = blocks_.top_k;
  for (int i = 1; i <= of_.ranks; ++i) {
    const int owner = (rank + i) % of_.ranks;
    const bool is_own = owner == rank, by_tiles = is_own || !are_sent_at_once();
    const auto begin = static_cast<int32_t>(shards.begin(owner));
    const auto rows = static_cast<int32_t>(shards.size(owner));
    if (rows == 0) continue;
    const int lanes = by_tiles ? of_.lanes_of_tiles() : product_.lanes.comm;
    const int owners = !by_tiles ? of_.ranks - 1 : are_sent_at_once() ? 1 : of_.ranks;
    const int parts = std::clamp(lanes / owners, 1, rows);
    for (int part = 0; part < parts; ++part) {
      const auto at = [&](int of) { return static_cast<int32_t>(int64_t{rows} * of / parts); };
      const int32_t first = begin + at(part), last = begin + at(part + 1);
      Region weights = is_own ? of_.own_rows(product_.weights, rank)
                              : of_.rows_of_source(product_.weights, owner, rank);
      weights.row1 = weights.row0 + at(part + 1);
      weights.row0 += at(part);
      of_.emit.read(weights);
      of_.emit.read(region_of({first, last, 0, k}, product_.ids.all, rank));
      of_.emit.read(region_of({first * k, last * k, cols.col0, cols.col1}, product_.x.own, rank));
      of_.emit.write(place_of_sum(rank, 0, owner, {first, last, cols.col0, cols.col1}));
      of_.emit.counted_task(by_tiles ? of_.compute_lane(rank) : of_.comm_lane(rank),
                            Opcode::combine, {blocks_.all_experts});
    }
  }
}

// Tokens [first, last) of a block, all of one owner, as seen from the block's first.
void RoutedSums::sum_rows(int rank, int block, int owner, int32_t first, int32_t last,
                          const Rect& cols) {
  const int parts = parts_of(last - first);
  for (int part = 0; part < parts; ++part) {
    const auto at = [&](int i) {
      return first + static_cast<int32_t>(int64_t{last - first} * i / parts);
    };
    const int32_t from = at(part), to = at(part + 1);
    of_.emit.read(of_.rows_of_block(product_.weights, block, rank, from, to));
    of_.emit.read(of_.choices_of(block, from, to, rank));
    of_.emit.read(region_of(blocks_.rows_of_block(block, cols.col0, cols.col1),
                            product_.kept[sum_stage() - 1], rank));
    of_.emit.write(place_of_sum(rank, block, owner, {from, to, cols.col0, cols.col1}));
    const uint32_t lane = are_sent_at_once() ? of_.comm_lane(rank) : of_.compute_lane(rank);
    if (are_sent() && product_.has_shares_of_experts()) {
      of_.emit.counted_task(lane, Opcode::combine, {blocks_.all_experts});
    } else {
      of_.emit.task(lane, Opcode::weigh);
    }
  }
}

int RoutedSums::parts_of(int32_t rows) const {
  // At least, of a part: a mover's warps share the columns of whole rows, not those of a tile.
  const int32_t least = are_beside_tiles() ? 16 : 1;
  const int lanes = are_sent_at_once() ? product_.lanes.comm : product_.lanes.compute;
  // Rows of several owners are dealt to the lanes at once. Where nothing hides a lane's second
  // task, none has two.
  const int most = (are_beside_tiles() ? lanes + owners() - 1 : lanes) / owners();
  return std::clamp(rows / least, std::min(rows, 1), std::max(most, 1));
}

// A row is looked up once for all columns that a task has of it, and memory likes long rows.
int RoutedSums::column_parts() const {
  const auto tokens = static_cast<int32_t>(blocks_.tokens_of_block);
  const int down = std::max(1, owners() * parts_of(tokens / owners()));
  const int lanes = are_sent_at_once() ? product_.lanes.comm : product_.lanes.compute;
  return std::clamp(lanes / down, 1, product_.col_tiles());
}

Rect RoutedSums::cols_of_part(int part, int parts) const {
  const int tiles = product_.col_tiles();
  Rect cols = product_.cols_of(tiles * part / parts);
  cols.col1 = product_.cols_of(tiles * (part + 1) / parts - 1).col1;
  return cols;
}

void RoutedSums::sum_up_all() {
  const int turns = static_cast<int>(of_.order_of_blocks(0).size());
  const int parts = column_parts();
  for (int turn = 0; turn < turns; ++turn) {
    for (int part = 0; part < parts; ++part) {
      const Rect cols = cols_of_part(part, parts);
      for (int rank = 0; rank < of_.ranks; ++rank) sum_up(rank, turn, cols);
    }
  }
}

// `rows` are counted from the block's first token.
Region RoutedSums::place_of_sum(int rank, int block, int owner, const Rect& rows) const {
  const int32_t token = blocks_.first_token(block);
  if (!product_.adds_terms()) return region_of(rows.moved(token), product_.out, rank);
  if (product_.sums_by_nccl()) return region_of(rows.moved(token), product_.part_sums, rank);
  const RowShards shards{blocks_.tokens, of_.ranks};
  const auto down = static_cast<int32_t>(rank * shards.block() + token - shards.begin(owner));
  return region_of(rows.moved(down), product_.slots, owner);
}

// Every owner adds what all ranks have sent of some columns, in so many parts, by the lanes that
// have no more tiles, which are the most.
void RoutedSums::add_slots(const Rect& cols, int most_parts) {
  const RowShards shards{blocks_.tokens, of_.ranks};
  for (int rank = 0; rank < of_.ranks; ++rank) {
    const auto rows = static_cast<int32_t>(shards.size(rank));
    const int parts = std::min(rows, most_parts);
    for (int part = 0; part < parts; ++part) {
      const auto at = [&](int i) { return static_cast<int32_t>(int64_t{rows} * i / parts); };
      const Rect own{at(part), at(part + 1), cols.col0, cols.col1};
      if (product_.has_shares_of_experts()) {
        Region ids = of_.own_rows(product_.ids, rank);
        ids.row1 = ids.row0 + own.row1;
        ids.row0 += own.row0;
        of_.emit.read(ids);
      }
      for (int source = 0; source < of_.ranks; ++source) {
        const auto down = static_cast<int32_t>(source * shards.block());
        of_.emit.read(region_of(own.moved(down), product_.slots, rank));
      }
      write_sum(rank, own);
      const uint32_t lane = of_.compute_lane(rank);
      if (product_.has_shares_of_experts()) {
        of_.emit.counted_task(lane, Opcode::merge, {blocks_.all_experts});
      } else {
        of_.emit.task(lane, Opcode::reduce);
      }
    }
  }
}

void RoutedSums::write_sum(int rank, const Rect& own) {
  if (!product_.op.adds_for_all()) {
    return of_.emit.write(region_of(own, product_.out, rank));
  }
  const auto first = static_cast<int32_t>(RowShards{blocks_.tokens, of_.ranks}.begin(rank));
  for (int i = 0; i < of_.ranks; ++i) {
    of_.emit.write(region_of(own.moved(first), product_.out, (rank + i) % of_.ranks));
  }
}

// Beside tiles sums come columns by columns, and are added so; else a lane adds whole rows, or as
// many columns as leave every lane some.
void RoutedSums::add_all_slots() {
  const int tiles = product_.col_tiles(), lanes = of_.lanes_of_tiles();
  if (are_beside_tiles()) {
    const int of_tile = 2 * lanes / tiles + 1;
    for (int tile = 0; tile < tiles; ++tile) add_slots(product_.cols_of(tile), of_tile);
    return;
  }
  const auto rows = static_cast<int>(RowShards{blocks_.tokens, of_.ranks}.block());
  const int parts = std::clamp(lanes / std::max(1, rows), 1, tiles);
  for (int part = 0; part < parts; ++part) add_slots(cols_of_part(part, parts), lanes);
}

void RoutedSums::finish() {
  add_all_slots();
  const bool is_callers = of_.state.plan.buffers[product_.out].role == BufferRole::output;
  if (!product_.op.adds_for_all() || !is_callers) return;
  // What peers write must have arrived when the run ends.
  for (int i = 0; of_.events && i < 2; ++i) of_.boundaries();
  const RowShards shards{blocks_.tokens, of_.ranks};
  for (int rank = 0; rank < of_.ranks; ++rank) {
    bool any = false;  // one token is its owner's alone
    for (int source = 0; source < of_.ranks; ++source) {
      if (source == rank || shards.size(source) == 0) continue;
      any = true;
      of_.emit.read(region_of(
          {static_cast<int32_t>(shards.begin(source)), static_cast<int32_t>(shards.end(source)), 0,
           static_cast<int32_t>(product_.op.n)},
          product_.out, rank));
    }
    if (any) of_.emit.task(product_.lanes.compute_lane(rank, 0), Opcode::deliver);
  }
}

void RoutedSums::reduce_by_nccl() {
  const RowShards shards{blocks_.tokens, of_.ranks};
  const bool scatters = !product_.op.adds_for_all();
  const auto n = static_cast<int32_t>(product_.op.n);
  const auto rows_of = [&](int owner) {
    return Rect{static_cast<int32_t>(shards.begin(owner)), static_cast<int32_t>(shards.end(owner)),
                0, n};
  };
  for (int rank = 0; rank < of_.ranks; ++rank) {
    for (int owner = 0; owner < of_.ranks; ++owner) {
      of_.emit.read(region_of(rows_of(owner), product_.part_sums, rank));
    }
    if (scatters) {
      const Rect own = rows_of(rank);
      of_.emit.write(region_of(own.moved(-own.row0), product_.out, rank));
    } else {
      for (int owner = 0; owner < of_.ranks; ++owner) {
        of_.emit.write(region_of(rows_of(owner), product_.out, rank));
      }
    }
    of_.emit.collective(rank,
                        scatters ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                        of_.collectives);
  }
  ++of_.collectives;
}

}  // namespace stretto
