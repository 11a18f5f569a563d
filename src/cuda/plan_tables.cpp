#include "cuda/plan_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "cuda/tile_sums.h"
#include "stretto/error.h"
#include "stretto/serve.h"

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

// Collects the waits before a task and the notifies after it.
template <typename Table>
class SyncCollector {
 public:
  SyncCollector(const Plan& plan, const SignalLayout& signals, int rank, Table& table)
      : plan_(plan), signals_(signals), rank_(rank), table_(table) {}

  void add_wait(const Instr& instr) {
    table_.waits.push_back(signals_.wait_entry(plan_, rank_, instr));
  }
  void add_notify(const Instr& instr) {
    table_.notifies.push_back(signals_.notify_entry(plan_, instr));
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
  // Those that have come since, as what the task awaits once its tile is computed.
  void claim_late_waits(GemmTask& task) {
    const auto count = static_cast<uint32_t>(table_.waits.size()) - first_wait_;
    task.num_late_waits = static_cast<uint8_t>(count);
    STRETTO_ASSERT(task.num_late_waits == count, "a task has too many waits");
    first_wait_ = static_cast<uint32_t>(table_.waits.size());
  }
  bool has_unclaimed_waits() const { return first_wait_ != table_.waits.size(); }

 private:
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

// Rows [first, last) of a tile that lie in one region of A.
struct RowPart {
  int32_t first, last;
  const Region* a;
};

std::vector<RowPart> row_parts(const Plan& plan, const Instr& instr) {
  const auto reads = plan.reads(instr);
  std::vector<RowPart> parts;
  int32_t row = 0;
  for (const Region& a : reads.first(reads.size() - 1)) {
    parts.push_back({row, row + a.rows(), &a});
    row += a.rows();
  }
  return parts;
}

class TableBuilder {
 public:
  TableBuilder(const Plan& plan, int rank, const BufferPlaces& places, const SignalLayout& signals,
               bool serves)
      : plan_(plan),
        rank_(rank),
        places_(places),
        signals_(signals),
        serves_(serves),
        sums_(plan),
        sets_(num_sets(plan)) {
    tables_.config = config_for(plan, serves);
    if (!serves) return;
    const RowShards owners = row_owners(plan.op);
    rows_ = {nullptr, static_cast<int32_t>(plan.op.m), owners.ranks,
             static_cast<int32_t>(owners.block()), 0};
  }

  RankTables build(const RankProgram& program) && {
    for (const std::vector<BlockPart>& parts : program.gemms) {
      GemmLaunch& launch = tables_.gemms.emplace_back();
      launch.table.map_sets = static_cast<uint32_t>(sets_);
      launch.table.rows = rows_;
      map_ids_.clear();
      map_lists_.assign(static_cast<size_t>(sets_), {});
      source_lists_.assign(static_cast<size_t>(sets_), {});
      SyncCollector sync(plan_, signals_, rank_, launch.table);
      for (const BlockPart& part : parts) {
        launch.lanes.push_back(part.lane);
        add_part(part, launch.table.blocks.emplace_back(), sync,
                 [&](const Instr& instr, const Instr* sum, auto& tasks) {
                   add_gemm(instr, sum, launch.table, tasks);
                 });
      }
      for (const auto& list : map_lists_) {
        launch.maps.insert(launch.maps.end(), list.begin(), list.end());
      }
      for (const auto& list : source_lists_) {
        launch.table.sources.insert(launch.table.sources.end(), list.begin(), list.end());
      }
    }
    for (const std::vector<BlockPart>& parts : program.moves) {
      MoverTable& table = tables_.moves.emplace_back();
      table.regions.resize(static_cast<size_t>(sets_));
      table.rows = rows_;
      SyncCollector sync(plan_, signals_, rank_, table);
      for (const BlockPart& part : parts) {
        table.lanes.push_back(part.lane);
        LaneHazards hazards;
        add_part(part, table.blocks.emplace_back(), sync,
                 [&](const Instr& instr, const Instr*, auto& tasks) {
                   tasks.push_back(mover_task(instr, table, hazards));
                 });
      }
    }
    return std::move(tables_);
  }

 private:
  // `add` appends the tasks of an instruction and of the reduce that goes with it, if any, at least
  // one: the first awaits, the last notifies.
  template <typename Task, typename Sync, typename Add>
  void add_part(const BlockPart& part, std::vector<Task>& tasks, Sync& sync, Add add) {
    const Lane& lane = plan_.lanes[part.lane];
    for (uint32_t at = part.begin; at < part.end; ++at) {
      const Instr& instr = lane.instrs[at];
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
        const size_t first = tasks.size();
        const TileSum sum = instr.op == Opcode::gemm ? sums_.of(part.lane, at) : TileSum{};
        add(instr, sum ? &lane.instrs[sum.position] : nullptr, tasks);
        sync.claim_waits(tasks[first]);
        tasks.back().first_notify = tasks[first].first_notify;
        if constexpr (std::is_same_v<Task, GemmTask>) {
          if (!sum) continue;
          while (++at < sum.position) sync.add_wait(lane.instrs[at]);
          sync.claim_late_waits(tasks.back());
          add_sources(lane.instrs[at], sum, tasks.back());
        }
      }
    }
    if (!sync.has_unclaimed_waits()) return;
    // A comm lane that ends with waits.
    if constexpr (std::is_same_v<Task, MoverTask>) {
      tasks.push_back(MoverTask{});
      sync.claim_waits(tasks.back());
    }
  }

  // Where runs may have fewer rows: which ones a task works on.
  device::TaskRows task_rows(const Instr& instr) const {
    if (!serves_) return {};
    const std::optional<TaskRows> rows = rows_of(plan_, instr);
    STRETTO_ASSERT(rows.has_value(), "tasks of a plan that serves have rows of one owner");
    return {rows->first, static_cast<device::uint16>(rows->owner), 0};
  }

  DevicePtr address(const Region& region, int set) const {
    const auto& copies = places_[region.rank][region.buffer];
    return copies[static_cast<size_t>(set) % copies.size()];
  }

  // A map of the first `columns` columns of a buffer; of `box_rows` rows at once when it stores.
  uint16_t map_of(MapSpec::Use use, const Region& region, int32_t columns, int box_rows = 0) {
    const auto key = std::tuple(use, region.buffer, region.rank, columns, box_rows);
    const auto [found, is_new] = map_ids_.try_emplace(key, map_lists_[0].size());
    if (is_new) {
      STRETTO_ASSERT(map_lists_[0].size() < UINT16_MAX, "a kernel has too many tensor maps");
      const Buffer& buffer = plan_.buffers[region.buffer];
      for (int set = 0; set < sets_; ++set) {
        Matrix matrix;
        matrix.address = address(region, set);
        matrix.rows = buffer.rows_on(region.rank);
        matrix.columns = columns;
        matrix.stride = buffer.cols;
        matrix.dtype = buffer.dtype;
        map_lists_[static_cast<size_t>(set)].push_back({use, matrix, box_rows});
      }
    }
    return static_cast<uint16_t>(found->second);
  }

  // `part` is the rows of the tile that its task computes.
  device::GemmDestination destination(const Placed& placed, const RowPart& part) {
    const Region& to = placed.region;
    const Buffer& buffer = plan_.buffers[to.buffer];
    const int32_t to_end = placed.row + to.rows();
    // A region that does not take the tile's full width gets maps that end where it ends; one that
    // ends with its buffer ends with the maps.
    const int32_t columns = to.cols() < tables_.config.tile_n ? to.col1 : buffer.cols;
    const bool ends_with_maps = to.row1 == buffer.rows_on(to.rank) && to_end <= part.last;
    const int32_t begin = std::max(placed.row, part.first) - part.first;
    const int32_t end =
        ends_with_maps ? tables_.config.tile_m : std::min(to_end, part.last) - part.first;
    device::GemmDestination entry{};
    entry.row = to.row0 - placed.row + part.first;
    entry.column = to.col0;
    entry.begin = static_cast<uint16_t>(begin);
    entry.end = static_cast<uint16_t>(end);
    entry.map = map_of(MapSpec::Use::store, to, columns, device::kChunkRows);
    if (serves_ || begin % device::kChunkRows != 0 || end % device::kChunkRows != 0) {
      entry.part_maps = map_of(MapSpec::Use::store, to, columns, device::kChunkRows / 2);
      for (int rows = device::kChunkRows / 4; rows > 0; rows /= 2) {
        map_of(MapSpec::Use::store, to, columns, rows);
      }
    }
    return entry;
  }

  // A tile whose rows of A lie in several regions is computed once for each of them. One with a sum
  // goes where the sum goes.
  void add_gemm(const Instr& instr, const Instr* sum, GemmTable& table,
                std::vector<GemmTask>& tasks) {
    const Region& b = plan_.reads(instr).back();
    for (const RowPart& part : row_parts(plan_, instr)) {
      const Region& a = *part.a;
      GemmTask task{};
      task.tile = static_cast<uint32_t>(instr.tile);
      task.rows = task_rows(instr);
      if (is_compact(plan_, a.buffer)) task.rows.flags |= device::kInputIsCompact;
      if (is_compact(plan_, plan_.writes(sum == nullptr ? instr : *sum)[0].buffer)) {
        task.rows.flags |= device::kOutputIsCompact;
      }
      task.a_map = map_of(MapSpec::Use::a, a, a.col1);
      task.b_map = map_of(MapSpec::Use::b, b, b.col1);
      task.a_row = a.row0;
      task.b_row = b.row0;
      task.first_k = static_cast<uint16_t>(a.col0 / device::kTileK);
      task.num_k = static_cast<uint16_t>((a.cols() + device::kTileK - 1) / device::kTileK);
      task.first_destination = static_cast<uint32_t>(table.destinations.size());
      for (const Placed& placed : placed_writes(plan_, sum == nullptr ? instr : *sum)) {
        if (placed.row >= part.last || placed.row + placed.region.rows() <= part.first) continue;
        table.destinations.push_back(destination(placed, part));
        ++task.num_destinations;
      }
      tasks.push_back(task);
    }
  }

  void add_sources(const Instr& reduce, const TileSum& sum, GemmTask& task) {
    const Region& first = plan_.reads(reduce)[0];
    const Buffer& buffer = plan_.buffers[first.buffer];
    const auto size = static_cast<uint32_t>(num_bytes(buffer.dtype));
    const uint32_t row_bytes = static_cast<uint32_t>(buffer.cols) * size;
    task.add_rows = static_cast<uint16_t>(first.rows());
    task.add_columns = static_cast<uint16_t>(first.cols());
    task.add_row_bytes = row_bytes;
    task.source_step =
        static_cast<uint32_t>(uint64_t{row_bytes} * static_cast<uint32_t>(sum.step_rows) / 16);
    task.own_at = sum.own_at;
    task.source = static_cast<uint32_t>(source_lists_[0].size());
    for (int set = 0; set < sets_; ++set) {
      source_lists_[static_cast<size_t>(set)].push_back(
          address(first, set) + static_cast<uint64_t>(first.row0) * row_bytes +
          static_cast<uint64_t>(first.col0) * size);
    }
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
    if (serves_) {
      task.rows_from = task_rows(instr);
      if (contiguous) task.rows_from.flags = device::kRowsAreSolid;
    } else if (contiguous) {  // as one row
      task.columns *= task.rows;
      task.rows = 1;
    }
    return task;
  }

  const Plan& plan_;
  int rank_;
  const BufferPlaces& places_;
  const SignalLayout& signals_;
  bool serves_;
  TileSums sums_;
  int sets_;
  device::RowsOfRun rows_{};
  RankTables tables_;
  // Of the launch that is being built.
  std::map<std::tuple<MapSpec::Use, uint16_t, uint16_t, int32_t, int>, size_t> map_ids_;
  std::vector<std::vector<MapSpec>> map_lists_;      // by set
  std::vector<std::vector<uint64_t>> source_lists_;  // by set
};

}  // namespace

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
  const TileSums sums(plan);
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    if (lane.kind != LaneKind::compute && lane.kind != LaneKind::comm) continue;
    // Between two boundaries:
    bool waited = false, worked = false, moved = false, told_early = false;
    uint32_t summed = 0;  // the reduce that the last tile's task makes
    for (uint32_t at = 0; at < lane.instrs.size(); ++at) {
      const Instr& instr = lane.instrs[at];
      if (instr.op == Opcode::boundary) waited = worked = moved = told_early = false;
      waited = waited || instr.op == Opcode::wait;
      told_early = told_early || (instr.op == Opcode::notify && waited && !worked);
      worked = worked || instr.is_task();
      moved = moved || (instr.op == Opcode::reduce && at != summed) || instr.op == Opcode::copy;
      if (instr.op != Opcode::gemm) continue;
      if (const TileSum sum = sums.of(l, at)) {
        summed = sum.position;
        if (lane.instrs[summed].num_reads != sums.sources() + 1) {
          add("all tiles must be added to equally many sums of others");
        }
      }
      if (moved) add("between boundaries a compute lane moves data only after its last tile");
      if (told_early) add("a compute lane notifies at a boundary or after a task");
      if (plan.reads(instr).front().col0 % device::kTileK != 0) {
        add(fmt::format("a range of K must start at a multiple of {}", device::kTileK));
      }
    }
  }
  return reasons;
}

