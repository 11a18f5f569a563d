#include "tables/gemm_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/ceil_div.h"
#include "stretto/error.h"
#include "tables/flat_lists.h"

namespace stretto::cuda {

using device::GemmConfig;
using device::GemmTask;
using device::Shared;

std::vector<device::GemmEntry> all_entries(const GemmTable& table) {
  std::vector<device::GemmEntry> entries;
  for (const auto& set : table.entries) flatten(set, entries);
  return entries;
}

DeviceGemmTable::DeviceGemmTable(const GemmTable& table, const device::SignalSpace& signals,
                                 bool marks)
    : num_blocks_(static_cast<int>(table.blocks.size())) {
  std::vector<GemmTask> tasks;
  std::vector<device::GemmSplit> splits;
  std::vector<device::WaitEntry> waits = table.waits;
  const std::vector<uint32_t> first_task = flatten(table.blocks, tasks);
  const std::vector<uint32_t> first_end_wait = flatten(table.end_waits, waits);
  flatten(table.splits, splits);
  std::vector<device::GemmFollow> follows;
  flatten(table.follows, follows);
  std::vector<device::GemmSource> sources;
  flatten(table.sources, sources);
  STRETTO_ASSERT(sources.empty() || sources.size() == tasks.size(),
                 "every task or none has sources");
  STRETTO_ASSERT(table.end_waits.empty() || table.end_waits.size() == table.blocks.size(),
                 "every block or none waits at its end");
  STRETTO_ASSERT(splits.size() % std::max<size_t>(tasks.size(), 1) == 0,
                 "every task or none is split");
  STRETTO_ASSERT(follows.empty() || follows.size() == tasks.size(),
                 "every task or none is followed");
  const std::vector<device::GemmEntry> entries = all_entries(table);
  STRETTO_ASSERT(entries.empty() || entries.size() == tasks.size() * table.map_sets,
                 "every task or none is of an entry, in every set");
  if (marks) marks_ = MarkWords(table.blocks.size(), tasks.size());
  maps_ = upload(table.maps);
  acquired_ = upload(std::vector<uint32_t>(device::kMostSms));
  first_task_ = upload(first_task);
  tasks_ = upload(tasks);
  waits_ = upload(waits);
  first_end_wait_ = upload(first_end_wait);
  notifies_ = upload(table.notifies);
  destinations_ = upload(table.destinations);
  splits_ = upload(splits);
  follows_ = upload(follows);
  entries_ = upload(entries);
  sources_ = upload(sources);
  params_ = {maps_.as<device::TensorMap>(),
             first_task_.as<uint32_t>(),
             tasks_.as<GemmTask>(),
             waits_.as<device::WaitEntry>(),
             notifies_.as<device::NotifyEntry>(),
             destinations_.as<device::GemmDestination>(),
             signals,
             static_cast<uint32_t>(table.maps.size()) / table.map_sets,
             table.map_sets,
             table.rows,
             splits_.as<device::GemmSplit>(),
             table.end_waits.empty() ? nullptr : first_end_wait_.as<uint32_t>(),
             marks_.view(),
             acquired_.as<uint32_t>(),
             follows_.as<device::GemmFollow>(),
             entries_.as<device::GemmEntry>(),
             tasks.size(),
             sources_.as<device::GemmSource>()};
}

namespace {

// Of the tile whose stored columns begin with `column` of `columns`.
device::GemmFollow follow_of(const FollowerTensors& follower, const GemmConfig& config,
                             int64_t column, int64_t columns) {
  device::GemmFollow follow{};
  follow.b_row = static_cast<int32_t>(column);
  follow.b_map = 3;
  const int64_t stored = device::layout_of(config).stored_columns;
  follow.bias_columns = static_cast<uint16_t>(std::clamp<int64_t>(columns - column, 0, stored));
  for (size_t half = 0; half < 2; ++half) {
    const DevicePtr bias = follower.bias[half];
    if (bias != 0 && follow.bias_columns != 0) {
      follow.bias[half] = bias + static_cast<DevicePtr>(column) * 2;
    }
  }
  return follow;
}

}  // namespace

GemmTable dense_table(const Matrix& a, const Matrix& b, const Matrix& c, const GemmConfig& config,
                      int blocks, int band, const FollowerTensors& follower) {
  if (a.columns != b.columns || a.rows != c.rows || b.rows != c.columns) {
    throw UsageError(fmt::format("C[{}, {}] is not A[{}, {}] * B[{}, {}]^T", c.rows, c.columns,
                                 a.rows, a.columns, b.rows, b.columns));
  }
  const device::GemmLayout layout = device::layout_of(config);
  const int cluster = layout.cluster;
  const bool follows = config.follower != device::Follower::none || config.bias;
  if (config.bias && c.columns % 2 != 0) {
    throw UsageError(fmt::format("a row of bias has an even number of columns, not {}", c.columns));
  }
  if (layout.halves == 2 &&
      (follower.other_b.rows != b.rows || follower.other_b.columns != b.columns)) {
    throw UsageError(fmt::format("the second product's B[{}, {}] is not like the first one's",
                                 follower.other_b.rows, follower.other_b.columns));
  }
  if (blocks < cluster || band < 1) {
    throw UsageError(fmt::format("{} blocks in bands of {} rows: at least {} and 1 are needed",
                                 blocks, band, cluster));
  }
  const int64_t num_k = ceil_div(a.columns, device::kTileK);
  if (num_k > UINT16_MAX) throw UsageError(fmt::format("K = {} is too large", a.columns));

  GemmTable table;
  table.maps = {map_for_a(a, config), map_for_b(b, config), map_for_store(c, config)};
  if (layout.halves == 2) table.maps.push_back(map_for_b(follower.other_b, config));

  // The blocks of a cluster take neighbours: below one another they share B, beside one another A.
  // A pair that hangs over the edge works on rows or columns that no map stores.
  const int tall = config.shared == Shared::b ? 2 : 1, wide = config.shared == Shared::a ? 2 : 1;
  const int64_t rows = ceil_div(c.rows, int64_t{config.tile_m} * tall);
  const int64_t columns = ceil_div(c.columns, int64_t{layout.stored_columns} * wide);
  const int64_t pairs = rows * columns;
  const int64_t lanes = std::min<int64_t>(blocks / cluster, pairs);
  table.blocks.resize(static_cast<size_t>(lanes * cluster));
  if (follows) table.follows.resize(table.blocks.size());
  int64_t next = 0;
  for (int64_t first = 0; first < rows; first += band) {
    const int64_t height = std::min<int64_t>(band, rows - first);
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t row = first; row < first + height; ++row, ++next) {
        for (int member = 0; member < cluster; ++member) {
          GemmTask task{};
          task.a_row =
              static_cast<int32_t>((row * tall + (tall == 2 ? member : 0)) * config.tile_m);
          task.b_row = static_cast<int32_t>((column * wide + (wide == 2 ? member : 0)) *
                                            layout.stored_columns);
          task.b_map = 1;
          task.num_k = static_cast<uint16_t>(num_k);
          task.first_destination = static_cast<uint32_t>(table.destinations.size());
          task.num_destinations = 1;
          task.tile = static_cast<uint32_t>(next * cluster + member);
          table.destinations.push_back(
              {task.a_row, task.b_row, 0, static_cast<uint16_t>(config.tile_m), 2, 0});
          const auto block = static_cast<size_t>(next % lanes * cluster + member);
          table.blocks[block].push_back(task);
          if (follows) {
            table.follows[block].push_back(follow_of(follower, config, task.b_row, c.columns));
          }
        }
      }
    }
  }
  return table;
}

}  // namespace stretto::cuda
