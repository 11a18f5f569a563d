#include "cuda/plan_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

using device::GemmConfig;
using device::GemmTask;
using device::MoverTask;
using device::OutputType;

device::MoverType mover_type(DType dtype) {
  return dtype == DType::bf16   ? device::MoverType::bf16
         : dtype == DType::fp16 ? device::MoverType::fp16
                                : device::MoverType::fp32;
}

OutputType output_type(DType dtype) {
  return dtype == DType::bf16   ? OutputType::bf16
         : dtype == DType::fp16 ? OutputType::fp16
                                : OutputType::fp32;
}

// The dtype that every gemm of the plan writes; nothing when there is none or they differ.
std::optional<DType> written_dtype(const Plan& plan) {
  std::optional<DType> found;
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::gemm) continue;
      for (const Region& to : plan.writes(instr)) {
        const DType dtype = plan.buffers[to.buffer].dtype;
        if (found && *found != dtype) return std::nullopt;
        found = dtype;
      }
    }
  }
  return found;
}

// One past a compute lane's last tile and the notifies that follow it.
size_t end_of_tiles(std::span<const Instr> instrs) {
  size_t end = 0;
  for (size_t i = 0; i < instrs.size(); ++i) {
    if (instrs[i].op == Opcode::gemm) end = i + 1;
  }
  while (end > 0 && end < instrs.size() && instrs[end].op == Opcode::notify) ++end;
  return end;
}

// Collects the waits before a task and the notifies after it.
template <typename Table>
class SyncCollector {
 public:
  SyncCollector(const Plan& plan, const SignalLayout& signals, int rank, Table& table)
      : plan_(plan), signals_(signals), rank_(rank), table_(table) {}

  void add_wait(const Instr& instr) {
    const SignalArray& array = plan_.signals[instr.signal.array];
    const uint32_t signal = flat(instr.signal);
    table_.waits.push_back({static_cast<uint64_t>(instr.amount),
                            signals_.per_run[static_cast<size_t>(rank_)][signal], signal,
                            static_cast<uint32_t>(array.count), array.copies, instr.lag, 0});
  }
  void add_notify(const Instr& instr) {
    const SignalArray& array = plan_.signals[instr.signal.array];
    table_.notifies.push_back({static_cast<uint64_t>(instr.amount), flat(instr.signal),
                               static_cast<uint32_t>(array.count), array.copies, instr.rank, 0});
  }
  // The waits since the last task; they become this task's.
  template <typename Task>
  void claim_waits(Task& task) {
    task.first_wait = first_wait_;
    const auto count = static_cast<uint32_t>(table_.waits.size()) - first_wait_;
    task.num_waits = static_cast<decltype(task.num_waits)>(count);
    STRETTO_ASSERT(task.num_waits == count, "a task has too many waits");
    first_wait_ = static_cast<uint32_t>(table_.waits.size());
    task.first_notify = static_cast<uint32_t>(table_.notifies.size());
  }
  bool has_unclaimed_waits() const { return first_wait_ != table_.waits.size(); }

 private:
  uint32_t flat(const SignalRef& ref) const {
    return signals_.first[ref.array] + static_cast<uint32_t>(ref.index);
  }

  const Plan& plan_;
  const SignalLayout& signals_;
  int rank_;
  Table& table_;
  uint32_t first_wait_ = 0;
};

// Which tasks of a mover's lane touch what earlier ones write, or write what they read: the mover
// would have several of them under way at once.
class LaneHazards {
 public:
  // Whether the earlier tasks must end before this one begins; asked in the lane's order.
  bool must_end_before(std::span<const Region> reads, std::span<const Region> writes) {
    const auto touches = [](std::span<const Region> some, const std::vector<Region>& earlier) {
      return std::any_of(some.begin(), some.end(), [&](const Region& a) {
        return std::any_of(earlier.begin(), earlier.end(),
                           [&](const Region& b) { return a.overlaps(b); });
      });
    };
    const bool ends =
        touches(reads, written_) || touches(writes, written_) || touches(writes, read_);
    if (ends) {
      read_.clear();
      written_.clear();
    }
    read_.insert(read_.end(), reads.begin(), reads.end());
    written_.insert(written_.end(), writes.begin(), writes.end());
    return ends;
  }

 private:
  std::vector<Region> read_, written_;
};

class TableBuilder {
 public:
  TableBuilder(const Plan& plan, int rank, const BufferPlaces& places, const SignalLayout& signals)
      : plan_(plan), rank_(rank), places_(places), signals_(signals), sets_(num_sets(plan)) {
    tables_.config = config_for(plan);
    tables_.gemm.map_sets = static_cast<uint32_t>(sets_);
    map_lists_.resize(static_cast<size_t>(sets_));
    tables_.mover.regions.resize(static_cast<size_t>(sets_));
    tables_.tail.regions.resize(static_cast<size_t>(sets_));
  }

