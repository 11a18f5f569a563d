// Where rows of an output by choice go, followed on the host.
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "launch/choice_rows.h"
#include "routed_maps.h"

namespace stretto::cuda {
namespace {

using device::RoutedTables;

// Those whose products store them, and those that a permute moves.
class StoredByChoice : public RoutedMaps {};
class MovedByChoice : public RoutedMaps {};

// Of an output by choice every element is stored once, from a row of its own choice, if that is an
// expert's.
TEST_P(StoredByChoice, EveryElementOnce) {
  int scattering = 0;
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    for (int set = 0; set < memory_.sets; ++set) memory_.make_partitions(rank, set);
    for (const GemmLaunch& launch : memory_.tables[size_of(rank)].gemms) {
      if (!launch.config.scatters) continue;
      ++scattering;
      Region output;
      output.buffer = out();
      output.rank = static_cast<decltype(output.rank)>(rank);
      output.row1 = memory_.tokens * memory_.top_k;
      output.col1 = plan_.buffers[out()].cols;
      std::vector<int> stored(size_of(output.rows()) * size_of(output.cols()));
      for (size_t block = 0; block < launch.table.blocks.size(); ++block) {
        for (size_t t = 0; t < launch.table.blocks[block].size(); ++t) {
          EXPECT_EQ(launch.table.blocks[block][t].num_destinations, 0);
          const device::GemmEntry& entry = launch.table.entries[0][block][t];
          const int32_t expert = device::number_at({entry.expert, 0}, 0);
          if (expert < 0) continue;
          for (uint32_t row = 0; row < entry.rows; ++row) {
            const auto choice = static_cast<uint32_t>(device::number_at({entry.choices, 4}, row));
            if (choice >= entry.to.rows) continue;
            const uint64_t at =
                entry.to.address + choice * entry.to.row_bytes - memory_.address(output, 0, 0, 0);
            const auto to = static_cast<int32_t>(at / row_bytes_of(plan_.buffers[out()]));
            const auto column = static_cast<int32_t>(at % row_bytes_of(plan_.buffers[out()])) / 2;
            ASSERT_LT(to, output.rows());
            EXPECT_EQ(memory_.id(to / memory_.top_k, to % memory_.top_k), expert);
            for (uint32_t c = 0; c < entry.to.column_bytes / 2; ++c) {
              ++stored.at(size_of(to * output.cols() + column) + c);
            }
          }
        }
      }
      for (int32_t row = 0; row < output.rows(); ++row) {
        const bool is_one =
            memory_.is_experts(row / memory_.top_k, row % memory_.top_k, 0, memory_.experts);
        for (int32_t c = 0; c < output.cols(); ++c) {
          ASSERT_EQ(stored[size_of(row * output.cols() + c)], is_one ? 1 : 0) << row << " " << c;
        }
      }
    }
  }
  EXPECT_EQ(scattering, plan_.ranks());
}

// Where a permute hands rows over, too: those of a rank's own experts, each from its token's row.
TEST_P(MovedByChoice, EveryRowOnce) {
  Region output;
  output.buffer = out();
  const int32_t rows = memory_.tokens * memory_.top_k;
  const auto row_bytes = static_cast<int64_t>(row_bytes_of(plan_.buffers[out()]));
  std::map<std::pair<int, int>, std::vector<int>> stored;  // by rank and set
  each_task([&](const Instr& instr, const RoutedTables& of, int set) {
    if (instr.op != Opcode::permute) return;
    const auto reads = plan_.reads(instr);
    output.rank = plan_.writes(instr)[0].rank;
    std::vector<int>& own = stored[{output.rank, set}];
    own.resize(size_of(rows));
    for (uint32_t row = 0; row < of.task.rows; ++row) {
      const auto moved = of.permuted(device::number_at(of.from[0], row), row);
      if (!moved.is_there) continue;
      const auto first = static_cast<int64_t>(memory_.address(output, 0, 0, set));
      const int64_t at = static_cast<int64_t>(of.to[0].address) +
                         static_cast<int64_t>(moved.to) * row_bytes - first;
      ASSERT_EQ(at % row_bytes, 0);
      const auto choice = static_cast<int32_t>(at / row_bytes);
      ASSERT_LT(choice, rows);
      ++own[size_of(choice)];
      const int32_t token = choice / memory_.top_k;
      EXPECT_EQ(memory_.first_token(reads[1]) + static_cast<int32_t>(moved.from), token);
      EXPECT_EQ(of.from[1].address + moved.from * of.from[1].row_bytes,
                memory_.address(reads[1], static_cast<int32_t>(moved.from), 0, set));
    }
    for (const int32_t wild : {-1, INT32_MIN, INT32_MAX}) {
      EXPECT_FALSE(of.permuted(wild, 0).is_there) << wild;
    }
    const auto behind = static_cast<int32_t>(of.routed.own_experts);
    EXPECT_FALSE(of.permuted(behind, 0).is_there);
  });
  EXPECT_EQ(stored.size(), size_of(plan_.ranks() * memory_.sets));
  for (const auto& [where, own] : stored) {
    const int rank = where.first;
    for (int32_t choice = 0; choice < rows; ++choice) {
      const bool is_own = memory_.is_experts(choice / memory_.top_k, choice % memory_.top_k,
                                             shares().begin(rank), shares().size(rank));
      ASSERT_EQ(own[size_of(choice)], is_own ? 1 : 0) << rank << " " << choice;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, StoredByChoice,
                         testing::Values(MapsCase{"moe-tp-up t=45 h=64 f=192 experts=6 k=3 ranks=3",
                                                  "tiles,tile=16x64"},
                                         MapsCase{"moe-tp-up t=45 h=64 f=240 experts=6 k=3 ranks=3",
                                                  "tiles,tile=24x32,granularity=chunk"},
                                         MapsCase{"moe-tp-up t=45 h=64 f=96 experts=6 k=3 ranks=1",
                                                  "sequential,tile=64x64"}));

INSTANTIATE_TEST_SUITE_P(Plans, MovedByChoice,
                         testing::Values(MapsCase{"dispatch t=45 h=64 experts=7 k=3 ranks=3",
                                                  "tiles,tile=16x64"},
                                         MapsCase{"dispatch t=45 h=64 experts=7 k=3 ranks=3",
                                                  "tiles,tile=16x64,granularity=chunk"},
                                         MapsCase{"dispatch-i64 t=45 h=64 experts=6 k=3 ranks=1",
                                                  "sequential,tile=64x64"}));

}  // namespace
}  // namespace stretto::cuda
