#include "tables/lane_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "gpu/tensor_map.h"
#include "launch/buffer_places.h"
#include "launch/choice_rows.h"
#include "launch/gemm_choice.h"
#include "plan/tile_task.h"
#include "tables/routed_tasks.h"

namespace stretto::cuda {
namespace {

// Addresses of whole buffers suit; how far apart their rows are is the plan's.
std::string why_no_map(const Buffer& buffer) {
  Matrix matrix;
  matrix.rows = std::max(buffer.rows, 1);
  matrix.columns = matrix.stride = buffer.cols;
  matrix.dtype = buffer.dtype;
  return why_unmappable(matrix);
}

// What some tile's task has most of, and the tile's gemm.
struct Most {
  size_t count = 0;
  InstrRef where;

  void raise_to(size_t other, const InstrRef& at) {
    if (other > count) *this = {other, at};
  }
};

class LaneLimits {
 public:
  LaneLimits(const Plan& plan, const TileSums& sums, bool serves, LimitList& limits)
      : plan_(plan),
        sums_(sums),
        serves_(serves),
        limits_(limits),
        choices_(plan),
        is_mapped_(plan.buffers.size(), false) {}

  void look_at(uint32_t l) {
    const Lane& lane = plan_.lanes[l];
    Stretch stretch;
    stretch_ = 0;
    InGemm tasks;
    for (uint32_t at = 0; at < lane.instrs.size(); ++at) {
      const Instr& instr = lane.instrs[at];
      const bool in_gemm = tasks.pass(instr);
      const bool is_head = is_ahead_of_tiles(instr.op) && !stretch.has_tiles;
      const bool is_move = !in_gemm && instr.kind() != nullptr && !is_head;
      stretch_ += instr.op == Opcode::boundary;
      stretch.pass(instr, {l, at}, is_move);
      if (!plan_.partitions.empty()) look_at_head({l, at}, stretch, is_head);
      if (instr.op == Opcode::reduce || instr.op == Opcode::copy) look_at_elements({l, at});
      if (is_move && is_elementwise(instr.op)) look_at_move({l, at});
      if (instr.op == Opcode::norm) look_at_norm({l, at});
      if (has_tables_ && is_routed_move(instr.op)) look_at_routed({l, at});
      if (!plan_.partitions.empty()) look_at_choices({l, at});
      stretch.has_tiles = stretch.has_tiles || is_product(instr.op);
      if (!is_product(instr.op)) continue;
      if (plan_.library_at(stretch_)) {
        if (is_routed_product(instr.op)) look_at_operands({l, at}, sums_.followed_at(l, at));
        continue;
      }
      const TileSum sum = sums_.of(l, at);
      uint32_t made = sum.position;  // the tile's task makes what stands up to here
      const FollowedTile* const tile = sums_.followed_at(l, at);
      look_at_operands({l, at}, tile);
      if (tile != nullptr && at != tile->begin) continue;  // the second product of a task
      if (tile != nullptr) {
        made = tile->last;
        look_at_bias(l, *tile);
      }
      look_at_sum({l, at}, sum, made);
      look_at_place({l, at}, stretch);
    }
  }

  // Once all lanes were looked at. A kernel that makes partitions ends before that of tiles begins.
  void look_at_heads() {
    const auto alike = [](const Told& a, const Told& b) {
      return std::tuple(a.rank, a.stretch, a.array, a.index) <
             std::tuple(b.rank, b.stretch, b.array, b.index);
    };
    std::sort(head_waits_.begin(), head_waits_.end(), alike);
    for (const Told& told : told_behind_tiles_) {
      const auto wait = std::lower_bound(head_waits_.begin(), head_waits_.end(), told, alike);
      if (wait == head_waits_.end() || alike(told, *wait)) continue;
      limits_.add(
          "GPUs make partitions, and permute rows, ahead of the tiles between two boundaries: what "
          "they await must not be told behind one of these",
          wait->at);
      return;
    }
  }

  // Once all lanes were looked at.
  void look_at_counts() {
    const auto add = [&](const Most& most, std::string_view what, std::string_view right) {
      if (most.count <= UINT8_MAX) return false;
      limits_.add(fmt::format("a tile has {} {}, a task on the GPU at most {}: take {}", most.count,
                              what, UINT8_MAX, right),
                  most.where);
      return true;
    };
    constexpr const char* kFewerOwners =
        "tiles of fewer rows, fewer ranks, or reduction=two-shot instead of one-shot";
    // One is enough: they come together.
    add(waits_, "waits", "sync=counter, or fewer comm-sms or k-phases") ||
        add(destinations_, "destinations", kFewerOwners) ||
        add(notifies_, "notifies", kFewerOwners);
  }