  RankTables build() && {
    SyncCollector gemm_sync(plan_, signals_, rank_, tables_.gemm);
    SyncCollector mover_sync(plan_, signals_, rank_, tables_.mover);
    SyncCollector tail_sync(plan_, signals_, rank_, tables_.tail);
    for (const Lane& lane : plan_.lanes) {
      if (lane.rank != rank_) continue;
      if (lane.kind == LaneKind::compute) {
        const std::span<const Instr> all = lane.instrs;
        const size_t split = end_of_tiles(all);
        tables_.gemm.blocks.emplace_back();
        add_lane(all.first(split), tables_.gemm.blocks.back(), gemm_sync,
                 [&](const Instr& instr) { return gemm_task(instr); });
        tables_.tail.blocks.emplace_back();
        LaneHazards hazards;
        add_lane(all.subspan(split), tables_.tail.blocks.back(), tail_sync,
                 [&](const Instr& instr) { return mover_task(instr, tables_.tail, hazards); });
      } else {
        tables_.mover.blocks.emplace_back();
        LaneHazards hazards;
        add_lane(lane.instrs, tables_.mover.blocks.back(), mover_sync,
                 [&](const Instr& instr) { return mover_task(instr, tables_.mover, hazards); });
      }
    }
    // A block without tasks has nothing to do in the kernel.
    std::erase_if(tables_.gemm.blocks, [](const auto& tasks) { return tasks.empty(); });
    std::erase_if(tables_.mover.blocks, [](const auto& tasks) { return tasks.empty(); });
    std::erase_if(tables_.tail.blocks, [](const auto& tasks) { return tasks.empty(); });
    for (const auto& list : map_lists_) {
      tables_.gemm.maps.insert(tables_.gemm.maps.end(), list.begin(), list.end());
    }
    return std::move(tables_);
  }

 private:
  template <typename Task, typename Sync, typename Make>
  void add_lane(std::span<const Instr> instrs, std::vector<Task>& tasks, Sync& sync, Make make) {
    for (const Instr& instr : instrs) {
      if (instr.op == Opcode::wait) {
        sync.add_wait(instr);
      } else if (instr.op == Opcode::notify) {
        // The first notify of a lane, or one after waits that no task follows, has a task of its
        // own.
        if (tasks.empty() || sync.has_unclaimed_waits()) {
          constexpr bool kMoves = std::is_same_v<Task, MoverTask>;
          STRETTO_ASSERT(kMoves, "a compute lane notifies without a task");
          if constexpr (kMoves) tasks.push_back(MoverTask{});
          sync.claim_waits(tasks.back());
        }
        sync.add_notify(instr);
        ++tasks.back().num_notifies;
        STRETTO_ASSERT(tasks.back().num_notifies != 0, "a task has too many notifies");
      } else {
        tasks.push_back(make(instr));
        sync.claim_waits(tasks.back());
      }
    }
    STRETTO_ASSERT(!sync.has_unclaimed_waits(), "a lane ends with a wait");
  }

  DevicePtr address(const Region& region, int set) const {
    const auto& copies = places_[region.rank][region.buffer];
    return copies[static_cast<size_t>(set) % copies.size()];
  }

  enum class MapUse { a, b, store };

  // A map of the first `columns` columns of a buffer; of `box_rows` rows at once when it stores.
  uint16_t map_of(MapUse use, const Region& region, int32_t columns, int box_rows = 0) {
    const auto key = std::tuple(use, region.buffer, region.rank, columns, box_rows);
    const auto [found, is_new] = map_ids_.try_emplace(key, map_lists_[0].size());
    if (is_new) {
      const Buffer& buffer = plan_.buffers[region.buffer];
      for (int set = 0; set < sets_; ++set) {
        Matrix matrix;
        matrix.address = address(region, set);
        matrix.rows = buffer.rows_on(region.rank);
        matrix.columns = columns;
        matrix.stride = buffer.cols;
        matrix.dtype = buffer.dtype;
        map_lists_[static_cast<size_t>(set)].push_back(
            use == MapUse::a   ? map_for_a(matrix, tables_.config)
            : use == MapUse::b ? map_for_b(matrix, tables_.config)
                               : map_for_store(matrix, tables_.config, box_rows));
      }
    }
    STRETTO_ASSERT(found->second <= UINT16_MAX, "a rank has too many tensor maps");
    return static_cast<uint16_t>(found->second);
  }

