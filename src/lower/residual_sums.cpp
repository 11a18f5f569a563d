#include "lower/residual_sums.h"

#include <algorithm>

#include "lower/normed_sums.h"

namespace stretto {
namespace {

// The segment that makes the tensor; -1: the caller gives it.
int segment_of(const Operator& op, int tensor) {
  const int stage = op.tensor(tensor).stage;
  for (size_t i = 0; stage >= 0 && i < op.segments.size(); ++i) {
    const std::vector<int>& stages = op.segments[i].stages;
    if (std::find(stages.begin(), stages.end(), stage) != stages.end()) return static_cast<int>(i);
  }
  return -1;
}

bool any_own_rows(const Operator& op) {
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    const Tensor& tensor = op.tensors[i];
    const bool is_own =
        tensor.held == Held::rows || op.output_held(static_cast<int>(i)) == Held::rows;
    if (is_own && tensor.rows == op.rows()) return true;
  }
  return false;
}

}  // namespace

std::optional<ResidualSum> residual_sum(const Operator& op, size_t index,
                                        const Schedule& schedule) {
  const OperatorSegment& product = op.segments[index];
  const Segment& of = *product.product;
  const bool adds_slots = of.is_dense() && of.teams == 1 && of.makes_terms() &&
                          pattern_of(of, schedule).adds_slots && product.stages.size() == 1 &&
                          schedule.partials == op.dtype && of.ranks < kMostSumsInTile;
  // Where ranks own rows, a split cuts these into stripes: sums of all rows would fall apart where
  // the residual's stripes meet. A split changes no bits, so it is the same without one.
  const bool crosses_stripes = !of.owns_rows() && any_own_rows(op);
  if (!adds_slots || crosses_stripes || index + 1 >= op.segments.size()) return std::nullopt;
  const OperatorSegment& rows = op.segments[index + 1];
  if (rows.product || rows.stages.empty()) return std::nullopt;
  const Stage& add = op.stage(rows.stages[0]);
  if (add.kind != StageKind::add || add.in.size() != 2 || add.in[0] == add.in[1]) {
    return std::nullopt;
  }
  const bool is_first = add.in[0] == product.result;
  const int residual = add.in[is_first ? 1 : 0];
  const bool is_there = segment_of(op, residual) < static_cast<int>(index);
  const auto is_ours = [&](int tensor) { return op.tensor(tensor).dtype == op.dtype; };
  if ((!is_first && add.in[1] != product.result) || !is_there || !is_ours(residual) ||
      !is_ours(product.result) || !is_ours(add.out) || op.tensor(add.out).team != 0 ||
      op.tensor(add.out).held != product.result_held ||
      is_used_elsewhere(op, product.result, add)) {
    return std::nullopt;
  }
  const bool is_callers = op.output_held(add.out) == op.tensor(add.out).held;
  const bool is_handed_over =
      schedule.reduction == Reduction::two_shot && is_callers && rows.stages.size() > 1;
  return ResidualSum{residual, add.out, is_handed_over};
}

const SegmentLowering* summed_by(const Lowering& state, const PartLowering& part, int tensor) {
  const auto found = std::find_if(
      state.products.begin(), state.products.end(), [&](const SegmentLowering& product) {
        return &product.of_rows == &part && product.residual && product.residual->sum == tensor;
      });
  return found != state.products.end() ? &*found : nullptr;
}

bool is_made_by_sums(const Lowering& state, const PartLowering& part,
                     const OperatorSegment& segment) {
  if (segment.product || segment.stages.size() != 1) return false;
  const SegmentLowering* const product = summed_by(state, part, segment.result);
  return product != nullptr && !product->residual->is_handed_over;
}

}  // namespace stretto
