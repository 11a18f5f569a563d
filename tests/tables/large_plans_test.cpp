// Tables of plans whose buffers have more than 2^31 elements: every address is where the plan's
// region lies, and inside its buffer.
#include "large_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "launch/plan_fixture.h"
#include "launch/signal_layout.h"
#include "stretto/lower.h"
#include "tables/plan_limits.h"
#include "tables/plan_tables.h"
#include "tables/transfers.h"

namespace stretto::cuda {
namespace {

using testing::IsEmpty;

class LargePlans : public testing::TestWithParam<LargePlan> {
 protected:
  // By its own arithmetic: nothing of 32 bits is multiplied.
  DevicePtr expected(const Region& region, int set, int64_t row = 0) const {
    const Buffer& buffer = plan_.buffers[region.buffer];
    const std::vector<DevicePtr>& copies = places_[region.rank][region.buffer];
    const int64_t element = (int64_t{region.row0} + row) * buffer.cols + region.col0;
    return copies[static_cast<size_t>(set) % copies.size()] +
           static_cast<DevicePtr>(element * num_bytes(buffer.dtype));
  }
  int64_t bytes_of(uint16_t buffer) const {
    const Buffer& b = plan_.buffers[buffer];
    return int64_t{b.rows} * b.cols * num_bytes(b.dtype);
  }
  // Of one buffer's instance: places are 2^40 bytes apart.
  void expect_inside(const Matrix& matrix) {
    constexpr DevicePtr kApart = DevicePtr{1} << 40;
    const DevicePtr base = matrix.address / kApart * kApart;
    const auto buffer = static_cast<uint16_t>(base >> 48 & 0xff);
    ASSERT_LT(buffer, plan_.buffers.size());
    const int64_t begin = static_cast<int64_t>(matrix.address - base);
    const int64_t end =
        begin + ((matrix.rows - 1) * matrix.stride + matrix.columns) * num_bytes(matrix.dtype);
    EXPECT_GT(matrix.rows, 0);
    EXPECT_LE(end, bytes_of(buffer));
    EXPECT_EQ(why_unmappable(matrix), "");
  }
  void see(DevicePtr address) {
    furthest_ = std::max(furthest_, address & ((DevicePtr{1} << 40) - 1));
  }

  void check_gemms(const GemmLaunch& launch, int sets) {
    const size_t num_maps = launch.maps.size() / static_cast<size_t>(sets);
    for (const MapSpec& map : launch.maps) expect_inside(map.matrix);
    for (size_t block = 0; block < launch.table.blocks.size(); ++block) {
      const Lane& lane = plan_.lanes[launch.lanes[block]];
      const std::vector<device::GemmTask>& tasks = launch.table.blocks[block];
      ASSERT_EQ(tasks.size(), launch.positions[block].size());
      for (size_t t = 0; t < tasks.size(); ++t) {
        const Instr& gemm = lane.instrs[launch.positions[block][t]];
        ASSERT_EQ(gemm.op, Opcode::gemm);
        for (int set = 0; set < sets; ++set) {
          check_task(launch, &launch.maps[num_maps * static_cast<size_t>(set)], tasks[t], gemm,
                     set);
        }
      }
    }
  }
  void check_task(const GemmLaunch& launch, const MapSpec* maps, const device::GemmTask& task,
                  const Instr& gemm, int set) {
    const auto at = [&](uint16_t map, int64_t row, int64_t column) {
      const Matrix& matrix = maps[map].matrix;
      return matrix.address +
             static_cast<DevicePtr>((row * matrix.stride + column) * num_bytes(matrix.dtype));
    };
    const auto reads = plan_.reads(gemm);
    ASSERT_EQ(reads.size(), 2u);
    EXPECT_EQ(at(task.a_map, task.a_row, task.first_k * device::kTileK), expected(reads[0], set));
    EXPECT_EQ(at(task.b_map, task.b_row, task.first_k * device::kTileK), expected(reads[1], set));
    see(expected(reads[0], set, reads[0].rows() - 1));
    const std::vector<Placed> writes = placed_writes(plan_, gemm);
    ASSERT_EQ(task.num_destinations, writes.size());
    for (size_t i = 0; i < writes.size(); ++i) {
      const device::GemmDestination& to = launch.table.destinations[task.first_destination + i];
      EXPECT_EQ(to.begin, writes[i].row);
      EXPECT_EQ(at(to.map, to.row + to.begin, to.column), expected(writes[i].region, set));
      see(expected(writes[i].region, set, writes[i].region.rows() - 1));
    }
    ++checked_;
  }

