#include "launch/tile_sums.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "launch/lane_sums.h"
#include "launch/reduced_tiles.h"

namespace stretto::cuda {

TileSums::TileSums(const Plan& plan) : ranges_(plan.buffers.size(), Ranges::none) {
  if (plan.library_gemms) return;  // nothing of the plan is the GEMM kernel's
  PlacesOfTiles places = find_in_lanes(plan);
  drop_what_others_read(plan, places);
  number_sums(plan);
  sum_up(plan);
  ranges_misfit_ = why_ranges_misfit(plan);
  followers_ = Followers(plan, *this);
  needs_ = find_needs(plan, *this);
}

// What lanes say for themselves; and the tiles that are never stored if it comes to that.
PlacesOfTiles TileSums::find_in_lanes(const Plan& plan) {
  AwaitedAtOnce awaited_at_once(plan);
  PlacesOfTiles places;
  const auto add_sum = [&](uint32_t l, uint32_t at) {
    const Lane& lane = plan.lanes[l];
    const TileSum sum = sum_in_lane(plan, lane, at, awaited_at_once);
    if (!sum) return;
    const auto add = [&](const Region& tile, uint32_t reduce) {
      const bool for_caller = plan.buffers[tile.buffer].role == BufferRole::output;
      places.add({tile, l, reduce, sums_.size(), for_caller});
    };
    if (sum.of_ranges != 0) {
      const auto ranges = plan.reads(lane.instrs[sum.of_ranges]);
      for (const Region& tile : ranges.first(ranges.size() - sum.others)) {
        add(tile, sum.of_ranges);
      }
    }
    if (sum.of_ranks != 0) {
      add(plan.writes(lane.instrs[sum.writer(at)])[sum.part.write], sum.of_ranks);
    }
    sums_.push_back({l, at, sum});
  };
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    if (lane.kind != LaneKind::compute) continue;
    std::optional<uint32_t> gemm;  // the last task, if it is one
    const Instr* instrs = lane.instrs.data();
    for (uint32_t at = 0; at < lane.instrs.size(); ++at) {
      const Instr& instr = instrs[at];
      if (instr.is_sync()) continue;
      if (instr.op == Opcode::reduce && gemm) add_sum(l, *gemm);
      gemm = instr.op == Opcode::gemm ? std::optional(at) : std::nullopt;
    }
  }
  places.sort();
  return places;
}

void TileSums::drop_what_others_read(const Plan& plan, PlacesOfTiles& places) {
  if (sums_.empty()) return;
  std::vector<uint8_t> holds_tiles(plan.buffers.size(), 0);
  for (const auto& [place, tiles] : places.all()) {
    holds_tiles[tiles.all().front().tile.buffer] = 1;
  }
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const std::vector<Instr>& instrs = plan.lanes[l].instrs;
    for (uint32_t at = 0; at < instrs.size(); ++at) {
      if (instrs[at].num_reads == 0) continue;
      for (const Region& read : plan.reads(instrs[at])) {
        if (holds_tiles[read.buffer] != 0) places.add_read(read, l, at);
      }
    }
  }
  for (const auto& [place, tiles] : places.all()) {
    for (const ReducedTile& one : tiles.all()) {
      if (!one.is_read_elsewhere) continue;
      TileSum& sum = sums_[one.entry].sum;
      // What is read after the sum over ranges is stored then; what is read before it, by the gemm.
      sum = one.reduce == sum.of_ranks ? sum.of_ranges_alone() : TileSum{};
    }
  }
  std::erase_if(sums_, [](const Entry& entry) { return !entry.sum; });
}

// What the sums that are left say of the plan.
void TileSums::sum_up(const Plan& plan) {
  for (const Entry& entry : sums_) {
    const Lane& lane = plan.lanes[entry.lane];
    if (entry.sum.of_ranges != 0) {
      Ranges& ranges = ranges_[plan.writes(lane.instrs[entry.at])[0].buffer];
      ranges = std::max(ranges, entry.sum.others != 0 ? Ranges::in_memory : Ranges::in_registers);
    }
  }
}

std::string TileSums::why_ranges_misfit(const Plan& plan) const {
  using Key = std::tuple<uint16_t, uint16_t, int32_t, int32_t, int32_t, int32_t>;
  const auto key_of = [](const Region& r) {
    return Key(r.buffer, r.rank, r.row0, r.row1, r.col0, r.col1);
  };
  // Sums of ranges of K are fp32, and a rank's own.
  const bool any = std::any_of(plan.buffers.begin(), plan.buffers.end(), [](const Buffer& buffer) {
    return buffer.dtype == DType::fp32 && buffer.role == BufferRole::local;
  });
  if (!any) return "";
  std::set<Key> left;
  std::vector<Region> added;
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    uint32_t sum = 0;  // the reduce that the gemm before makes
    for (uint32_t at = 0; at < lane.instrs.size(); ++at) {
      const Instr& instr = lane.instrs[at];
      if (!instr.is_task()) continue;
      if (instr.op == Opcode::gemm) {
        sum = of(l, at).of_ranges;
        if (sum == 0 && reduce_of_ranges(plan, lane, at) != 0) {
          return "a tile whose K is split has its rows of A in one region and columns in multiples "
                 "of 8, nobody else reads its sums, and where a lane computes several ranges they "
                 "are the first ones, in their order, with nothing but waits between and before "
                 "their sum: take tiles that no shard's or chunk's end cuts, or split-k=1";
        }
      }
      for (const Region& write : plan.writes(instr)) {
        if (!holds_ranges(write.buffer)) continue;
        if (instr.op != Opcode::gemm || instr.num_writes != 1 || write.rank != lane.rank ||
            instr.num_reads != 2) {
          return "sums of ranges of K are left by one gemm each, in its own rank";
        }
        left.insert(key_of(write));
      }
      for (const Region& read : plan.reads(instr)) {
        if (!holds_ranges(read.buffer)) continue;
        if (at != sum) return "sums of ranges of K are read only behind the gemm of the first";
        added.push_back(read);
      }
    }
  }
  for (const Region& region : added) {
    if (left.count(key_of(region)) == 0) {
      return "sums of ranges of K are added as one gemm has left them";
    }
  }
  return "";
}

bool TileSums::any_ranges_kept() const {
  return std::find(ranges_.begin(), ranges_.end(), Ranges::in_memory) != ranges_.end();
}

void TileSums::number_sums(const Plan& plan) {
  if (sums_.empty()) return;
  uint32_t count = 0;
  for (const Lane& lane : plan.lanes) {
    first_.push_back(count);
    count += static_cast<uint32_t>(lane.instrs.size());
  }
  number_.assign(count, 0);
  for (uint32_t i = 0; i < sums_.size(); ++i) {
    const auto& [lane, at, sum] = sums_[i];
    for (uint32_t p = sum.of_ranges != 0 ? sum.first : at; p <= at; ++p) {
      number_[first_[lane] + p] = i + 1;
    }
  }
}

}  // namespace stretto::cuda
