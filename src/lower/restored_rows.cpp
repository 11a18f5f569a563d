#include "lower/restored_rows.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "lower/normed_sums.h"

namespace stretto {
namespace {

constexpr int64_t kMostTilesOfRow = 1024;  // each is a region of every task

}  // namespace

std::optional<RestoredRows> restored_rows(const Operator& op, size_t index,
                                          const Schedule& schedule) {
  const OperatorSegment& product = op.segments[index];
  if (!product.product->is_dense() || !pattern_of(*product.product, schedule).packs ||
      product.stages.size() != 1 || index + 1 >= op.segments.size() ||
      ceil_div(product.product->n, schedule.tile_n) > kMostTilesOfRow) {
    return std::nullopt;
  }
  const OperatorSegment& rows = op.segments[index + 1];
  if (rows.product || rows.stages.empty()) return std::nullopt;
  const auto is_ours = [&](int tensor) { return op.tensor(tensor).dtype == op.dtype; };
  const Stage& first = op.stage(rows.stages[0]);
  const Tensor& made = op.tensor(first.out);
  if (!is_ours(product.result) || !is_ours(first.out) || made.team != 0 ||
      made.held != product.result_held) {
    return std::nullopt;
  }
  if (first.kind == StageKind::norm && first.in[0] == product.result) {
    return RestoredRows{product.result, -1};
  }
  if (first.kind != StageKind::add || first.in.size() != 2 || first.in[0] == first.in[1] ||
      rows.stages.size() < 2) {
    return std::nullopt;
  }
  const bool is_first = first.in[0] == product.result;
  const int residual = first.in[is_first ? 1 : 0];
  const Stage& next = op.stage(rows.stages[1]);
  if ((!is_first && first.in[1] != product.result) || next.kind != StageKind::norm ||
      next.in[0] != first.out || !is_ours(residual) ||
      is_used_elsewhere(op, product.result, first)) {
    return std::nullopt;
  }
  return RestoredRows{first.out, residual};
}

const SegmentLowering* restored_from(const Lowering& state, const PartLowering& part,
                                     const OperatorSegment& segment) {
  const auto found = std::find_if(
      state.products.begin(), state.products.end(), [&](const SegmentLowering& product) {
        return product.restored && &product.of_rows == &part && &product.part + 1 == &segment;
      });
  return found != state.products.end() ? &*found : nullptr;
}

Region packed_sums(const SegmentLowering& product, int rank, int32_t tile, int32_t row0,
                   int32_t row1) {
  const Packing& packing = product.packing;
  const auto at = static_cast<size_t>(tile);
  int32_t first = packing.row_of[at];
  const bool owns = product.ranks_own_rows();
  if (owns) {
    const auto group = static_cast<size_t>(packing.group_of[at]);
    const auto owner = static_cast<size_t>(rank % product.op.ranks);  // in its team
    const PackedShare& share = packing.groups[group][owner];
    first += share.sums_row - share.row0;
  }
  return region_of({first + row0, first + row1, 0, product.grid.rect(tile).cols()},
                   owns ? product.buffers.sums : product.buffers.packed, rank);
}

}  // namespace stretto