 private:
  // A lane's instructions since its last boundary, as far as they were passed.
  struct Stretch {
    bool has_waited = false, has_worked = false, has_moved = false, has_tiles = false;
    std::optional<InstrRef> told_early;  // behind waits and before any task

    void pass(const Instr& instr, const InstrRef& at, bool is_move) {
      if (instr.op == Opcode::boundary) *this = {};
      has_waited = has_waited || instr.op == Opcode::wait;
      if (instr.op == Opcode::notify && has_waited && !has_worked && !told_early) told_early = at;
      has_worked = has_worked || instr.is_task();
      has_moved = has_moved || is_move;
    }
  };

  // A signal that a rank's compute lane awaits or tells, in which of its stretches.
  struct Told {
    int rank;
    size_t stretch;
    uint16_t array;
    int32_t index;
    InstrRef at;
  };

  void look_at_head(const InstrRef& at, const Stretch& stretch, bool is_head) {
    const Lane& lane = plan_.lanes[at.lane];
    if (lane.kind != LaneKind::compute) return;
    const Instr& instr = instr_at(at);
    if (instr.op == Opcode::notify && stretch.has_tiles && instr.rank == lane.rank) {
      told_behind_tiles_.push_back(told_at(at));
    }
    if (!is_head) return;
    for (uint32_t i = at.pos; i-- > 0 && lane.instrs[i].op != Opcode::boundary;) {
      const Instr& wait = lane.instrs[i];
      if (wait.op == Opcode::wait && wait.lag == 0) head_waits_.push_back(told_at({at.lane, i}));
    }
  }
  Told told_at(const InstrRef& at) const {
    const SignalRef& signal = instr_at(at).signal;
    return {plan_.lanes[at.lane].rank, stretch_, signal.array, signal.index, at};
  }

  const Instr& instr_at(const InstrRef& at) const { return plan_.lanes[at.lane].instrs[at.pos]; }

  static bool is_elementwise(Opcode op) {
    return op == Opcode::reduce || op == Opcode::copy || follows_product(op);
  }
  // What a mover reads is of one type, and so is what it writes.
  void look_at_move(const InstrRef& at) {
    look_at_elements(at);
    const Instr& move = instr_at(at);
    const auto is_of_one = [&](std::span<const Region> regions) {
      return std::all_of(regions.begin(), regions.end(), [&](const Region& region) {
        return plan_.buffers[region.buffer].dtype == plan_.buffers[regions[0].buffer].dtype;
      });
    };
    if (is_of_one(plan_.reads(move)) && is_of_one(plan_.writes(move))) return;
    limits_.add("a mover reads one type and writes one type", at);
  }

  // Kernels count them, and a little further, in 32 bits.
  void look_at_elements(const InstrRef& at) {
    if (plan_.reads(instr_at(at))[0].elements() <= INT32_MAX) return;
    constexpr const char* kTooLarge =
        "a block moves at most {} elements at once: take more comm-sms or granularity=tile";
    limits_.add(fmt::format(kTooLarge, INT32_MAX), at);
  }

  void look_at_routed(const InstrRef& at) {
    if (std::string why = why_no_routed_task(plan_, instr_at(at)); !why.empty()) {
      limits_.add(std::move(why), at);
    }
  }

  // Outputs whose rows are a partition's are stored by choice, by tiles or a permute, and read by
  // nobody.
  void look_at_choices(const InstrRef& at) {
    const Instr& instr = instr_at(at);
    const auto find = [&](std::span<const Region> regions) {
      return std::find_if(regions.begin(), regions.end(), [&](const Region& region) {
        return is_by_choice(plan_.buffers[region.buffer]);
      });
    };
    const std::span<const Region> reads = plan_.reads(instr), writes = plan_.writes(instr);
    if (const auto read = find(reads); read != reads.end()) {
      limits_.add(
          fmt::format("GPUs hand over the rows of {} by choice, so no task reads them: take "
                      "an operator that has them as an output alone",
                      plan_.buffers[read->buffer].name),
          at);
    }
    const auto written = find(writes);
    if (written == writes.end()) return;
    const FollowedTile* const tile = sums_.followed_at(at.lane, at.pos);
    const Instr& product = tile != nullptr ? instr_at({at.lane, tile->product}) : instr;
    const bool is_tile = is_routed_product(product.op) && (tile == nullptr || at.pos == tile->last);
    const bool is_own = writes.size() == 1 && written->rank == plan_.lanes[at.lane].rank;
    const std::string& name = plan_.buffers[written->buffer].name;
    const bool is_permute = instr.op == Opcode::permute && tile == nullptr;
    const bool has_tables = is_permute ? choices_.of_permuted(instr).has_value()
                                       : is_tile && choices_.of(product, *written).has_value();
    if (!is_own || !has_tables) {
      limits_.add(fmt::format("GPUs hand over the rows of {} by choice: each is of a tile or a "
                              "permute that stores nothing else, of entries whose tables are of "
                              "one partition",
                              name),
                  at);
    } else if (written->col0 % 8 != 0 || written->cols() % 8 != 0) {
      limits_.add(fmt::format("the rows of {} are stored by choice in 8 columns at a time: take "
                              "columns and tiles that are a multiple of 8",
                              name),
                  at);
    }
  }