  // A task may move a piece of its instruction's regions.
  void check_moves(const MoverTable& table, int sets) {
    for (size_t block = 0; block < table.blocks.size(); ++block) {
      const Lane& lane = plan_.lanes[table.lanes[block]];
      std::map<uint32_t, int64_t> moved;  // elements, by position
      for (size_t t = 0; t < table.blocks[block].size(); ++t) {
        const device::MoverTask& task = table.blocks[block][t];
        if (task.num_sources == 0) continue;
        const uint32_t position = table.positions[block][t];
        moved[position] += int64_t{task.rows} * task.columns;
        for (int set = 0; set < sets; ++set) {
          check_regions(&table.regions[static_cast<size_t>(set)][task.first_region], task,
                        lane.instrs[position], set);
        }
        ++checked_;
      }
      for (const auto& [position, elements] : moved) {
        EXPECT_EQ(elements, plan_.reads(lane.instrs[position])[0].elements());
      }
    }
  }
  void check_regions(const device::MoverRegion* found, const device::MoverTask& task,
                     const Instr& instr, int set) {
    ASSERT_TRUE(instr.op == Opcode::copy || instr.op == Opcode::reduce);
    std::vector<Region> regions(plan_.reads(instr).begin(), plan_.reads(instr).end());
    regions.insert(regions.end(), plan_.writes(instr).begin(), plan_.writes(instr).end());
    ASSERT_EQ(task.num_sources + size_t{task.num_destinations}, regions.size());
    for (size_t i = 0; i < regions.size(); ++i) {
      const Buffer& buffer = plan_.buffers[regions[i].buffer];
      const auto element_bytes = static_cast<uint64_t>(num_bytes(buffer.dtype));
      ASSERT_EQ(found[i].row_bytes, static_cast<uint64_t>(buffer.cols) * element_bytes);
      ASSERT_GE(found[i].address, expected(regions[i], set));
      const uint64_t offset = found[i].address - expected(regions[i], set);
      // Whole rows lie close together, and are moved as one.
      const int64_t end =
          static_cast<int64_t>((offset + (task.rows - 1) * found[i].row_bytes) / element_bytes) +
          task.columns;
      EXPECT_LE(end, int64_t{regions[i].rows() - 1} * buffer.cols + regions[i].cols());
      if (regions[i].cols() < buffer.cols) {
        EXPECT_LE(offset % found[i].row_bytes / element_bytes + task.columns,
                  static_cast<uint64_t>(regions[i].cols()));
      }
      see(found[i].address + (task.rows - 1) * found[i].row_bytes);
    }
  }

  void check_transfers(int sets) {
    for (const Lane& lane : plan_.lanes) {
      if (lane.kind != LaneKind::copy) continue;
      for (const Instr& instr : lane.instrs) {
        if (instr.op != Opcode::copy) continue;
        for (int set = 0; set < sets; ++set) {
          uint64_t num_bytes_moved = 0;
          for (const Transfer& transfer : transfers_of(plan_, instr, places_, set)) {
            num_bytes_moved += transfer.row_bytes * transfer.rows;
            see(transfer.to + (transfer.rows - 1) * transfer.to_pitch);
          }
          const Region& from = plan_.reads(instr)[0];
          EXPECT_EQ(transfers_of(plan_, instr, places_, set)[0].from, expected(from, set));
          EXPECT_EQ(num_bytes_moved,
                    static_cast<uint64_t>(from.elements() * 2) * plan_.writes(instr).size());
        }
        ++checked_;
      }
    }
  }

  const Plan plan_ = plan_of(GetParam().op, GetParam().schedule);
  const BufferPlaces places_ = places_of(plan_);
  DevicePtr furthest_ = 0;  // from a buffer's begin
  int64_t checked_ = 0;
};

TEST_P(LargePlans, HaveTablesThatDoNotOverflow) {
  EXPECT_THAT(why_not_on_cuda(plan_), IsEmpty());
  const auto large = plan_.find_buffer(GetParam().large);
  ASSERT_TRUE(large.has_value());
  EXPECT_GT(bytes_of(*large) / 2, int64_t{1} << 31);
  const std::vector<RankProgram> programs = programs_of(plan_);
  const SignalLayout signals(plan_, programs, true);
  const int sets = num_sets(plan_);
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    const RankTables tables =
        tables_for(plan_, rank, programs[static_cast<size_t>(rank)], places_, signals);
    for (const GemmLaunch& launch : tables.gemms) {
      EXPECT_EQ(launch.config.adds, 0) << "sums in the kernel have no table here";
      check_gemms(launch, sets);
    }
    for (const MoverTable& table : tables.moves) check_moves(table, sets);
  }
  check_transfers(sets);
  EXPECT_GT(checked_, 1000);
  EXPECT_GT(furthest_, DevicePtr{1} << 32);
}

INSTANTIATE_TEST_SUITE_P(Elements, LargePlans, testing::ValuesIn(kLargePlans),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace stretto::cuda
