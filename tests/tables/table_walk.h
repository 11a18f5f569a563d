// A plan's GEMM kernels on the host, from their tables alone: what every block computes, loads,
// stores, awaits and tells. Sums are exact, so inputs are small whole numbers.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "launch/plan_fixture.h"
#include "tables/plan_tables.h"
#include "tasks/activations.h"

namespace stretto::cuda {

class TableWalk {
 public:
  explicit TableWalk(const Plan& plan)
      : plan_(plan),
        places_(places_of(plan)),
        programs_(programs_of(plan)),
        signals_(plan, programs_, true) {
    std::mt19937 random(7);
    std::uniform_int_distribution<int> any(-3, 3);
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      const auto r = static_cast<size_t>(rank);
      counters_.emplace_back(signals_.num_signals(), 0);
      for (size_t b = 0; b < plan.buffers.size(); ++b) {
        const Buffer& buffer = plan.buffers[b];
        const auto size = static_cast<size_t>(buffer.rows) * static_cast<size_t>(buffer.cols);
        std::vector<float>& values = memory_[places_[r][b][0]];
        values.assign(size, std::numeric_limits<float>::quiet_NaN());
        if (buffer.role != BufferRole::input) continue;
        for (float& value : values) value = static_cast<float>(any(random));
      }
      tables_.push_back(tables_for(plan, rank, programs_[r], places_, signals_));
    }
    for (size_t r = 0; r < tables_.size(); ++r) {
      for (const GemmLaunch& launch : tables_[r].gemms) {
        for (size_t block = 0; block < launch.table.blocks.size(); ++block) {
          blocks_.push_back({r, &launch, block, 0, false, {}});
        }
      }
    }
  }

  const std::vector<RankProgram>& programs() const { return programs_; }
  const std::vector<RankTables>& tables() const { return tables_; }
  const std::vector<float>& values(int rank, const char* buffer) const {
    const auto number = static_cast<size_t>(plan_.find_buffer(buffer).value());
    return memory_.at(places_[static_cast<size_t>(rank)][number][0]);
  }

  // Every block in turn, as far as it can go. False: some wait for ever.
  bool run() {
    for (bool moved = true, left = true; left;) {
      if (!moved) return false;
      moved = left = false;
      for (Block& block : blocks_) {
        while (block.task < tasks_of(block).size() && step(block)) moved = true;
        left = left || block.task < tasks_of(block).size();
      }
    }
    return true;
  }

  // What lanes beside the tiles copy of inputs, and what they tell.
  void make_copies() {
    for (const Lane& lane : plan_.lanes) {
      if (lane.kind == LaneKind::compute) continue;
      for (const Instr& instr : lane.instrs) {
        if (instr.op == Opcode::notify) {
          const device::NotifyEntry entry = signals_.notify_entry(plan_, instr);
          counters_[entry.rank][entry.signal] += entry.amount;
        }
        if (instr.op != Opcode::copy) continue;
        for (const Region& to : plan_.writes(instr)) copy(plan_.reads(instr)[0], to);
      }
    }
  }

 private:
  float& value(const Region& region, int row, int column) {
    const size_t place = static_cast<size_t>(region.row0 + row) *
                             static_cast<size_t>(plan_.buffers[region.buffer].cols) +
                         static_cast<size_t>(region.col0 + column);
    return memory_.at(places_[region.rank][region.buffer][0]).at(place);
  }
  void copy(const Region& from, const Region& to) {
    for (int row = 0; row < from.rows(); ++row) {
      for (int column = 0; column < from.cols(); ++column) {
        value(to, row, column) = value(from, row, column);
      }
    }
  }

  struct Block {
    size_t rank;
    const GemmLaunch* launch;
    size_t index, task;
    bool computed;            // of the task, what comes before its late waits
    std::vector<float> tile;  // as the registers hold it; from task to task
  };

  static const std::vector<device::GemmTask>& tasks_of(const Block& block) {
    return block.launch->table.blocks[block.index];
  }
  const device::GemmConfig& config(const Block& block) const { return block.launch->config; }
  static float at(const std::vector<float>& values, const Matrix& matrix, int64_t row,
                  int64_t column) {
    const bool there = row >= 0 && row < matrix.rows && column < matrix.columns;
    return there ? values[static_cast<size_t>(row * matrix.stride + column)] : 0;
  }
  float& element(Block& block, int row, int column) const {
    return block.tile[static_cast<size_t>(row * config(block).tile_n + column)];
  }

