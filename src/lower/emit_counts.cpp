// How many choices each expert of a rank has, for the caller. Partitions count them, block by
// block.
#include <algorithm>

#include "lower/emit_rows.h"
#include "lower/rect.h"
#include "stretto/error.h"

namespace stretto {

bool counts_choices(const Operator& op, const OperatorSegment& segment) {
  return !segment.product && !segment.is_edge() &&
         op.stage(segment.stages[0]).kind == StageKind::count;
}

void emit_counts(Lowering& state, const PartLowering& part, const OperatorSegment& segment) {
  const Stage& stage = part.rows.op.stage(segment.stages[0]);
  const auto product =
      std::find_if(state.routed.begin(), state.routed.end(), [&](const RoutedLowering& one) {
        return one.part.ids == stage.in[0] && one.has_shares_of_experts() &&
               one.op.experts == stage.experts;
      });
  STRETTO_ASSERT(product != state.routed.end(), "what is counted was put in order");
  if (product->by_ids()) return;  // the collective counts them
  const RoutedBlocks& blocks = state.routed_blocks[product->blocks];
  const uint16_t out = part.results[static_cast<size_t>(segment.result)];
  const LaneTable& lanes = state.lanes;
  Emitter emit(state, lanes, part);
  for (int rank = 0; rank < state.op.ranks; ++rank) {
    const int32_t own = blocks.experts_of_rank(rank);
    emit.read(region_of({blocks.first_count(0, rank), blocks.first_count(blocks.count, rank), 0, 1},
                        blocks.counts, rank));
    emit.write(region_of({0, own, 0, 1}, out, rank));
    emit.counted_task(lanes.compute_lane(rank, lanes.compute - 1), Opcode::sum_counts,
                      {blocks.count});
  }
}

}  // namespace stretto
