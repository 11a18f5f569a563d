// Passes that blocks share, and the tasks that they join.
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "routed_memory.h"
#include "tables/shared_pass.h"

namespace stretto::cuda {
namespace {

using device::MoverRegion;
using device::MoverTask;

// By address of a row's choice: of X, and of the row that it becomes, or of the first of all.
using MovedRows = std::map<DevicePtr, std::vector<DevicePtr>>;

MovedRows moved_rows(const MoverTable& table) {
  MovedRows rows;
  for (const std::vector<MoverTask>& tasks : table.blocks) {
    for (const MoverTask& task : tasks) {
      const bool by_choice = table.routed.at(task.routed - 1).own_experts != 0;
      for (const std::vector<MoverRegion>& set : table.regions) {
        const MoverRegion* const of = set.data() + task.first_region;
        for (uint32_t row = 0; row < task.rows; ++row) {
          const DevicePtr to = of[2].address + (by_choice ? 0 : row * of[2].row_bytes);
          EXPECT_TRUE(
              rows.emplace(of[0].address + row * of[0].row_bytes, std::vector{of[1].address, to})
                  .second);
        }
      }
    }
  }
  return rows;
}

TEST(SharedPasses, HaveTheRowsOfTheTasksThatTheyJoin) {
  struct Case {
    const char *op, *schedule;
    size_t joined;  // a run of rows for each partition
  };
  for (const Case& c :
       {Case{"moe-ep t=300 h=512 f=256 experts=8 k=2 ranks=1", "sequential,permute=pass", 1},
        Case{"moe-tp t=300 h=512 f=256 experts=8 k=2 ranks=2", "sequential,permute=pass", 1}}) {
    SCOPED_TRACE(c.op);
    const RoutedMemory memory(c.op, c.schedule);
    int seen = 0;
    for (const RankTables& of_rank : memory.tables) {
      for (const MoverTable& table : of_rank.moves) {
        MoverTable shared = table;
        share_rows(shared);
        const device::RoutedKind kind =
            table.routed.empty() ? device::RoutedKind::route : table.routed.front().kind;
        if (kind != device::RoutedKind::permute) {
          EXPECT_EQ(shared.shared_by, 0);
          EXPECT_EQ(shared.routed.size(), table.routed.size());
          continue;
        }
        ++seen;
        ASSERT_TRUE(table.passes);
        EXPECT_GT(table.routed.size(), c.joined);
        EXPECT_EQ(shared.shared_by, static_cast<int>(table.blocks.size()));
        ASSERT_EQ(shared.blocks.size(), 1u);
        EXPECT_EQ(shared.blocks[0].size(), c.joined);
        EXPECT_EQ(moved_rows(shared), moved_rows(table));
      }
    }
    EXPECT_EQ(seen, memory.plan.ranks());
  }
}

TEST(SharedPasses, AreCutIntoWhatEachSmHoldsAtOnceAndThereIsWorkFor) {
  // Rows of a task, its columns, how many such tasks, whether they norm, slices on 132 SMs.
  struct Case {
    uint32_t rows, columns;
    size_t tasks;
    bool norms;
    int slices;
  };
  for (const Case& c :
       {Case{2, 8192, 128, true, 2}, Case{1, 8192, 128, true, 1}, Case{40, 8192, 132, true, 2},
        Case{9, 8192, 16, true, 9}, Case{500, 8192, 16, true, 16}, Case{9, 4096, 300, true, 1},
        Case{1, 4096, 1, false, 1}, Case{2, 4096, 1, false, 2}, Case{3, 1024, 1, false, 1},
        Case{4096, 4096, 1, false, 264}}) {
    MoverTable table;
    table.passes = true;
    MoverTask task{};
    task.rows = c.rows;
    task.columns = c.columns;
    task.num_normed = c.norms ? 1 : 0;
    table.blocks.assign(c.tasks, {task});
    MoverTable ring = table;
    cut_tasks(table, 132);
    EXPECT_EQ(table.slices, c.slices) << c.tasks << " tasks of " << c.rows << " rows";
    ring.passes = false;
    cut_tasks(ring, 132);
    EXPECT_EQ(ring.slices, 1);
  }
}

}  // namespace
}  // namespace stretto::cuda
