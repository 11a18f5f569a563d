#include "tables/shared_pass.h"

#include <algorithm>
#include <cstring>

#include "core/ceil_div.h"
#include "stretto/device/pass_elements.h"

namespace stretto::cuda {
namespace {

using device::MoverRegion;
using device::MoverTask;
using device::RoutedKind;
using device::RoutedTask;

// A task with its regions of each set: CHOICES, X and destinations.
struct MovedRows {
  MoverTask task;
  RoutedTask routed;
  std::vector<std::vector<MoverRegion>> regions;
};

bool follows(const MoverRegion& first, const MoverRegion& next, uint64_t rows) {
  return next.row_bytes == first.row_bytes &&
         next.address == first.address + rows * first.row_bytes;
}

// Whether `next` has the rows behind those of `first`, and does the same with them.
bool goes_on(const MovedRows& first, const MovedRows& next) {
  const MoverTask &a = first.task, &b = next.task;
  const bool alike = a.columns == b.columns && a.from == b.from && a.to == b.to &&
                     a.num_sources == b.num_sources && a.num_destinations == b.num_destinations &&
                     std::memcmp(&first.routed, &next.routed, sizeof(RoutedTask)) == 0 &&
                     uint64_t{a.rows} + b.rows <= INT32_MAX;
  if (!alike) return false;
  const uint64_t rows_of_result = first.routed.own_experts != 0 ? 0 : a.rows;  // by choice
  for (size_t set = 0; set < first.regions.size(); ++set) {
    for (size_t i = 0; i < first.regions[set].size(); ++i) {
      const uint64_t rows = i == 0 ? a.rows : i < a.num_sources ? 0 : rows_of_result;
      if (!follows(first.regions[set][i], next.regions[set][i], rows)) return false;
    }
  }
  return true;
}

bool only_moves_rows(const MoverTable& table) {
  return std::all_of(table.blocks.begin(), table.blocks.end(), [&](const auto& tasks) {
    return std::all_of(tasks.begin(), tasks.end(), [&](const MoverTask& task) {
      return task.routed != 0 && table.routed[task.routed - 1].kind == RoutedKind::permute;
    });
  });
}

std::vector<MovedRows> rows_of(const MoverTable& table) {
  std::vector<MovedRows> all;
  for (const std::vector<MoverTask>& tasks : table.blocks) {
    for (const MoverTask& task : tasks) {
      MovedRows& one = all.emplace_back(MovedRows{task, table.routed[task.routed - 1], {}});
      for (const std::vector<MoverRegion>& set : table.regions) {
        const auto first = set.begin() + task.first_region;
        one.regions.emplace_back(first, first + task.num_sources + task.num_destinations);
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const MovedRows& a, const MovedRows& b) {
    return a.regions[0][0].address < b.regions[0][0].address;
  });
  return all;
}

// What one block of a pass takes in a step: a row to norm, or an eight of each thread.
uint64_t steps_of(const MoverTask& task) {
  if (task.num_normed != 0) return task.rows;
  return ceil_div(uint64_t{task.rows} * task.columns, uint64_t{device::kPassThreads} * 8);
}

}  // namespace

void share_rows(MoverTable& table) {
  if (!table.passes || table.rows.block != 0 || !only_moves_rows(table)) return;
  std::vector<MovedRows> joined;
  for (MovedRows& one : rows_of(table)) {
    if (!joined.empty() && goes_on(joined.back(), one)) {
      joined.back().task.rows += one.task.rows;
    } else {
      joined.push_back(std::move(one));
    }
  }
  table.shared_by = static_cast<int>(table.blocks.size());
  table.blocks.assign(1, {});
  table.routed.clear();
  for (std::vector<MoverRegion>& set : table.regions) set.clear();
  for (MovedRows& one : joined) {
    one.task.first_region = static_cast<uint32_t>(table.regions[0].size());
    table.routed.push_back(one.routed);
    one.task.routed = static_cast<uint32_t>(table.routed.size());
    for (size_t set = 0; set < one.regions.size(); ++set) {
      table.regions[set].insert(table.regions[set].end(), one.regions[set].begin(),
                                one.regions[set].end());
    }
    table.blocks[0].push_back(one.task);
  }
}

void cut_tasks(MoverTable& table, int sms) {
  if (!table.passes || !table.routed.empty() || table.blocks.empty()) return;
  uint64_t most = 1;
  for (const std::vector<MoverTask>& tasks : table.blocks) {
    for (const MoverTask& task : tasks) most = std::max(most, steps_of(task));
  }
  const size_t at_once = static_cast<size_t>(sms) * device::kPassBlocksOfSm;
  table.slices = static_cast<int>(
      std::clamp<uint64_t>(at_once / table.blocks.size(), 1, std::min<uint64_t>(most, INT16_MAX)));
}

}  // namespace stretto::cuda
