#include "cuda/tile_sums.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "cuda/gemm_kernel.h"

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

bool is_signal(const Instr& instr) {
  return instr.op == Opcode::wait || instr.op == Opcode::notify;
}

// The reduce behind `at` and the waits and notifies that follow it; 0: something else follows.
uint32_t reduce_behind(const Lane& lane, uint32_t at) {
  const auto end = static_cast<uint32_t>(lane.instrs.size());
  uint32_t position = at + 1;
  while (position < end && is_signal(lane.instrs[position])) ++position;
  return position < end && lane.instrs[position].op == Opcode::reduce ? position : 0;
}

bool tells(const Lane& lane, uint32_t from, uint32_t to) {
  return std::any_of(lane.instrs.begin() + from, lane.instrs.begin() + to,
                     [](const Instr& instr) { return instr.op == Opcode::notify; });
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

// The reduce that adds sums of ranges of K, one of which the gemm at `at` has left in scratch
// memory, whether or not the kernel can; 0: none does.
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

// Signals that some lane awaits in the run in which they are made.
class AwaitedAtOnce {
 public:
  explicit AwaitedAtOnce(const Plan& plan) : plan_(plan) {}

  bool operator()(const Instr& notify) {
    if (!awaited_) find();
    return awaited_->count({notify.rank, notify.signal.array, notify.signal.index}) > 0;
  }

 private:
  void find() {
    awaited_.emplace();
    for (const Lane& lane : plan_.lanes) {
      for (const Instr& instr : lane.instrs) {
        if (instr.op == Opcode::wait && instr.lag == 0) {
          awaited_->emplace(lane.rank, instr.signal.array, instr.signal.index);
        }
      }
    }
  }

  const Plan& plan_;
  std::optional<std::set<std::tuple<uint16_t, uint16_t, int32_t>>> awaited_;
};

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
    } while (is_signal(lane.instrs[at]));
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

// What the lane itself says; others may still read the tile.
TileSum sum_in_lane(const Plan& plan, const Lane& lane, uint32_t at,
                    AwaitedAtOnce& awaited_at_once) {
  TileSum sum;
  if (plan.reads(lane.instrs[at]).size() != 2) return sum;
  sum = sum_of_ranges(plan, lane, at, awaited_at_once);
  const uint32_t from = sum ? sum.of_ranges : at;
  const uint32_t position = reduce_behind(lane, from);
  if (position == 0 || tells(lane, from, position)) return sum;
  const Instr& reduce = lane.instrs[position];
  const auto tile = plan.writes(lane.instrs[from]), reads = plan.reads(reduce);
  if (tile.size() != 1 || tile[0].rank != lane.rank || reads.size() > kMostAdds + 1) return sum;
  const auto own = std::find(reads.begin(), reads.end(), tile[0]);
  const int32_t step_rows = step_between(reads, tile[0]);
  const Buffer& buffer = plan.buffers[tile[0].buffer];
  if (own == reads.end() || step_rows == 0 || buffer.dtype == DType::fp32 ||
      !in_vectors(buffer, tile[0])) {
    return sum;
  }
  for (const Region& write : plan.writes(reduce)) {
    if (!same_shape(write, tile[0]) || plan.buffers[write.buffer].dtype != buffer.dtype) {
      return sum;
    }
  }
  sum.position = sum.of_ranks = position;
  sum.own_at = static_cast<uint32_t>(own - reads.begin());
  sum.step_rows = step_rows;
  return sum;
}

// A tile as one of its reduces reads it.
struct Candidate {
  Region tile;
  uint32_t lane, reduce;
  size_t entry;  // the sum that it belongs to
  bool is_read_elsewhere;
};

// The candidates of one buffer of one rank, by the place of their tiles.
class Candidates {
 public:
  void add(const Candidate& candidate) { list_.push_back(candidate); }
  void sort() {
    std::sort(list_.begin(), list_.end(),
              [](const Candidate& a, const Candidate& b) { return place(a) < place(b); });
    for (const Candidate& one : list_) {
      most_rows_ = std::max(most_rows_, one.tile.rows());
      most_cols_ = std::max(most_cols_, one.tile.cols());
    }
  }
  const std::vector<Candidate>& all() const { return list_; }

  // Once sorted.
  void add_read(const Region& read, uint32_t lane, uint32_t position) {
    if (list_.empty() || read.row1 <= list_.front().tile.row0 ||
        read.row0 - int64_t{most_rows_} >= list_.back().tile.row0) {
      return;
    }
    // Tile row by tile row.
    for (auto one = behind(list_.begin(), read.row0 - int64_t{most_rows_}, INT64_MAX);
         one != list_.end() && one->tile.row0 < read.row1;) {
      const int32_t row = one->tile.row0;
      for (one = behind(one, row, read.col0 - int64_t{most_cols_});
           one != list_.end() && one->tile.row0 == row && one->tile.col0 < read.col1; ++one) {
        const bool is_own = one->lane == lane && one->reduce == position;
        if (!is_own && one->tile.overlaps(read)) one->is_read_elsewhere = true;
      }
      one = behind(one, row, INT64_MAX);
    }
  }

