#include "tables/mover_table.h"

#include "tables/flat_lists.h"

namespace stretto::cuda {

DeviceMoverTable::DeviceMoverTable(const MoverTable& table, const device::SignalSpace& signals,
                                   bool marks, device::uint64* bad_ids)
    : num_blocks_(static_cast<int>(table.blocks.size())) {
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
