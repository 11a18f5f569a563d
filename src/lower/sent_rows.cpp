#include "lower/sent_rows.h"

#include <algorithm>

#include "lower/residual_sums.h"

namespace stretto {

const OperatorSegment* gather_by_stage(const Lowering& state, const PartLowering& part,
                                       const OperatorSegment& rows) {
  if (rows.product || rows.is_edge()) return nullptr;
  const Operator& op = part.rows.op;
  const Stage& last = op.stage(rows.stages.back());
  if (hands_over(last.kind) || last.out != rows.result ||
      summed_by(state, part, last.out) != nullptr) {
    return nullptr;
  }
  const bool is_taken = std::any_of(op.stages.begin(), op.stages.end(), [&](const Stage& stage) {
    return std::find(stage.in.begin(), stage.in.end(), last.out) != stage.in.end();
  });
  const auto gather = std::find_if(
      op.segments.begin(), op.segments.end(),
      [&](const OperatorSegment& one) { return one.is_gather() && one.input == last.out; });
  const bool is_left = is_taken || gather == op.segments.end() ||
                       state.schedule.mover_of_edge(gather->name) != Mover::epilogue;
  return is_left ? nullptr : &*gather;
}

bool is_sent_by_stage(const Lowering& state, const PartLowering& part,
                      const OperatorSegment& gather) {
  const std::vector<OperatorSegment>& segments = part.rows.op.segments;
  return gather.is_gather() &&
         std::any_of(segments.begin(), segments.end(), [&](const OperatorSegment& rows) {
           return gather_by_stage(state, part, rows) == &gather;
         });
}

}  // namespace stretto
