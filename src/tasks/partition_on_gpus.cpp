#include "tasks/partition_on_gpus.h"

#include <fmt/format.h>

#include <algorithm>

#include "stretto/device/routed_tables.h"

namespace stretto::tasks {

void describe_partition(const RoutedFields& fields, int32_t counts) {
  const int32_t own = counts - 1;
  const Region& ids = fields.of.reads[0];
  fields.task.rows = rows_of(ids);
  fields.routed.top_k = cols_of(ids);
  describe_own_experts(fields, fields.rank);
  fields.routed.own_experts = static_cast<uint32_t>(own);
  if (own == fields.shares.all) fields.routed.first_expert = 0;
  fields.routed.workers = device::partition_workers(own);
}

void describe_entries(const RoutedFields& fields) {
  fields.routed.table_rows = rows_of(fields.of.writes[0]);
  fields.routed.entries = rows_of(fields.of.writes[1]);
}

std::string why_no_partition(std::span<const InBuffer> ids, std::span<const InBuffer> tables,
                             int32_t counts) {
  const auto are_solid = [](std::span<const InBuffer> all) {
    return std::all_of(all.begin(), all.end(),
                       [](const InBuffer& one) { return one.is_whole_rows; });
  };
  if (!are_solid(ids) || !are_solid(tables)) {
    return "GPUs make partitions in tables that are columns, of all ids of a token";
  }
  const int32_t own = counts - 1;
  if (device::partition_workers(own) != 0) return "";
  return fmt::format(
      "GPUs have no room to count the choices of {} experts: deal them to more ranks", own);
}

}  // namespace stretto::tasks