  device::GemmDestination destination(const Placed& placed) {
    const Region& to = placed.region;
    const Buffer& buffer = plan_.buffers[to.buffer];
    const int tile_m = tables_.config.tile_m;
    // A region that does not take the tile's full width gets maps that end where it ends; one that
    // ends with its buffer ends with the maps.
    const int32_t columns = to.cols() < tables_.config.tile_n ? to.col1 : buffer.cols;
    const bool ends_with_maps = to.row1 == buffer.rows_on(to.rank);
    const int32_t end = ends_with_maps ? tile_m : placed.row + to.rows();
    device::GemmDestination entry{};
    entry.row = to.row0 - placed.row;
    entry.column = to.col0;
    entry.begin = static_cast<uint16_t>(placed.row);
    entry.end = static_cast<uint16_t>(end);
    entry.map = map_of(MapUse::store, to, columns, device::kChunkRows);
    if (placed.row % device::kChunkRows != 0 || end % device::kChunkRows != 0) {
      entry.part_maps = map_of(MapUse::store, to, columns, device::kChunkRows / 2);
      for (int rows = device::kChunkRows / 4; rows > 0; rows /= 2) {
        map_of(MapUse::store, to, columns, rows);
      }
    }
    return entry;
  }

  GemmTask gemm_task(const Instr& instr) {
    const auto reads = plan_.reads(instr);
    const Region &a = reads[0], &b = reads[1];
    GemmTask task{};
    task.tile = static_cast<uint32_t>(instr.tile);
    task.a_map = map_of(MapUse::a, a, a.col1);
    task.b_map = map_of(MapUse::b, b, b.col1);
    task.a_row = a.row0;
    task.b_row = b.row0;
    task.first_k = static_cast<uint16_t>(a.col0 / device::kTileK);
    task.num_k = static_cast<uint16_t>((a.cols() + device::kTileK - 1) / device::kTileK);
    task.first_destination = static_cast<uint32_t>(tables_.gemm.destinations.size());
    for (const Placed& placed : placed_writes(plan_, instr)) {
      tables_.gemm.destinations.push_back(destination(placed));
      ++task.num_destinations;
    }
    return task;
  }

  MoverTask mover_task(const Instr& instr, MoverTable& table, LaneHazards& hazards) {
    MoverTask task{};
    task.tile = static_cast<uint32_t>(instr.tile);
    if (instr.op == Opcode::deliver) return task;
    const auto reads = plan_.reads(instr);
    const auto writes = plan_.writes(instr);
    task.rows = static_cast<uint32_t>(reads[0].rows());
    task.columns = static_cast<uint32_t>(reads[0].cols());
    task.from = mover_type(plan_.buffers[reads[0].buffer].dtype);
    task.to = mover_type(plan_.buffers[writes[0].buffer].dtype);
    task.num_sources = instr.num_reads;
    task.num_destinations = instr.num_writes;
    task.first_region = static_cast<uint32_t>(table.regions[0].size());
    task.drains = hazards.must_end_before(reads, writes) ? 1 : 0;
    bool vectors = task.columns % 8 == 0, contiguous = true;
    for (int set = 0; set < sets_; ++set) {
      const auto add = [&](const Region& region) {
        const Buffer& buffer = plan_.buffers[region.buffer];
        const uint64_t size = static_cast<uint64_t>(num_bytes(buffer.dtype));
        const uint64_t row_bytes = static_cast<uint64_t>(buffer.cols) * size;
        const uint64_t at = address(region, set) + static_cast<uint64_t>(region.row0) * row_bytes +
                            static_cast<uint64_t>(region.col0) * size;
        vectors = vectors && at % 16 == 0 && row_bytes % 16 == 0;
        contiguous = contiguous && region.cols() == buffer.cols;
        table.regions[static_cast<size_t>(set)].push_back({at, row_bytes});
      };
      for (const Region& region : reads) add(region);
      for (const Region& region : writes) add(region);
    }
    task.vectors = vectors ? 1 : 0;
    if (contiguous) {  // as one row
      task.columns *= task.rows;
      task.rows = 1;
    }
    return task;
  }

  const Plan& plan_;
  int rank_;
  const BufferPlaces& places_;
  const SignalLayout& signals_;
  int sets_;
  RankTables tables_;
  std::map<std::tuple<MapUse, uint16_t, uint16_t, int32_t, int>, size_t> map_ids_;
  std::vector<std::vector<device::TensorMap>> map_lists_;  // by set
};

}  // namespace

