#include "tables/mover_table.h"

#include "tables/flat_lists.h"

namespace stretto::cuda {
namespace {

// As PassParams::regions_of_task.
device::uint32 regions_of_each(const MoverTable& table) {
  const size_t blocks = table.blocks.size(), regions = table.regions[0].size();
  if (blocks == 0 || regions % blocks != 0) return 0;
  const size_t each = regions / blocks;
  if (each > device::kPassRegions) return 0;
  for (size_t b = 0; b < blocks; ++b) {
    if (table.blocks[b].size() != 1) return 0;
    const device::MoverTask& task = table.blocks[b].front();
    if (task.first_region != b * each) return 0;
    if (!table.routed.empty() && task.routed != b + 1) return 0;
  }
  return static_cast<device::uint32>(each);
}

}  // namespace

DeviceMoverTable::DeviceMoverTable(const MoverTable& table, const device::SignalSpace& signals,
                                   bool marks, device::uint64* bad_ids)
    : num_blocks_(static_cast<int>(table.blocks.size())),
      passes_(table.passes),
      slices_(table.slices),
      shared_by_(table.shared_by),
      cluster_(table.cluster),
      regions_of_task_(regions_of_each(table)),
      awaits_(!table.waits.empty()) {
  std::vector<device::MoverTask> all_tasks;
  std::vector<device::MoverRegion> all_regions;
  first_task_ = upload(flatten(table.blocks, all_tasks));
  flatten(table.regions, all_regions);
  if (marks) marks_ = MarkWords(table.blocks.size(), all_tasks.size());
  tasks_ = upload(all_tasks);
  waits_ = upload(table.waits);
  notifies_ = upload(table.notifies);
  regions_ = upload(all_regions);
  routed_ = upload(table.routed);
  params_ = {first_task_.as<uint32_t>(),
             tasks_.as<device::MoverTask>(),
             waits_.as<device::WaitEntry>(),
             notifies_.as<device::NotifyEntry>(),
             regions_.as<device::MoverRegion>(),
             signals,
             static_cast<uint32_t>(table.regions[0].size()),
             static_cast<uint32_t>(table.regions.size()),
             table.rows,
             marks_.view(),
             routed_.as<device::RoutedTask>(),
             bad_ids};
}

}  // namespace stretto::cuda
