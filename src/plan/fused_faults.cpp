#include "plan/fused_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "plan/faults.h"
#include "plan/held_tiles.h"
#include "plan/normed_rows.h"

namespace stretto {
namespace {

constexpr const char* kNothing =
    "expected a fused task to follow one that leaves something in registers, with nothing but "
    "waits and notifies between";
constexpr const char* kIncomplete =
    "expected a fused task behind it that takes what is in registers: a sum of ranges of K, or a "
    "swiglu";

// The tiles of one lane, and its norms.
void walk(const Plan& plan, uint32_t l, LaneTiles& found) {
  const Lane& lane = plan.lanes[l];
  std::optional<TileTask> task;
  bool is_broken = false;  // by a fault that is known
  size_t boundaries = 0;
  bool keeps_tiles = keeps_tiles_at(plan, 0);
  const auto end_tile = [&] {
    if (task && task->tile().last != task->tile().begin) {
      if (!task->is_whole() && !is_broken)
        found.faults.push_back({{l, task->tile().last}, kIncomplete});
      found.tiles.push_back({l, task->tile()});
    }
    task.reset();
    is_broken = false;
  };
  for (uint32_t at = 0; at < lane.instrs.size(); ++at) {
    const Instr& instr = lane.instrs[at];
    if (instr.is_sync()) continue;
    if (instr.op == Opcode::boundary) keeps_tiles = keeps_tiles_at(plan, ++boundaries);
    if (!instr.fused) {
      end_tile();
      const bool keeps_tile = keeps_tiles || is_routed_product(instr.op);
      if (is_product(instr.op) && keeps_tile) task.emplace(plan, lane, at);
      continue;
    }
    std::string what;
    if (is_norm(instr.op)) {
      what = why_not_with_sum(plan, lane, at);
    } else {
      what = task ? std::string(task->take(at)) : kNothing;
    }
    if (what.empty()) continue;
    found.faults.push_back({{l, at}, std::move(what)});
    is_broken = true;
  }
  end_tile();
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

class MemoryFaults {
 public:
  MemoryFaults(const Plan& plan, const std::vector<LaneTile>& tiles, const PlanReads& reads)
      : plan_(plan), tiles_(tiles), reads_(reads), uses_(plan.buffers.size()) {}

  std::vector<FusedFault> take() && {
    look_for_late_notifies();
    look_for_readers();
    find_uses();
    if (any_use_) {
      look_at_accesses();
      look_for_unleft_ranges();
      report_uses();
    }
    return std::move(faults_);
  }

 private:
  // What a buffer is for, of what stays in registers: sums of ranges of K, also those that lie in
  // memory for a task which has others in registers; or what products leave to what follows them.
  struct Use {
    bool ranges = false, follows = false;
    std::string not_ranges, not_follows;  // what speaks against it
  };

  const std::vector<Instr>& instrs(uint32_t lane) const { return plan_.lanes[lane].instrs; }
  std::string text(uint32_t lane, uint32_t at) const {
    const Lane& of = plan_.lanes[lane];
    return fmt::format("{} instruction {} ({})", describe(of), at, print(plan_, of, of.instrs[at]));
  }

  // Notifies between ranges of K are made behind their sum: nobody may need them earlier.
  void look_for_late_notifies() {
    AwaitedAtOnce awaited_at_once(plan_);
    for (const auto& [lane, tile] : tiles_) {
      const uint32_t sum = tile.sum.of_ranges;
      for (uint32_t at = tile.begin; at < sum; ++at) {
        const Instr& instr = instrs(lane)[at];
        if (instr.op != Opcode::notify || !awaited_at_once(instr)) continue;
        faults_.push_back({{lane, sum},
                           fmt::format("expected no lane to await what is notified before a sum in "
                                       "registers, found {}",
                                       text(lane, at))});
        break;
      }
    }
  }

  // Tiles that a sum takes from registers.
  void look_for_readers() {
    PlacesOfTiles places;
    std::vector<bool> holds_tiles(plan_.buffers.size(), false);
    for (const auto& [lane, tile] : tiles_) {
      const TileSum& sum = tile.sum;
      const auto add = [&, l = lane](const Region& held, uint32_t taker) {
        places.add({held, {l, taker}});
        holds_tiles[held.buffer] = true;
      };
      if (sum.of_ranges != 0) {
        const auto ranges = plan_.reads(instrs(lane)[sum.of_ranges]);
        for (const Region& range : ranges.first(ranges.size() - sum.others)) {
          add(range, sum.of_ranges);
        }
      }
      if (sum.of_ranks != 0) {
        const Instr& writer = instrs(lane)[sum.writer(tile.gemm)];
        add(plan_.writes(writer)[sum.part.write], sum.of_ranks);
      }
    }
    if (places.empty()) return;
    places.sort();
    reads_.for_each_of(holds_tiles, [&](const Region& read, const InstrRef& reader) {
      places.add_read(read, reader);
      // What rank 0 reads of another rank, another reads of rank 0.
      if (!reads_.are_all() && read.rank != plan_.lanes[reader.lane].rank) {
        faults_.push_back(
            {reader, "expected no rank to read another's " + plan_.buffers[read.buffer].name});
      }
    });
    for (const auto& [place, tiles] : places.all()) {
      for (const HeldTile& held : tiles.all()) {
        const bool for_caller = plan_.buffers[held.tile.buffer].role == BufferRole::output;
        if (!held.reader && !for_caller) continue;
        faults_.push_back(
            {held.taker, fmt::format("expected nobody else to read {}, which stays in registers, "
                                     "found {}",
                                     describe(plan_, held.tile),
                                     for_caller ? "the caller's output"
                                                : text(held.reader->lane, held.reader->pos))});
      }
    }
  }

  // The tasks whose results follow() takes from registers: visit(task).
  template <typename Visit>
  void for_each_on_the_way(const LaneTile& tile, const Visit& visit) const {
    const FollowedTile& followed = tile.tile.followed;
    for (uint32_t at = followed.made; at < followed.last; ++at) {
      if (instrs(tile.lane)[at].is_task()) visit(instrs(tile.lane)[at]);
    }
  }

  void find_uses() {
    for (const LaneTile& tile : tiles_) {
      const TileSum& sum = tile.tile.sum;
      if (sum.of_ranges != 0) {
        uses_[plan_.reads(instrs(tile.lane)[sum.of_ranges])[0].buffer].ranges = any_use_ = true;
      }
      for_each_on_the_way(tile, [&](const Instr& task) {
        uses_[plan_.writes(task)[0].buffer].follows = any_use_ = true;
      });
    }
  }

  void look_at_accesses() {
    size_t next = 0;
    for (uint32_t l = 0; l < reads_.lanes(); ++l) {
      for (uint32_t at = 0; at < instrs(l).size(); ++at) {
        while (next < tiles_.size() && is_before(tiles_[next], l, at)) ++next;
        const bool inside =
            next < tiles_.size() && tiles_[next].lane == l && tiles_[next].tile.begin <= at;
        if (instrs(l)[at].is_task()) look_at(l, at, inside ? &tiles_[next].tile : nullptr);
      }
    }
  }
  static bool is_before(const LaneTile& tile, uint32_t lane, uint32_t at) {
    return tile.lane < lane || (tile.lane == lane && tile.tile.last < at);
  }

  // Of the task, which is a part of `tile` unless that is null.
  void look_at(uint32_t l, uint32_t at, const Tile* tile) {
    const Instr& instr = instrs(l)[at];
    const FollowedTile followed = tile != nullptr ? tile->followed : FollowedTile{};
    // What follows a product reads what the tile has left, and bias.
    const bool follows = followed && at > followed.made && !is_product(instr.op);
    const bool sums = tile != nullptr && tile->sum.of_ranges == at && at != 0;
    const auto reads = plan_.reads(instr);
    const size_t own = instr.kind() == nullptr ? 0 : instr.kind()->num_others;
    for (size_t i = 0; i < reads.size(); ++i) {
      const bool is_taken = follows && i + own < reads.size();
      look_at_access(reads[i], l, at, sums, is_taken);
    }
    const bool stays = at >= followed.made && at < followed.last;
    for (const Region& write : plan_.writes(instr)) {
      const bool leaves_range = instr.op == Opcode::gemm && instr.num_writes == 1 &&
                                instr.num_reads == 2 && write.rank == plan_.lanes[l].rank;
      look_at_access(write, l, at, leaves_range, stays);
      if (leaves_range && uses_[write.buffer].ranges) left_.push_back(key_of(write));
    }
  }
  void look_at_access(const Region& region, uint32_t l, uint32_t at, bool of_range, bool on_way) {
    Use& use = uses_[region.buffer];
    const auto note = [&](std::string& against) {
      if (against.empty()) against = text(l, at);
    };
    if (use.ranges && !of_range) note(use.not_ranges);
    if (use.follows && !on_way) note(use.not_follows);
  }

  using Key = std::tuple<uint16_t, uint16_t, int32_t, int32_t, int32_t, int32_t>;
  static Key key_of(const Region& r) { return {r.buffer, r.rank, r.row0, r.row1, r.col0, r.col1}; }

  // What is added must be as one gemm has left it.
  void look_for_unleft_ranges() {
    std::sort(left_.begin(), left_.end());
    for (const auto& [lane, tile] : tiles_) {
      const uint32_t sum = tile.sum.of_ranges;
      if (sum == 0) continue;
      for (const Region& read : plan_.reads(instrs(lane)[sum])) {
        std::string& against = uses_[read.buffer].not_ranges;
        const bool is_left = std::binary_search(left_.begin(), left_.end(), key_of(read));
        if (!is_left && against.empty()) against = text(lane, sum);
      }
    }
  }

  void report_uses() {
    for (const LaneTile& tile : tiles_) {
      const std::vector<Instr>& lane = instrs(tile.lane);
      if (const uint32_t sum = tile.tile.sum.of_ranges; sum != 0) {
        const uint16_t buffer = plan_.reads(lane[sum])[0].buffer;
        if (const std::string& against = uses_[buffer].not_ranges; !against.empty()) {
          faults_.push_back(
              {{tile.lane, sum},
               fmt::format("expected {} to hold nothing but ranges of K, each left by one gemm of "
                           "its rank and added as it is by a fused sum, found {}",
                           plan_.buffers[buffer].name, against)});
        }
      }
      bool reported = false;
      for_each_on_the_way(tile, [&](const Instr& task) {
        const uint16_t buffer = plan_.writes(task)[0].buffer;
        const std::string& against = uses_[buffer].not_follows;
        if (against.empty() || reported) return;
        reported = true;
        uint32_t first = tile.tile.followed.made + 1;
        while (!lane[first].is_task()) ++first;
        faults_.push_back({{tile.lane, first},
                           fmt::format("expected {} to hold nothing but what stays in registers, "
                                       "found {}",
                                       plan_.buffers[buffer].name, against)});
      });
    }
  }

  const Plan& plan_;
  const std::vector<LaneTile>& tiles_;
  const PlanReads& reads_;
  std::vector<FusedFault> faults_;
  std::vector<Use> uses_;  // by buffer
  bool any_use_ = false;
  std::vector<Key> left_;
};

}  // namespace

LaneTiles::LaneTiles(const Plan& plan) {
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const std::vector<Instr>& instrs = plan.lanes[l].instrs;
    const bool any =
        std::any_of(instrs.begin(), instrs.end(), [](const Instr& instr) { return instr.fused; });
    if (any) walk(plan, l, *this);
  }
}

PlanFault fault_in_fused(const Plan& plan) {
  LaneTiles found(plan);
  std::vector<FusedFault>& faults = found.faults;
  if (faults.empty() && !found.tiles.empty()) {
    PlanReads reads(plan);
    for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) reads.add(lane);
    faults = faults_of_memory(plan, found.tiles, reads);
  }
  if (faults.empty()) return {};
  const auto first =
      std::min_element(faults.begin(), faults.end(), [](const FusedFault& a, const FusedFault& b) {
        return std::pair(a.where.lane, a.where.pos) < std::pair(b.where.lane, b.where.pos);
      });
  return {std::move(first->what), first->where.lane, first->where.pos};
}

void PlanReads::add(uint32_t lane) {
  ++lanes_;
  const std::vector<Instr>& instrs = plan_.lanes[lane].instrs;
  for (uint32_t at = 0; at < instrs.size(); ++at) {
    if (instrs[at].num_reads == 0) continue;
    if (!is_product(instrs[at].op)) {
      others_.push_back({lane, at});
      continue;
    }
    for (const Region& read : plan_.reads(instrs[at])) by_products_[read.buffer] = true;
  }
}

std::vector<FusedFault> faults_of_memory(const Plan& plan, const std::vector<LaneTile>& tiles,
                                         const PlanReads& reads) {
  return tiles.empty() ? std::vector<FusedFault>() : MemoryFaults(plan, tiles, reads).take();
}

}  // namespace stretto
