#include "mover_work.h"

#include <fmt/format.h>

#include <cstring>

namespace stretto::bench {
namespace {

using device::MoverTask;
using device::MoverType;

constexpr int kTileRows = 128, kTileColumns = 256, kColumns = 8192;
constexpr int64_t kPiece = 131072;  // bytes of a task that is not a tile

float value_of(uint16_t bf16) {
  const uint32_t bits = uint32_t{bf16} << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

}  // namespace

int64_t MoverWork::num_tasks() const {
  return static_cast<int64_t>(kToBytes) / (int64_t{task_rows()} * task_columns() * 2);
}
int MoverWork::task_rows() const { return tiles ? kTileRows : 1; }
int MoverWork::task_columns() const { return tiles ? kTileColumns : static_cast<int>(kPiece / 2); }

int64_t MoverWork::to_offset(int64_t t) const {
  if (!tiles) return t * kPiece / 2;
  constexpr int64_t kAcross = kColumns / kTileColumns;
  return t / kAcross * kTileRows * kColumns + t % kAcross * kTileColumns;
}

int64_t MoverWork::from_offset(int64_t t, int s) const {
  const int64_t slot = s * static_cast<int64_t>(kToBytes / 2);
  return slot + (packed ? t * kTileRows * kTileColumns : to_offset(t));
}

int64_t MoverWork::from_row() const { return packed ? kTileColumns : kColumns; }

std::string MoverWork::first_wrong(const std::vector<uint16_t>& from,
                                   const std::vector<uint16_t>& to) const {
  for (int64_t t = 0; t < num_tasks(); ++t) {
    for (int row = 0; row < task_rows(); ++row) {
      for (int column = 0; column < task_columns(); ++column) {
        float sum = 0;
        for (int s = 0; s < sources; ++s) {
          sum += value_of(from[static_cast<size_t>(from_offset(t, s) + row * from_row() + column)]);
        }
        const int64_t at = to_offset(t) + int64_t{row} * kColumns + column;
        if (value_of(to[static_cast<size_t>(at)]) != sum) {
          return fmt::format("wrong: task {} row {} column {}", t, row, column);
        }
      }
    }
  }
  return "";
}

MoverWorkTables::MoverWorkTables(const MoverWork& work, int blocks, uint64_t from,
                                 const std::vector<uint64_t>& to) {
  const auto add_region = [&](uint64_t base, int64_t offset, int64_t row) {
    regions.push_back({base + static_cast<uint64_t>(offset) * 2, static_cast<uint64_t>(row) * 2});
  };
  for (int block = 0; block < blocks; ++block) {
    first_task.push_back(static_cast<uint32_t>(tasks.size()));
    for (int64_t t = block; t < work.num_tasks(); t += blocks) {
      MoverTask task{};
      task.rows = static_cast<decltype(task.rows)>(work.task_rows());
      task.columns = static_cast<decltype(task.columns)>(work.task_columns());
      task.num_sources = static_cast<uint16_t>(work.sources);
      task.num_destinations = static_cast<uint16_t>(to.size());
      task.from = task.to = MoverType::bf16;
      task.vectors = 1;
      task.first_region = static_cast<uint32_t>(regions.size());
      for (int s = 0; s < work.sources; ++s) {
        add_region(from, work.from_offset(t, s), work.from_row());
      }
      for (const uint64_t address : to) add_region(address, work.to_offset(t), kColumns);
      num_bytes += static_cast<double>(task.rows * task.columns * 2) *
                   static_cast<double>(task.num_sources + task.num_destinations);
      tasks.push_back(task);
    }
  }
  first_task.push_back(static_cast<uint32_t>(tasks.size()));
}

}  // namespace stretto::bench
