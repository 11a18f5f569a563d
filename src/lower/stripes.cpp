#include "lower/stripes.h"

#include <algorithm>

namespace stretto {
namespace {

// Rows in blocks for all compute lanes; the emitter knows where a part's rows lie.
void copy_rows(const SegmentLowering& product, Emitter& emit, uint16_t from, uint16_t to) {
  const auto rows = static_cast<int32_t>(product.op.local_m());
  const int32_t cols = product.plan.buffers[to].cols, lanes = product.lanes.compute;
  for (int rank = 0; rank < product.op.ranks; ++rank) {
    for (int32_t lane = 0; lane < std::min(lanes, rows); ++lane) {
      const auto at = [&](int32_t i) {
        return static_cast<int32_t>(int64_t{rows} * i / std::min(lanes, rows));
      };
      const Rect block{at(lane), at(lane + 1), 0, cols};
      emit.read(region_of(block, from, rank));
      emit.write(region_of(block, to, rank));
      emit.task(product.lanes.compute_lane(rank, lane), Opcode::copy);
    }
  }
}

}  // namespace

void take_from_stripes(SegmentLowering& product, Emitter& emit) {
  if (!product.buffers.striped_a) return;
  copy_rows(product, emit, *product.buffers.striped_a, product.buffers.a);
  for (int rank = 0; rank < product.op.ranks; ++rank) emit.boundary(rank);
}

void put_in_stripes(SegmentLowering& product, Emitter& emit) {
  if (!product.buffers.striped_out) return;
  for (int rank = 0; rank < product.op.ranks; ++rank) emit.boundary(rank);
  copy_rows(product, emit, product.buffers.out, *product.buffers.striped_out);
}

}  // namespace stretto
