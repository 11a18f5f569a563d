#include "launch/lane_sums.h"

#include <algorithm>
#include <span>

#include "gpu/gemm_kernel.h"

namespace stretto::cuda {
namespace {

// Sixteen bytes are moved at once.
constexpr int32_t kStep = 8;

bool same_shape(const Region& a, const Region& b) {
  return a.rows() == b.rows() && a.cols() == b.cols();
}

bool in_vectors(const Buffer& buffer, const Region& region) {
  return buffer.cols % kStep == 0 && region.col0 % kStep == 0 && region.cols() % kStep == 0;
}

// Whether notifies between what leaves a tile and the reduce behind it can be made where they
// stand: a whole tile is stored behind the reduce only; parts that others await are stored at once.
bool tells_in_time(const Lane& lane, const AddedPart& part, uint32_t from, uint32_t reduce) {
  const auto begin = lane.instrs.begin() + from + 1, end = lane.instrs.begin() + reduce;
  const auto tells = [](const Instr& instr) { return instr.op == Opcode::notify; };
  return part.is_all ? std::none_of(begin, end, tells) : std::is_partitioned(begin, end, tells);
}

// Rows from each of the regions to the next, when they lie at equal distances in the tile's buffer
// and have its shape; else 0. Closer together than that, the others hold rows of the tile.
int32_t step_between(std::span<const Region> reads, const Region& tile) {
  if (reads.size() < 2) return 0;
  const int32_t step = reads[1].row0 - reads[0].row0;
  for (size_t s = 0; s < reads.size(); ++s) {
    const Region& read = reads[s];
    if (read.buffer != tile.buffer || read.rank != tile.rank || !same_shape(read, tile) ||
        read.row0 != reads[0].row0 + static_cast<int32_t>(s) * step || read.col0 != tile.col0) {
      return 0;
    }
  }
  return step >= tile.rows() ? step : 0;
}

// Whether `second` computes the same tile over the range of K that follows.
bool goes_on(const Plan& plan, const Instr& first, const Instr& second) {
  const auto before = plan.reads(first), after = plan.reads(second);
  if (before.size() != 2 || after.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    Region next = before[i];
    next.col0 = after[i].col0;
    next.col1 = after[i].col1;
    if (next != after[i] || before[i].col1 != after[i].col0) return false;
  }
  return before[0].cols() % device::kTileK == 0;
}

// The first of the gemms that leave `tiles`, of which the last is at `at`: when they follow each
// other, so that the kernel can keep the sums.
std::optional<uint32_t> first_of(const Plan& plan, const Lane& lane, uint32_t at,
                                 std::span<const Region> tiles) {
  for (size_t left = tiles.size() - 1; left > 0; --left) {
    const Instr& second = lane.instrs[at];
    do {
      if (at-- == 0) return std::nullopt;
    } while (lane.instrs[at].is_sync());
    const Instr& first = lane.instrs[at];
    if (first.op != Opcode::gemm || !goes_on(plan, first, second)) return std::nullopt;
    const auto writes = plan.writes(first);
    if (writes.size() != 1 || writes[0] != tiles[left - 1]) return std::nullopt;
  }
  return at;
}

// The sum over ranges of K alone.
TileSum sum_of_ranges(const Plan& plan, const Lane& lane, uint32_t at,
                      AwaitedAtOnce& awaited_at_once) {
  TileSum sum;
  const uint32_t position = reduce_of_ranges(plan, lane, at);
  if (position == 0) return sum;
  const Region& tile = plan.writes(lane.instrs[at])[0];
  const auto reads = plan.reads(lane.instrs[position]);
  const size_t ours =
      static_cast<size_t>(std::find(reads.begin(), reads.end(), tile) - reads.begin()) + 1;
  const bool others_fit = reads.size() - ours < kMostRanges && step_between(reads, tile) > 0 &&
                          in_vectors(plan.buffers[tile.buffer], tile);
  if (tile.rank != lane.rank || (ours < reads.size() && !others_fit)) return sum;
  const auto first = first_of(plan, lane, at, reads.first(ours));
  if (!first) return sum;
  // Notifies between are made behind the sum: nobody may need them earlier.
  for (uint32_t i = *first; i < position; ++i) {
    if (lane.instrs[i].op == Opcode::notify && awaited_at_once(lane.instrs[i])) return sum;
  }
  sum.position = sum.of_ranges = position;
  sum.first = *first;
  sum.others = static_cast<uint32_t>(reads.size() - ours);
  return sum;
}

}  // namespace

uint32_t reduce_behind(const Lane& lane, uint32_t at) {
  const auto end = static_cast<uint32_t>(lane.instrs.size());
  uint32_t position = at + 1;
  while (position < end && lane.instrs[position].is_sync()) ++position;
  return position < end && lane.instrs[position].op == Opcode::reduce ? position : 0;
}

uint32_t reduce_of_ranges(const Plan& plan, const Lane& lane, uint32_t at) {
  const uint32_t position = reduce_behind(lane, at);
  const auto tile = plan.writes(lane.instrs[at]);
  if (position == 0 || tile.size() != 1) return 0;
  const Buffer& buffer = plan.buffers[tile[0].buffer];
  const auto reads = plan.reads(lane.instrs[position]);
  const bool adds = buffer.dtype == DType::fp32 && buffer.role == BufferRole::local &&
                    reads.size() >= 2 &&
                    std::find(reads.begin(), reads.end(), tile[0]) != reads.end() &&
                    std::all_of(reads.begin(), reads.end(),
                                [&](const Region& read) { return read.buffer == tile[0].buffer; });
  return adds ? position : 0;
}

TileSum sum_in_lane(const Plan& plan, const Lane& lane, uint32_t at,
                    AwaitedAtOnce& awaited_at_once) {
  TileSum sum;
  if (plan.reads(lane.instrs[at]).size() != 2) return sum;
  sum = sum_of_ranges(plan, lane, at, awaited_at_once);
  const uint32_t from = sum.writer(at), position = reduce_behind(lane, from);
  if (position == 0) return sum;
  const Instr& reduce = lane.instrs[position];
  const auto part = added_part(plan, lane.rank, lane.instrs[from], reduce);
  const auto reads = plan.reads(reduce);
  if (!part || !tells_in_time(lane, *part, from, position)) return sum;
  const Region& own = plan.writes(lane.instrs[from])[part->write];
  const int32_t step_rows = step_between(reads, own);
  const Buffer& buffer = plan.buffers[own.buffer];
  if (step_rows == 0 || buffer.dtype == DType::fp32 || !in_vectors(buffer, own)) return sum;
  for (const Region& write : plan.writes(reduce)) {
    if (!same_shape(write, own) || plan.buffers[write.buffer].dtype != buffer.dtype) return sum;
  }
  sum.position = sum.of_ranks = position;
  sum.own_at = static_cast<uint32_t>(std::find(reads.begin(), reads.end(), own) - reads.begin());
  sum.step_rows = step_rows;
  sum.part = *part;
  return sum;
}

}  // namespace stretto::cuda
