#include "cuda/tile_sums.h"

#include <algorithm>

#include "cuda/gemm_kernel.h"

namespace stretto::cuda {
namespace {

// Sixteen bytes are moved at once.
constexpr int32_t kStep = 8;

bool same_shape(const Region& a, const Region& b) {
  return a.rows() == b.rows() && a.cols() == b.cols();
}

}  // namespace

TileSum tile_sum_of(const Plan& plan, const Lane& lane, uint32_t at) {
  const auto last = static_cast<uint32_t>(lane.instrs.size());
  uint32_t position = at + 1;
  while (position < last && lane.instrs[position].op == Opcode::wait) ++position;
  if (position == last || lane.instrs[position].op != Opcode::reduce) return {};
  const Instr &gemm = lane.instrs[at], &reduce = lane.instrs[position];
  const auto tile = plan.writes(gemm), reads = plan.reads(reduce), writes = plan.writes(reduce);
  if (tile.size() != 1 || tile[0].rank != lane.rank || plan.reads(gemm).size() != 2) {
    return {};
  }
  const auto own = std::find(reads.begin(), reads.end(), tile[0]);
  if (own == reads.end() || reads.size() < 2 || reads.size() > kMostAdds + 1) return {};

  TileSum sum{position, static_cast<uint32_t>(own - reads.begin()), reads[1].row0 - reads[0].row0};
  const Buffer& buffer = plan.buffers[tile[0].buffer];
  for (size_t s = 0; s < reads.size(); ++s) {
    const Region& read = reads[s];
    if (read.buffer != tile[0].buffer || read.rank != lane.rank || !same_shape(read, tile[0]) ||
        read.row0 != reads[0].row0 + static_cast<int32_t>(s) * sum.step_rows ||
        read.col0 != reads[0].col0) {
      return {};
    }
  }
  for (const Region& write : writes) {
    if (!same_shape(write, tile[0]) || plan.buffers[write.buffer].dtype != buffer.dtype) {
      return {};
    }
  }
  const bool vectors =
      buffer.cols % kStep == 0 && tile[0].col0 % kStep == 0 && tile[0].cols() % kStep == 0;
  if (sum.step_rows <= 0 || !vectors || buffer.dtype == DType::fp32) return {};
  return sum;
}

int sources_of_tile_sums(const Plan& plan) {
  for (const Lane& lane : plan.lanes) {
    if (lane.kind != LaneKind::compute) continue;
    for (uint32_t at = 0; at < lane.instrs.size(); ++at) {
      if (lane.instrs[at].op != Opcode::gemm) continue;
      if (const TileSum sum = tile_sum_of(plan, lane, at)) {
        return static_cast<int>(lane.instrs[sum.position].num_reads) - 1;
      }
    }
  }
  return 0;
}

}  // namespace stretto::cuda