 private:
  using Place = std::pair<int64_t, int64_t>;
  static Place place(const Candidate& one) { return {one.tile.row0, one.tile.col0}; }
  // The first from `from` on that lies behind the place.
  std::vector<Candidate>::iterator behind(std::vector<Candidate>::iterator from, int64_t row,
                                          int64_t col) {
    return std::upper_bound(from, list_.end(), Place(row, col),
                            [](const Place& at, const Candidate& one) { return at < place(one); });
  }

  std::vector<Candidate> list_;
  int32_t most_rows_ = 0, most_cols_ = 0;
};

}  // namespace

TileSums::TileSums(const Plan& plan) : ranges_(plan.buffers.size(), Ranges::none) {
  AwaitedAtOnce awaited_at_once(plan);
  std::vector<Candidates> places(static_cast<size_t>(plan.ranks()) * plan.buffers.size());
  const auto place_of = [&](const Region& region) -> Candidates& {
    return places[region.rank * plan.buffers.size() + region.buffer];
  };
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    if (lane.kind != LaneKind::compute) continue;
    for (uint32_t at = 0; at < lane.instrs.size(); ++at) {
      if (lane.instrs[at].op != Opcode::gemm) continue;
      const TileSum sum = sum_in_lane(plan, lane, at, awaited_at_once);
      if (!sum) continue;
      const auto add = [&](const Region& tile, uint32_t reduce) {
        const bool for_caller = plan.buffers[tile.buffer].role == BufferRole::output;
        place_of(tile).add({tile, l, reduce, sums_.size(), for_caller});
      };
      if (sum.of_ranges != 0) {
        const auto ranges = plan.reads(lane.instrs[sum.of_ranges]);
        for (const Region& tile : ranges.first(ranges.size() - sum.others)) {
          add(tile, sum.of_ranges);
        }
      }
      if (sum.of_ranks != 0) {
        const uint32_t writer = sum.of_ranges != 0 ? sum.of_ranges : at;
        add(plan.writes(lane.instrs[writer])[0], sum.of_ranks);
      }
      sums_.push_back({l, at, sum});
    }
  }
  for (Candidates& candidates : places) candidates.sort();
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    for (uint32_t at = 0; at < plan.lanes[l].instrs.size(); ++at) {
      for (const Region& read : plan.reads(plan.lanes[l].instrs[at])) {
        place_of(read).add_read(read, l, at);
      }
    }
  }
  for (const Candidates& candidates : places) {
    for (const Candidate& one : candidates.all()) {
      if (!one.is_read_elsewhere) continue;
      TileSum& sum = sums_[one.entry].sum;
      // What is read after the sum over ranges is stored then; what is read before it, by the gemm.
      sum = one.reduce == sum.of_ranks
                ? TileSum{sum.of_ranges, sum.of_ranges, sum.first, sum.others}
                : TileSum{};
    }
  }
  std::erase_if(sums_, [](const Entry& entry) { return !entry.sum; });
  number_sums(plan);
  for (const Entry& entry : sums_) {
    const Lane& lane = plan.lanes[entry.lane];
    if (entry.sum.of_ranges != 0) {
      Ranges& ranges = ranges_[plan.writes(lane.instrs[entry.at])[0].buffer];
      ranges = std::max(ranges, entry.sum.others != 0 ? Ranges::in_memory : Ranges::in_registers);
      any_phases_ = any_phases_ || entry.sum.first != entry.at;
    }
    if (entry.sum.of_ranks != 0 && sources_ == 0) {
      sources_ = lane.instrs[entry.sum.of_ranks].num_reads - 1;
    }
  }
  ranges_misfit_ = why_ranges_misfit(plan);
  needs_ = find_needs(plan, *this);
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
                 "their "
                 "sum";
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

const Instr* TileSums::stored_by(const Plan& plan, uint32_t lane, uint32_t at) const {
  const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
  if (const TileSum sum = of(lane, at)) return &instrs[sum.position];
  const auto writes = plan.writes(instrs[at]);
  return !writes.empty() && holds_ranges(writes[0].buffer) ? nullptr : &instrs[at];
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

uint32_t TileSums::last_of(uint32_t lane, uint32_t at) const {
  if (number_.empty()) return at;
  const uint32_t number = number_[first_[lane] + at];
  return number != 0 ? sums_[number - 1].at : at;
}

}  // namespace stretto::cuda