  bool have_come(const Block& block, uint32_t first, uint32_t count) const {
    for (uint32_t w = first; w < first + count; ++w) {
      const device::WaitEntry& wait = block.launch->table.waits[w];
      if (wait.lag == 0 && counters_[block.rank][wait.signal] < wait.amount) return false;
    }
    return true;
  }

  bool step(Block& block) {
    const device::GemmTask& task = tasks_of(block)[block.task];
    const GemmTable& table = block.launch->table;
    if (!have_come(block, task.first_wait, task.num_waits)) return false;
    if (!block.computed && task.num_k != 0) multiply(block, task);
    block.computed = true;
    const device::GemmSplit split =
        table.splits.empty() ? device::GemmSplit{} : table.splits[block.index][block.task];
    if (!have_come(block, task.first_wait + task.num_waits, task.num_late_waits)) return false;
    if (split.ranges == 1) ranges_[split.sums] = block.tile;
    for (uint32_t range = 1; range < split.ranges; ++range) {
      const std::vector<float>& other = ranges_.at(split.sums + uint64_t{split.step} * 16 * range);
      for (size_t i = 0; i < other.size(); ++i) block.tile[i] += other[i];
    }
    if (task.sum_step != 0) add_sums(block, task);
    if (block.launch->config.follower != device::Follower::none || !table.follows.empty()) {
      follow(block);
    }
    for (uint32_t d = 0; d < task.num_destinations; ++d) {
      store(block, table.destinations[task.first_destination + d]);
    }
    for (uint32_t n = task.first_notify; n < task.first_notify + task.num_notifies; ++n) {
      counters_[table.notifies[n].rank][table.notifies[n].signal] += table.notifies[n].amount;
    }
    ++block.task;
    block.computed = false;
    return true;
  }

  void multiply(Block& block, const device::GemmTask& task) {
    const Matrix& a = block.launch->maps[task.a_map].matrix;
    const Matrix& b = block.launch->maps[task.b_map].matrix;
    const std::vector<float>&from_a = memory_.at(a.address), &from_b = memory_.at(b.address);
    const int k0 = task.first_k * device::kTileK, k1 = k0 + task.num_k * device::kTileK;
    const auto& sources = block.launch->table.sources;
    const bool wraps = !sources.empty();
    const device::GemmSource source =
        wraps ? sources[block.index][block.task] : device::GemmSource{};
    const int end = source.end_block * device::kTileK;
    const Matrix& own_a = block.launch->maps[source.own_map].matrix;
    block.tile.assign(static_cast<size_t>(config(block).tile_m * config(block).tile_n), 0);
    const int width = device::layout_of(config(block)).stored_columns;
    const auto fill = [&](int first, const Matrix& b, const std::vector<float>& from_b, int b_row) {
      for (int r = 0; r < config(block).tile_m; ++r) {
        for (int c = 0; c < width; ++c) {
          float sum = 0;
          for (int i = k0; i < k1; ++i) {
            const bool own = i - k0 < source.own_blocks * device::kTileK;
            const int k = wraps && i >= end ? i - end : i;
            sum += (own ? at(memory_.at(own_a.address), own_a, source.own_row + r, i - k0)
                        : at(from_a, a, task.a_row + r, k)) *
                   at(from_b, b, b_row + c, k);
          }
          element(block, r, first + c) = sum;
        }
      }
    };
    fill(0, b, from_b, task.b_row);
    if (width == config(block).tile_n) return;
    const device::GemmFollow& other = block.launch->table.follows[block.index][block.task];
    const Matrix& other_b = block.launch->maps[other.b_map].matrix;
    fill(width, other_b, memory_.at(other_b.address), other.b_row);
  }

  // The tile in registers, as gemm_follow.h works on it.
  void follow(Block& block) {
    const auto& follows = block.launch->table.follows;
    const device::GemmFollow follow =
        follows.empty() ? device::GemmFollow{} : follows[block.index][block.task];
    const int width = device::layout_of(config(block)).stored_columns;
    for (int r = 0; r < config(block).tile_m; ++r) {
      for (int c = 0; c < width; ++c) {
        float& value = element(block, r, c);
        value += bias_of(follow, 0, c);
        switch (config(block).follower) {
          case device::Follower::none:
            break;
          case device::Follower::gelu:
            value = tasks::gelu_of(value);
            break;
          case device::Follower::silu:
            value = tasks::silu_of(value);
            break;
          case device::Follower::swiglu:
            value = tasks::silu_of(value) * (element(block, r, width + c) + bias_of(follow, 1, c));
            break;
        }
      }
    }
  }

