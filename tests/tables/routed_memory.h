// A plan of rows that choose experts with memory on the host behind its buffers, so that what
// tables of kernels say of addresses can be followed without a GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "launch/rank_program.h"
#include "stretto/device/routed_tables.h"
#include "stretto/lower.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {

class RoutedMemory {
 public:
  explicit RoutedMemory(const std::string& op_text, const std::string& schedule)
      : op(parse_operator(op_text + " dtype=bf16")),
        machine(default_machine(op.ranks)),
        plan(lower(op, parse_schedules(schedule, op, machine), machine)),
        places(static_cast<size_t>(plan.ranks())) {
    const Tensor& ids = op.tensor(op.find_tensor("ids").value());
    tokens = static_cast<int32_t>(ids.rows);
    top_k = static_cast<int32_t>(ids.cols);
    for (const Stage& stage : op.stages) {
      if (makes_choices_rows(stage.kind)) experts = static_cast<int32_t>(op.experts_of(stage));
    }
    for (auto& of_rank : places) {
      for (const Buffer& buffer : plan.buffers) {
        auto& copies = of_rank.emplace_back();
        for (int copy = 0; copy < buffer.copies; ++copy) {
          const uint64_t bytes = row_bytes_of(buffer) * static_cast<uint64_t>(buffer.rows);
          memory_.emplace_back((bytes + 15) / 16 * 2 + 2);
          const auto first = reinterpret_cast<DevicePtr>(memory_.back().data());
          copies.push_back((first + 15) / 16 * 16);
        }
      }
    }
    const std::vector<RankProgram> programs = programs_of(plan);
    const SignalLayout signals(plan, programs, true);
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      tables.push_back(
          tables_for(plan, rank, programs[static_cast<size_t>(rank)], places, signals));
    }
    sets = num_sets(plan);
  }

  // Some chosen twice, some not at all, and two that are no expert's.
  int32_t id(int32_t token, int32_t slot) const {
    if ((token * 5 + slot) % 11 == 3) return -1;
    if (token == 2 && slot == 0) return experts + 7;  // of 64 bits: one beyond 32
    if (token == 4 && slot == 0) return -5;
    return (token * token + 3 * slot) % experts;
  }
  bool is_experts(int32_t token, int32_t slot, int32_t first, int32_t count) const {
    return id(token, slot) >= first && id(token, slot) < first + count;
  }

  DevicePtr address(const Region& region, int32_t row, int32_t column, int set) const {
    return address_of(places, region.rank, region.buffer, set) +
           offset_of(plan.buffers[region.buffer], region.row0 + row, region.col0 + column);
  }
  int32_t& number(const Region& region, int32_t row, int32_t column, int set) const {
    return *reinterpret_cast<int32_t*>(address(region, row, column, set));
  }
  void write_id(const Region& ids, int32_t row, int32_t slot, int set, int32_t token) const {
    if (plan.buffers[ids.buffer].dtype != DType::i64) {
      number(ids, row, slot, set) = id(token, slot);
      return;
    }
    const bool is_beyond = id(token, slot) >= experts;
    *reinterpret_cast<int64_t*>(address(ids, row, slot, set)) =
        is_beyond ? (int64_t{1} << 32) + 1 : id(token, slot);
  }
  // A region's first row among all tokens, where its rows are tokens'.
  int32_t first_token(const Region& region) const {
    const bool is_part = plan.buffers[region.buffer].sharded_rows > 0;
    return region.row0 +
           (is_part ? static_cast<int32_t>(RowShards{tokens, plan.ranks()}.begin(region.rank)) : 0);
  }

  // Calls visit(instr, task, routed task, table) for all tasks of routed rows of a rank.
  template <typename Visit>
  void each_routed(int rank, const Visit& visit) const {
    for (const MoverTable& table : tables[static_cast<size_t>(rank)].moves) {
      for (size_t block = 0; block < table.blocks.size(); ++block) {
        for (size_t t = 0; t < table.blocks[block].size(); ++t) {
          const device::MoverTask& task = table.blocks[block][t];
          if (task.routed == 0) continue;
          const Lane& lane = plan.lanes[table.lanes[block]];
          visit(lane.instrs[table.positions[block][t]], task, table.routed.at(task.routed - 1),
                table);
        }
      }
    }
  }

  // Writes ids wherever partitions read them, and makes these as the mover kernel does.
  void make_partitions(int rank, int set) const {
    each_routed(rank, [&](const Instr& instr, const device::MoverTask& task,
                          const device::RoutedTask& routed, const MoverTable& table) {
      if (instr.op != Opcode::route) return;
      const Region& ids = plan.reads(instr)[0];
      for (int32_t row = 0; row < ids.rows(); ++row) {
        for (int32_t slot = 0; slot < top_k; ++slot) {
          write_id(ids, row, slot, set, first_token(ids) + row);
        }
      }
      const auto own = device::RoutedTables::of(
          task, routed, table.regions[static_cast<size_t>(set)].data() + task.first_region);
      const auto workers = static_cast<int32_t>(routed.workers);
      ASSERT_GT(workers, 0);
      std::vector<int32_t> scratch(static_cast<size_t>(
          device::partition_scratch(static_cast<int32_t>(routed.own_experts), 1)));
      device::make_partition(own.choices(), own.partition(), scratch.data());
    });
  }

  const Operator op;
  const Machine machine;
  const Plan plan;
  BufferPlaces places;
  std::vector<RankTables> tables;
  int32_t tokens = 0, top_k = 0, experts = 0;
  int sets = 1;

 private:
  std::vector<std::vector<uint64_t>> memory_;
};

}  // namespace stretto::cuda