  // Those of weights are read in pairs.
  void look_at_bias(uint32_t lane, const FollowedTile& tile) {
    for (const uint32_t at : tile.bias) {
      if (at == 0) continue;
      const Region& row = plan_.reads(instr_at({lane, at}))[1];
      if (row.col0 % 2 == 0 && row.cols() % 2 == 0) continue;
      limits_.add("a row of bias begins and ends at an even column: take an even number of columns",
                  InstrRef{lane, at});
    }
  }

  void look_at_norm(const InstrRef& at) {
    const Instr& norm = instr_at(at);
    if (std::string why = why_no_norm(plan_, {nullptr, &norm, norm.attribute()}); !why.empty()) {
      limits_.add(std::move(why), at);
    }
  }

  // Of a gemm, which may be a part of `tile`.
  void look_at_operands(const InstrRef& at, const FollowedTile* tile) {
    const Instr& gemm = instr_at(at);
    const std::span<const Region> reads = plan_.reads(gemm);
    // What stays in registers needs no maps.
    const Instr& stored = tile != nullptr ? instr_at({at.lane, tile->last}) : gemm;
    for (const std::span<const Region> regions : {reads, plan_.writes(stored)}) {
      for (const Region& region : regions) {
        if (is_index(plan_.buffers[region.buffer].dtype)) continue;
        if (is_mapped_[region.buffer]) continue;
        is_mapped_[region.buffer] = true;
        if (std::string why = why_no_map(plan_.buffers[region.buffer]); !why.empty()) {
          limits_.add(std::move(why), at);
        }
      }
    }
    constexpr int32_t kMostK = device::kTileK * UINT16_MAX;
    if (reads.back().col1 > kMostK) {
      limits_.add(fmt::format("a range of K must end at {} or before: take a smaller k", kMostK),
                  at);
    }
    if (is_routed_product(gemm.op)) return look_at_stack(at);
    const TileSum sum = sums_.of(at.lane, sums_.last_of(at.lane, at.pos));
    if (sum.by_source && sum.first == at.pos) return;  // it may lie in a matrix of its own
    for (const Region& read : reads) {
      if (read.col0 % device::kTileK == 0 && read.col0 == reads.front().col0) continue;
      limits_.add(fmt::format("a range of K must start at a multiple of {}, the same in A and B",
                              device::kTileK),
                  at);
    }
  }

  // Of a product whose rows choose their matrices: all of K, and rows that kernels can address.
  void look_at_stack(const InstrRef& at) {
    const Instr& product = instr_at(at);
    const std::span<const Region> reads = plan_.reads(product);
    const Region& a = product.op == Opcode::gather_gemm ? reads[2] : reads[0];
    if (a.col0 != 0 || reads.back().col0 != 0) {
      limits_.add("rows that choose their matrices are multiplied from their first column on", at);
    }
    const Buffer& rows_of = plan_.buffers[a.buffer];
    if (product.op == Opcode::gather_gemm && a.cols() % 8 != 0) {
      limits_.add("rows are gathered 8 columns at a time", at);
    }
    constexpr int64_t kMostGathered = int64_t{1} << 36;
    if (product.op == Opcode::gather_gemm &&
        int64_t{a.rows()} * static_cast<int64_t>(row_bytes_of(rows_of)) > kMostGathered) {
      limits_.add("rows are gathered of at most 64 GiB", at);
    }
    if (rows_of_entry(plan_, product) > 256) {
      limits_.add("entries of a partition have at most 256 rows on GPUs: take a lower tile", at);
    }
  }

