#include "tables/mover_tasks.h"

#include <algorithm>

#include "gpu/device_types.h"

namespace stretto::cuda {

using device::MoverTask;

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

MoverTask mover_task(const TableBasis& basis, const Instr& instr, MoverTable& table,
                     LaneHazards& hazards) {
  MoverTask task{};
  task.tile = static_cast<uint32_t>(instr.tile);
  if (instr.op == Opcode::deliver) return task;
  const auto reads = basis.plan.reads(instr);
  const auto writes = basis.plan.writes(instr);
  task.rows = static_cast<uint32_t>(reads[0].rows());
  task.columns = static_cast<uint32_t>(reads[0].cols());
  task.from = device_type<device::MoverType>(basis.plan.buffers[reads[0].buffer].dtype);
  task.to = device_type<device::MoverType>(basis.plan.buffers[writes[0].buffer].dtype);
  task.num_sources = instr.num_reads;
  task.num_destinations = instr.num_writes;
  task.first_region = static_cast<uint32_t>(table.regions[0].size());
  task.drains = hazards.must_end_before(reads, writes) ? 1 : 0;
  bool vectors = task.columns % 8 == 0, contiguous = true;
  for (int set = 0; set < basis.sets; ++set) {
    const auto add = [&](const Region& region) {
      const Buffer& buffer = basis.plan.buffers[region.buffer];
      const uint64_t row_bytes = row_bytes_of(buffer);
      const DevicePtr at = basis.address(region, set) + offset_of(buffer, region.row0, region.col0);
      vectors = vectors && at % 16 == 0 && row_bytes % 16 == 0;
      contiguous = contiguous && region.cols() == buffer.cols;
      table.regions[static_cast<size_t>(set)].push_back({at, row_bytes});
    };
    for (const Region& region : reads) add(region);
    for (const Region& region : writes) add(region);
  }
  task.vectors = vectors ? 1 : 0;
  if (basis.serves) {
    task.rows_from = basis.task_rows(instr);
    if (contiguous) task.rows_from.flags = device::kRowsAreSolid;
  } else if (contiguous) {  // as one row
    task.columns *= task.rows;
    task.rows = 1;
  }
  return task;
}

}  // namespace stretto::cuda
