// What mover_bench lets a rank do: where its data lies, the kernel's tables, and what must come
// out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/device/mover_task.h"

namespace stretto::bench {

// Sums of sources, in bf16, stored at destinations that each task has a rectangle of.
struct MoverWork {
  std::string name;
  int sources;
  std::vector<int> destinations;  // ranks after one's own
  bool tiles;                     // 128 x 256 out of 8192 columns; else 128 KB in a row
  bool packed;                    // sources lie tile by tile

  static constexpr size_t kToBytes = size_t{32} << 20;  // at each destination
  static constexpr size_t kFromBytes = 8 * kToBytes;    // of the most sources, one behind another

  int64_t num_tasks() const;
  int task_rows() const;
  int task_columns() const;
  // Offsets in elements of task t's rectangle in the destination, and of source s of it.
  int64_t to_offset(int64_t t) const;
  int64_t from_offset(int64_t t, int s) const;
  int64_t from_row() const;  // elements from one row of a source to the next

  // The first element that is not the sum of its sources; empty when there is none.
  std::string first_wrong(const std::vector<uint16_t>& from, const std::vector<uint16_t>& to) const;
};

// Of one rank, whose tasks are dealt to blocks in turn.
struct MoverWorkTables {
  std::vector<uint32_t> first_task;  // by block; then the end
  std::vector<device::MoverTask> tasks;
  std::vector<device::MoverRegion> regions;
  double num_bytes = 0;  // that are loaded and stored

  // `from`: of the rank; `to`: of each destination.
  MoverWorkTables(const MoverWork& work, int blocks, uint64_t from,
                  const std::vector<uint64_t>& to);
};

}  // namespace stretto::bench