  // Of a gemm, what the task of its tile adds, awaits and tells.
  void look_at_sum(const InstrRef& at, const TileSum& sum, uint32_t made) {
    count_task(at, sum.of_ranges != 0 ? sum.first : at.pos, std::max(made, at.pos));
    if (!sum) return;
    const InstrRef reduce{at.lane, sum.position};
    if (sum.others != 0) look_at_ranges({at.lane, sum.of_ranges});
    if (sum.has_residual) {
      const Buffer& residual = plan_.buffers[plan_.reads(instr_at(reduce)).back().buffer];
      if (std::string why = why_no_map(residual); !why.empty()) {
        limits_.add(std::move(why), reduce);
      }
    }
    if (sum.of_ranks != 0 && instr_at(reduce).num_reads != sums_.needs()[stretch_].adds + 1) {
      limits_.add("all tiles between two boundaries must be added to equally many sums of others",
                  reduce);
    }
    if (serves_ && sum.has_residual) {
      limits_.add("runs of fewer rows add no residual to tiles: take rows=fixed", reduce);
    }
    if (serves_ && sum.stores_before()) {
      limits_.add("runs of fewer rows add to whole tiles only; rows=bucket cuts them at owners",
                  reduce);
    }
  }

  // Of a reduce of ranges of K, from each to the next: GemmSplit::step.
  void look_at_ranges(const InstrRef& at) {
    const std::span<const Region> ranges = plan_.reads(instr_at(at));
    const Buffer& buffer = plan_.buffers[ranges[0].buffer];
    const auto rows = static_cast<uint64_t>(ranges[1].row0 - ranges[0].row0);
    constexpr uint64_t kMostBytes = uint64_t{UINT32_MAX} * 16;
    if (rows * row_bytes_of(buffer) <= kMostBytes) return;
    limits_.add(fmt::format("sums of ranges of K lie {} bytes apart, at most {} are served: take "
                            "split-k=1 or a smaller shape",
                            rows * row_bytes_of(buffer), kMostBytes),
                at);
  }

  // Of a gemm, behind what it stands.
  void look_at_place(const InstrRef& at, const Stretch& stretch) {
    if (stretch.has_moved) {
      limits_.add("between boundaries a compute lane moves data only after its last tile", at);
    }
    if (stretch.told_early) {
      limits_.add("a compute lane notifies at a boundary or after a task", stretch.told_early);
    }
  }

  // The task that begins with the gemm `first`, has the whole tile behind the gemm at `at`, and
  // ends with the instruction `last`. Its fields have a byte for each number; syncs of lanes that
  // are no longer need not be counted.
  void count_task(const InstrRef& at, uint32_t first, uint32_t last) {
    const std::vector<Instr>& instrs = plan_.lanes[at.lane].instrs;
    for (uint32_t i = at.pos; i <= last; ++i) {
      if (instrs[i].is_task()) destinations_.raise_to(instrs[i].num_writes, at);
    }
    if (instrs.size() <= UINT8_MAX) return;
    size_t waits = 0, notifies = 0;
    for (uint32_t i = first; i > 0 && instrs[i - 1].op == Opcode::wait; --i) ++waits;
    for (uint32_t i = first; i < last; ++i) {
      waits += instrs[i].op == Opcode::wait;
      notifies += instrs[i].op == Opcode::notify;
    }
    for (uint32_t i = last + 1; i < instrs.size() && instrs[i].op == Opcode::notify; ++i) {
      ++notifies;
    }
    waits_.raise_to(waits, at);
    notifies_.raise_to(notifies, at);
  }

  const Plan& plan_;
  const TileSums& sums_;
  const bool serves_, has_tables_ = plan_.has_tables();
  LimitList& limits_;
  const ChoiceRows choices_;
  std::vector<uint8_t> is_mapped_;                    // by buffer: by the GEMM kernel
  size_t stretch_ = 0;                                // of the lane that is looked at
  std::vector<Told> head_waits_, told_behind_tiles_;  // where the plan has partitions
  Most waits_, notifies_, destinations_;
};

}  // namespace

void LimitList::add(std::string reason, const std::optional<InstrRef>& where) {
  const bool known = std::any_of(limits_.begin(), limits_.end(),
                                 [&](const PlanLimit& one) { return one.reason == reason; });
  if (!known) limits_.push_back({std::move(reason), where});
}

void add_lane_limits(const Plan& plan, const TileSums& sums, bool serves, LimitList& limits) {
  LaneLimits lanes(plan, sums, serves, limits);
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const LaneKind kind = plan.lanes[l].kind;
    if (kind == LaneKind::compute || kind == LaneKind::comm) lanes.look_at(l);
  }
  lanes.look_at_counts();
  lanes.look_at_heads();
}

}  // namespace stretto::cuda
