#include "cuda/tile_sums.h"

#include <algorithm>
#include <utility>

#include "cuda/gemm_kernel.h"

namespace stretto::cuda {
namespace {

// Sixteen bytes are moved at once.
constexpr int32_t kStep = 8;

bool same_shape(const Region& a, const Region& b) {
  return a.rows() == b.rows() && a.cols() == b.cols();
}

// What the lane itself says; others may still read the tile.
TileSum sum_in_lane(const Plan& plan, const Lane& lane, uint32_t at) {
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
  // Closer together than that, the sources of others hold rows of the tile.
  const bool apart = sum.step_rows >= tile[0].rows();
  if (!apart || !vectors || buffer.dtype == DType::fp32) return {};
  return sum;
}

struct Candidate {
  Region tile;
  uint32_t lane, at;
  TileSum sum;
  bool is_read_elsewhere;
};

// The candidates of one buffer of one rank, by the first row of their tiles.
struct Candidates {
  std::vector<Candidate> list;
  int32_t most_rows = 0;

  void sort() {
    std::sort(list.begin(), list.end(),
              [](const Candidate& a, const Candidate& b) { return a.tile.row0 < b.tile.row0; });
    for (const Candidate& one : list) most_rows = std::max(most_rows, one.tile.rows());
  }
  void add_read(const Region& read, uint32_t lane, uint32_t position) {
    auto one = std::upper_bound(
        list.begin(), list.end(), int64_t{read.row0} - most_rows,
        [](int64_t row, const Candidate& candidate) { return row < candidate.tile.row0; });
    for (; one != list.end() && one->tile.row0 < read.row1; ++one) {
      const bool is_own = one->lane == lane && one->sum.position == position;
      if (!is_own && one->tile.overlaps(read)) one->is_read_elsewhere = true;
    }
  }
};

}  // namespace

TileSums::TileSums(const Plan& plan) {
  std::vector<Candidates> places(static_cast<size_t>(plan.ranks()) * plan.buffers.size());
  const auto place_of = [&](const Region& region) -> Candidates& {
    return places[region.rank * plan.buffers.size() + region.buffer];
  };
  bool any = false;
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    if (lane.kind != LaneKind::compute) continue;
    for (uint32_t at = 0; at < lane.instrs.size(); ++at) {
      if (lane.instrs[at].op != Opcode::gemm) continue;
      const TileSum sum = sum_in_lane(plan, lane, at);
      if (!sum) continue;
      const Region& tile = plan.writes(lane.instrs[at])[0];
      const bool for_caller = plan.buffers[tile.buffer].role == BufferRole::output;
      place_of(tile).list.push_back({tile, l, at, sum, for_caller});
      any = true;
    }
  }
  if (!any) return;
  for (Candidates& candidates : places) candidates.sort();
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    for (uint32_t at = 0; at < plan.lanes[l].instrs.size(); ++at) {
      for (const Region& read : plan.reads(plan.lanes[l].instrs[at])) {
        place_of(read).add_read(read, l, at);
      }
    }
  }
  for (const Candidates& candidates : places) {
    for (const Candidate& one : candidates.list) {
      if (!one.is_read_elsewhere) sums_.push_back({one.lane, one.at, one.sum});
    }
  }
  if (sums_.empty()) return;
  std::sort(sums_.begin(), sums_.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.lane, a.at) < std::pair(b.lane, b.at);
  });
  sources_ = plan.lanes[sums_[0].lane].instrs[sums_[0].sum.position].num_reads - 1;
}

TileSum TileSums::of(uint32_t lane, uint32_t at) const {
  const auto found =
      std::lower_bound(sums_.begin(), sums_.end(), std::pair(lane, at),
                       [](const Entry& entry, const std::pair<uint32_t, uint32_t>& key) {
                         return std::pair(entry.lane, entry.at) < key;
                       });
  return found != sums_.end() && found->lane == lane && found->at == at ? found->sum : TileSum{};
}

}  // namespace stretto::cuda
