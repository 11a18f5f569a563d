#include "tables/operand_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/tensor_map.h"
#include "launch/buffer_places.h"
#include "launch/gemm_choice.h"
#include "plan/tile_task.h"

namespace stretto::cuda {

// Addresses of whole buffers suit; how far apart their rows are is the plan's.
std::string why_no_map(const Buffer& buffer) {
  Matrix matrix;
  matrix.rows = std::max(buffer.rows, 1);
  matrix.columns = matrix.stride = buffer.cols;
  matrix.dtype = buffer.dtype;
  return why_unmappable(matrix);
}

void OperandLimits::look_at(const InstrRef& at, const FollowedTile* tile, LimitList& limits) {
  const std::vector<Instr>& instrs = plan_.lanes[at.lane].instrs;
  const Instr& gemm = instrs[at.pos];
  const std::span<const Region> reads = plan_.reads(gemm);
  // What stays in registers needs no maps.
  const Instr& stored = tile != nullptr ? instrs[tile->last] : gemm;
  for (const std::span<const Region> regions : {reads, plan_.writes(stored)}) {
    for (const Region& region : regions) {
      if (is_index(plan_.buffers[region.buffer].dtype)) continue;
      if (is_mapped_[region.buffer]) continue;
      is_mapped_[region.buffer] = true;
      if (std::string why = why_no_map(plan_.buffers[region.buffer]); !why.empty()) {
        limits.add(std::move(why), at);
      }
    }
  }
  constexpr int32_t kMostK = device::kTileK * UINT16_MAX;
  if (reads.back().col1 > kMostK) {
    limits.add(fmt::format("a range of K must end at {} or before: take a smaller k", kMostK), at);
  }
  if (is_routed_product(gemm.op)) return look_at_stack(at, limits);
  const TileSum sum = sums_.of(at.lane, sums_.last_of(at.lane, at.pos));
  if (sum.by_source && sum.first == at.pos) return;  // it may lie in a matrix of its own
  for (const Region& read : reads) {
    if (read.col0 % device::kTileK == 0 && read.col0 == reads.front().col0) continue;
    limits.add(fmt::format("a range of K must start at a multiple of {}, the same in A and B",
                           device::kTileK),
               at);
  }
}

// Of a product whose rows choose their matrices: all of K, and rows that kernels can address.
void OperandLimits::look_at_stack(const InstrRef& at, LimitList& limits) const {
  const Instr& product = plan_.lanes[at.lane].instrs[at.pos];
  const std::span<const Region> reads = plan_.reads(product);
  const Region& a = gathers_rows(product.op) ? reads[2] : reads[0];
  if (a.col0 != 0 || reads.back().col0 != 0) {
    limits.add("rows that choose their matrices are multiplied from their first column on", at);
  }
  const Buffer& rows_of = plan_.buffers[a.buffer];
  if (gathers_rows(product.op) && a.cols() % 8 != 0) {
    limits.add("rows are gathered 8 columns at a time", at);
  }
  constexpr int64_t kMostGathered = int64_t{1} << 36;
  if (gathers_rows(product.op) &&
      int64_t{a.rows()} * static_cast<int64_t>(row_bytes_of(rows_of)) > kMostGathered) {
    limits.add("rows are gathered of at most 64 GiB", at);
  }
  if (rows_of_entry(plan_, product) > 256) {
    limits.add("entries of a partition have at most 256 rows on GPUs: take a lower tile", at);
  }
}

}  // namespace stretto::cuda