SignalLayout::SignalLayout(const Plan& plan) {
  for (const SignalArray& array : plan.signals) {
    first.push_back(num_signals);
    num_signals += static_cast<uint32_t>(array.count) * array.copies;
  }
  per_run.assign(static_cast<size_t>(plan.ranks()), std::vector<uint64_t>(num_signals, 0));
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::notify) continue;
      per_run[instr.rank][first[instr.signal.array] + static_cast<uint32_t>(instr.signal.index)] +=
          static_cast<uint64_t>(instr.amount);
    }
  }
}

std::string SignalLayout::name_of(const Plan& plan, uint32_t signal) const {
  for (size_t i = plan.signals.size(); i-- > 0;) {
    if (signal < first[i]) continue;
    const auto within = static_cast<int32_t>(signal - first[i]);
    return describe(plan, SignalRef{static_cast<uint16_t>(i), within % plan.signals[i].count});
  }
  return fmt::format("signal {}", signal);
}

int num_sets(const Plan& plan) {
  int sets = 1;
  for (const Buffer& buffer : plan.buffers) sets = std::lcm(sets, static_cast<int>(buffer.copies));
  return sets;
}

std::vector<std::string> why_not_on_cuda(const Plan& plan) {
  std::vector<std::string> reasons;
  const auto add = [&](std::string reason) {
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) {
      reasons.push_back(std::move(reason));
    }
  };
  if (plan.op.dtype == DType::fp32) add("the GEMM kernel multiplies bf16 and fp16, not fp32");
  if (!written_dtype(plan)) add("all tiles of a plan must be written in one type");
  for (const Lane& lane : plan.lanes) {
    if (lane.kind == LaneKind::copy || lane.kind == LaneKind::nccl) {
      add(fmt::format("lanes of kind {} are not run yet", to_string(lane.kind)));
    }
    bool pending_wait = false;
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::boundary) add("kernel boundaries are not run yet");
      if (instr.op == Opcode::wait) pending_wait = true;
      if (instr.is_task()) pending_wait = false;
      if (lane.kind == LaneKind::compute && instr.is_task() && instr.op != Opcode::gemm &&
          &instr < lane.instrs.data() + end_of_tiles(lane.instrs)) {
        add(fmt::format("a compute lane can {} only after its last tile", to_string(instr.op)));
      }
      if (instr.op != Opcode::gemm) continue;
      const auto reads = plan.reads(instr);
      if (reads.size() != 2) add("a tile's rows of A must lie in one region");
      if (reads.front().col0 % device::kTileK != 0) {
        add(fmt::format("a range of K must start at a multiple of {}", device::kTileK));
      }
    }
    if (pending_wait) add("a lane must not end with a wait");
  }
  return reasons;
}

GemmConfig config_for(const Plan& plan) {
  int rows = 0, columns = 0;
  bool parts = false;  // some tile is stored from a row on that is not its first
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::gemm) continue;
      const auto reads = plan.reads(instr);
      rows = std::max(rows, reads.front().rows());
      columns = std::max(columns, reads.back().rows());
      for (const Placed& placed : placed_writes(plan, instr)) parts = parts || placed.row > 0;
    }
  }
  // The smallest tile that holds the plan's; its stores end where the plan's regions end.
  GemmConfig config;
  config.shared = device::Shared::none;
  config.bf16 = plan.op.dtype == DType::bf16;
  config.output = output_type(written_dtype(plan).value_or(plan.op.dtype));
  constexpr int kRows[] = {64, 128, 256};
  constexpr int kColumns[] = {64, 96, 128, 160, 192, 224, 256};
  const auto tall =
      std::find_if(std::begin(kRows), std::end(kRows), [&](int x) { return x >= rows; });
  const auto wide = std::find_if(std::begin(kColumns), std::end(kColumns), [&](int x) {
    // Parts of a tile need stores of 128 bytes a row.
    return x >= columns && (!parts || x % 64 == 0);
  });
  if (tall == std::end(kRows) || wide == std::end(kColumns) || *tall * *wide > 128 * 256) {
    throw UsageError(
        fmt::format("no kernel has tiles of {}x{}: up to 128x256 and 256x128", rows, columns));
  }
  config.tile_m = *tall;
  config.tile_n = *wide;
  config.consumers = config.tile_m >= 128 ? 2 : 1;
  config.stages = 8;
  while (device::layout_of(config).shared_bytes > 227 * 1024) --config.stages;
  return config;
}

RankTables tables_for(const Plan& plan, int rank, const BufferPlaces& places,
                      const SignalLayout& signals) {
  return TableBuilder(plan, rank, places, signals).build();
}

}  // namespace stretto::cuda