GemmConfig config_for(const Plan& plan, bool serves) {
  int rows = 0, columns = 0;
  bool parts = false;  // some tile is stored from a row on that is not its first
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::gemm) continue;
      const std::vector<RowPart> tile = row_parts(plan, instr);
      rows = std::max(rows, tile.back().last);
      columns = std::max(columns, plan.reads(instr).back().rows());
      for (const Placed& placed : placed_writes(plan, instr)) {
        for (const RowPart& part : tile) {
          parts = parts || (placed.row > part.first && placed.row < part.last);
        }
      }
    }
  }
  // Parts of a tile need stores of 128 bytes a row.
  if (parts || serves) columns = (columns + 63) / 64 * 64;
  GemmConfig config =
      config_of(plan.op.dtype, written_dtype(plan).value_or(plan.op.dtype), rows, columns);
  config.serves = serves;
  config.adds = TileSums(plan).sources();
  return config;
}

GemmConfig config_of(DType input, DType output, int rows, int columns) {
  // Stores end where the plan's regions end.
  GemmConfig config;
  config.shared = device::Shared::none;
  config.bf16 = input == DType::bf16;
  config.output = output_type(output);
  constexpr int kRows[] = {64, 128, 256};
  constexpr int kColumns[] = {64, 96, 128, 160, 192, 224, 256};
  const auto tall =
      std::find_if(std::begin(kRows), std::end(kRows), [&](int x) { return x >= rows; });
  const auto wide =
      std::find_if(std::begin(kColumns), std::end(kColumns), [&](int x) { return x >= columns; });
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

RankTables tables_for(const Plan& plan, int rank, const RankProgram& program,
                      const BufferPlaces& places, const SignalLayout& signals, bool serves) {
  return TableBuilder(plan, rank, places, signals, serves).build(program);
}

void encode_maps(GemmLaunch& launch, const GemmConfig& config) {
  launch.table.maps.clear();
  for (const MapSpec& spec : launch.maps) {
    launch.table.maps.push_back(spec.use == MapSpec::Use::a ? map_for_a(spec.matrix, config)
                                : spec.use == MapSpec::Use::b
                                    ? map_for_b(spec.matrix, config)
                                    : map_for_store(spec.matrix, config, spec.box_rows));
  }
}

}  // namespace stretto::cuda
