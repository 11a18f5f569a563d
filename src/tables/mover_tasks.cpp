#include "tables/mover_tasks.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/device_types.h"
#include "plan/tile_task.h"
#include "stretto/error.h"
#include "tasks/shapes.h"

namespace stretto::cuda {

using device::MoverTask;

static_assert(kMostBytesKept == device::kStageBytes);

bool LaneHazards::must_end_before(std::span<const Region> reads, std::span<const Region> writes) {
  const auto touches = [](std::span<const Region> some, const std::vector<Region>& earlier) {
    return std::any_of(some.begin(), some.end(), [&](const Region& a) {
      return std::any_of(earlier.begin(), earlier.end(),
                         [&](const Region& b) { return a.overlaps(b); });
    });
  };
  const bool ends = touches(reads, written_) || touches(writes, written_) || touches(writes, read_);
  if (ends) {
    read_.clear();
    written_.clear();
  }
  read_.insert(read_.end(), reads.begin(), reads.end());
  written_.insert(written_.end(), writes.begin(), writes.end());
  return ends;
}

namespace {

// Of all regions of a task, in all sets.
struct Alignment {
  bool vectors = true, contiguous = true;
};

void add_regions(const TableBasis& basis, std::span<const Region> regions, MoverTable& table,
                 Alignment& alignment) {
  for (int set = 0; set < basis.sets; ++set) {
    for (const Region& region : regions) {
      const Buffer& buffer = basis.plan.buffers[region.buffer];
      const uint64_t row_bytes = row_bytes_of(buffer);
      const DevicePtr at = basis.address(region, set) + offset_of(buffer, region.row0, region.col0);
      alignment.vectors = alignment.vectors && at % 16 == 0 && row_bytes % 16 == 0;
      alignment.contiguous = alignment.contiguous && region.cols() == buffer.cols;
      table.regions[static_cast<size_t>(set)].push_back({at, row_bytes});
    }
  }
}

void require_vectors(const Alignment& alignment, std::string_view what) {
  if (alignment.vectors) return;
  throw UsageError(
      fmt::format("a buffer whose rows are {} begins at an address, or has rows, of no multiple of "
                  "16 bytes; give tensors of multiples of 16",
                  what));
}

// Of a restore: which of its sources stand side by side.
void set_tiles(std::span<const Region> reads, int32_t columns, MoverTask& task) {
  task.more_tiles = static_cast<uint16_t>(tasks::tiles_beside(reads, columns) - 1);
  task.tile_columns = static_cast<uint16_t>(reads[0].cols());
}

}  // namespace

device::MoverMap mover_map_of(Opcode op) {
  const TaskKind* const kind = kind_of(op);
  STRETTO_ASSERT(kind != nullptr && (kind->kernels.by == KernelKind::elements || reads_tiles(op)),
                 "no kind of task that the mover kernel has");
  return kind->kernels.map;
}

MoverTask mover_task(const TableBasis& basis, const Instr& instr, MoverTable& table,
                     LaneHazards& hazards) {
  MoverTask task{};
  task.tile = static_cast<uint32_t>(instr.tile);
  if (instr.op == Opcode::deliver) return task;
  const auto reads = basis.plan.reads(instr);
  const auto writes = basis.plan.writes(instr);
  task.rows = static_cast<uint32_t>(reads[0].rows());
  const bool restores = reads_tiles(instr.op);
  task.columns = static_cast<uint32_t>((restores ? writes[0] : reads[0]).cols());
  task.from = device_type<device::MoverType>(basis.plan.buffers[reads[0].buffer].dtype);
  task.to = device_type<device::MoverType>(basis.plan.buffers[writes[0].buffer].dtype);
  // What is of 64 bits is moved as twice as many words.
  if (basis.plan.buffers[reads[0].buffer].dtype == DType::i64) task.columns *= 2;
  task.map = mover_map_of(instr.op);
  task.num_sources = instr.num_reads;
  task.num_destinations = instr.num_writes;
  task.first_region = static_cast<uint32_t>(table.regions[0].size());
  task.drains = hazards.must_end_before(reads, writes) ? 1 : 0;
  Alignment alignment;
  add_regions(basis, reads, table, alignment);
  if (instr.kind()->num_others != 0) {  // a sum with the same row again and again
    for (auto& regions : table.regions) regions.back().row_bytes = 0;
    alignment.contiguous = false;
  }
  add_regions(basis, writes, table, alignment);
  if (restores) {
    set_tiles(reads, writes[0].cols(), task);
    require_vectors(alignment, "restored");
    alignment.contiguous = false;
  }
  const bool maps = task.map != device::MoverMap::none;
  table.norms = table.norms || maps || restores;
  task.vectors = static_cast<uint8_t>(task.columns % 8 == 0 && alignment.vectors ? 1 + maps : 0);
  // Beside routed rows the ring is for copies alone.
  if (basis.routes() && task.from != task.to) task.vectors = 0;
  if (basis.serves) {
    task.rows_from = basis.mover_rows(instr);
    if (alignment.contiguous) task.rows_from.flags |= device::kRowsAreSolid;
  } else if (alignment.contiguous) {  // as one row
    task.columns *= task.rows;
    task.rows = 1;
  }
  return task;
}

MoverTask norm_task(const TableBasis& basis, const NormedRows& rows, MoverTable& table,
                    LaneHazards& hazards) {
  const Plan& plan = basis.plan;
  const auto normed = plan.reads(*rows.norm), results = plan.writes(*rows.norm);
  const auto sources = rows.sum != nullptr ? plan.reads(*rows.sum) : normed.first(1);
  const auto sums = rows.sum != nullptr ? plan.writes(*rows.sum) : std::span<const Region>();
  const auto weights = normed.subspan(1, 1);
  std::vector<Region> read(sources.begin(), sources.end()), written(sums.begin(), sums.end());
  read.push_back(weights[0]);
  written.insert(written.end(), results.begin(), results.end());

  const auto type_of = [&](const Region& region) {
    return device_type<device::MoverType>(plan.buffers[region.buffer].dtype);
  };
  MoverTask task{};
  task.tile = static_cast<uint32_t>(rows.norm->tile);
  task.rows = static_cast<uint32_t>(sources[0].rows());
  task.columns = static_cast<uint32_t>(normed[0].cols());
  task.from = type_of(sources[0]);
  task.to = type_of(results[0]);
  task.weights = type_of(weights[0]);
  task.num_sources = static_cast<uint16_t>(sources.size());
  if (rows.sum != nullptr && reads_tiles(rows.sum->op)) {
    set_tiles(sources, normed[0].cols(), task);
  }
  task.num_destinations = static_cast<uint16_t>(written.size());
  task.num_normed = static_cast<uint16_t>(results.size());
  task.epsilon = rows.epsilon;
  task.first_region = static_cast<uint32_t>(table.regions[0].size());
  task.drains = hazards.must_end_before(read, written) ? 1 : 0;
  task.vectors = 1;
  task.rows_from = basis.mover_rows(*rows.norm);
  Alignment alignment;
  add_regions(basis, sources, table, alignment);
  add_regions(basis, written, table, alignment);
  add_regions(basis, weights, table, alignment);
  require_vectors(alignment, "normed");
  table.norms = true;
  return task;
}

}  // namespace stretto::cuda
