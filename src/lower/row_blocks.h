// Rows of a rank in blocks for its lanes, and who writes them where callers have all rows.
#pragma once

#include "lower/emitter.h"

namespace stretto {

// Blocks of the rows that the rank has of a tensor, counted from its first: as many as there are
// lanes. visit(lane, rows, of all columns that the rank has).
template <typename Visit>
void for_each_row_block(const Lowering& state, const Operator& op, const Tensor& tensor,
                        bool by_movers, int rank, const Visit& visit) {
  const RowShards shards{tensor.rows, op.ranks};
  const auto rows =
      static_cast<int32_t>(tensor.held == Held::rows ? shards.size(rank) : op.team_rows(tensor));
  const int64_t block = op.shares_of(tensor.cols, tensor.unit, tensor.team).block();
  const auto cols = static_cast<int32_t>(tensor.held == Held::cols ? block : tensor.cols);
  const LaneTable& all = state.lanes;
  const int32_t lanes = std::min<int32_t>(rows, by_movers ? all.comm : all.compute);
  for (int32_t i = 0; i < lanes; ++i) {
    const auto at = [&](int32_t lane) {
      return static_cast<int32_t>(int64_t{rows} * lane / lanes);
    };
    visit(by_movers ? all.comm_lane(rank, i) : all.compute_lane(rank, i),
          Rect{at(i), at(i + 1), 0, cols});
  }
}

// Names as written rows of the rank's own, where callers have all of the tensor: from the `next`th
// behind the rank on, its own last.
inline void write_to_callers(const Lowering& state, Emitter& emit, const Tensor& tensor, int rank,
                             const Rect& rows, int next = 1) {
  const uint16_t out = *state.plan.find_buffer(tensor.name);
  const int ranks = state.op.ranks;
  const auto first = static_cast<int32_t>(RowShards{tensor.rows, ranks}.begin(rank));
  for (int i = next; i <= ranks; ++i) {
    emit.write(region_of(rows.moved(first), out, (rank + i) % ranks));
  }
}

}  // namespace stretto