  float bias_of(const device::GemmFollow& follow, int half, int column) const {
    if (follow.bias[half] == 0 || column >= follow.bias_columns) return 0;
    const auto behind = memory_.upper_bound(follow.bias[half]);
    const auto& [address, values] = *std::prev(behind);
    return values.at((follow.bias[half] - address) / 2 + static_cast<size_t>(column));
  }

  // Rows that no box brings are nothing that may be stored.
  void add_sums(Block& block, const device::GemmTask& task) {
    EXPECT_LE(task.sum_end * task.sum_box * device::kChunkRows, config(block).tile_m);
    EXPECT_LT(task.sum_begin, task.sum_end);
    for (int number = 0; number <= config(block).adds; ++number) {
      if (number == task.sum_own) continue;
      if (task.sum_elsewhere != 0 && number == config(block).adds) {
        const device::GemmDestination& residual =
            block.launch->table.destinations[task.first_destination + task.num_destinations];
        add_boxes(block, task, residual.map, residual.row, residual.column);
      } else {
        add_boxes(block, task, task.sum_map, task.sum_row + number * task.sum_step,
                  task.sum_column);
      }
    }
  }

  void add_boxes(Block& block, const device::GemmTask& task, uint16_t map_number, int row,
                 int column) {
    const MapSpec& map = block.launch->maps[map_number];
    const std::vector<float>& from = memory_.at(map.matrix.address);
    const int box_rows = task.sum_box * device::kChunkRows;
    EXPECT_EQ(map.use, MapSpec::Use::sums);
    EXPECT_EQ(map.box_rows, box_rows);
    for (int r = 0; r < config(block).tile_m; ++r) {
      const bool comes = r >= task.sum_begin * box_rows && r < task.sum_end * box_rows;
      for (int c = 0; c < config(block).tile_n; ++c) {
        element(block, r, c) += comes ? at(from, map.matrix, row + r, column + c)
                                      : std::numeric_limits<float>::quiet_NaN();
      }
    }
  }

  // Box by box, as gemm_store.h does.
  void store(Block& block, const device::GemmDestination& to) {
    const std::vector<MapSpec>& maps = block.launch->maps;
    for (int chunk = 0; chunk < config(block).tile_m; chunk += device::kChunkRows) {
      if (to.begin <= chunk && chunk + device::kChunkRows <= to.end) {
        store_box(block, maps[to.map], to, chunk, device::kChunkRows);
        continue;
      }
      int row = std::max<int>(chunk, to.begin);
      const int end = std::min<int>(chunk + device::kChunkRows, to.end);
      while (row < end) {
        int level = 0;
        while ((2 << level) <= end - row) ++level;
        store_box(block, maps[static_cast<size_t>(to.part_maps + device::kPartMaps - 1 - level)],
                  to, row, 1 << level);
        row += 1 << level;
      }
    }
  }

  void store_box(Block& block, const MapSpec& map, const device::GemmDestination& to, int row,
                 int rows) {
    std::vector<float>& values = memory_.at(map.matrix.address);
    EXPECT_EQ(map.use, MapSpec::Use::store);
    EXPECT_EQ(map.box_rows, rows);
    EXPECT_GE(to.row + row, 0) << "a store above its map faults";
    for (int r = row; r < row + rows; ++r) {
      for (int c = 0; c < device::layout_of(config(block)).stored_columns; ++c) {
        if (to.row + r >= map.matrix.rows || to.column + c >= map.matrix.columns) continue;
        const float value = element(block, r, c);
        EXPECT_FALSE(std::isnan(value)) << "what nobody has sent is stored";
        values[static_cast<size_t>((to.row + r) * map.matrix.stride + to.column + c)] = value;
      }
    }
  }

  const Plan& plan_;
  BufferPlaces places_;
  std::vector<RankProgram> programs_;
  SignalLayout signals_;
  std::vector<RankTables> tables_;
  std::map<uint64_t, std::vector<float>> memory_;  // by address
  std::map<uint64_t, std::vector<float>> ranges_;  // sums of ranges of K, by address
  std::vector<std::vector<uint64_t>> counters_;    // by rank
  std::vector<Block> blocks_;
};

}  // namespace stretto::cuda
