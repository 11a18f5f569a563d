// What tables say of rows that choose experts, followed on the host: which rows a partition has,
// which are added up, sent and merged, and where those of an output by choice go.
#include <gtest/gtest.h>

#include <map>

#include "launch/choice_rows.h"
#include "routed_memory.h"
#include "tables/shared_pass.h"

namespace stretto::cuda {
namespace {

using device::MoverRegion;
using device::MoverTask;
using device::RoutedTables;
using device::RoutedTask;

struct MapsCase {
  const char *op, *schedule;
  friend void PrintTo(const MapsCase& c, std::ostream* out) { *out << c.op << " " << c.schedule; }
};

class RoutedMaps : public testing::TestWithParam<MapsCase> {
 protected:
  RoutedMaps() : memory_(GetParam().op, GetParam().schedule), plan_(memory_.plan) {}

  // check(instr, tables of the task, set) for all tasks of routed rows, once partitions are made.
  template <typename Check>
  void each_task(const Check& check) {
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      for (int set = 0; set < memory_.sets; ++set) {
        SCOPED_TRACE(fmt::format("rank {}, set {}", rank, set));
        memory_.make_partitions(rank, set);
        memory_.each_routed(rank, [&](const Instr& instr, const MoverTask& task,
                                      const RoutedTask& routed, const MoverTable& table) {
          check(instr,
                RoutedTables::of(task, routed,
                                 table.regions[size_of(set)].data() + task.first_region),
                set);
        });
      }
    }
  }
  device::ExpertShares shares() const { return {memory_.experts, plan_.ranks()}; }
  // The operator's output.
  uint16_t out() const {
    return *plan_.find_buffer(memory_.op.tensor(memory_.op.outputs[0].tensor).name);
  }
  bool hands_over_by_choice() const {
    return std::string(GetParam().op).find("-up") != std::string::npos || only_dispatches();
  }
  bool only_dispatches() const { return std::string(GetParam().op).starts_with("dispatch"); }
  static size_t size_of(int value) { return static_cast<size_t>(value); }

  RoutedMemory memory_;
  const Plan& plan_;
};

TEST_P(RoutedMaps, PartitionsHaveEveryChoiceOnce) {
  int seen = 0;
  each_task([&](const Instr& instr, const RoutedTables& of, int set) {
    if (instr.op != Opcode::route) return;
    ++seen;
    const auto reads = plan_.reads(instr), tables = plan_.writes(instr);
    const int32_t own = tables[3].rows() - 1;
    const int32_t first_expert = own == memory_.experts ? 0 : shares().begin(tables[0].rank);
    const int32_t entry_rows = tables[0].rows() / tables[1].rows();
    std::vector<int32_t> counts(static_cast<size_t>(own) + 1);
    int32_t with_choice = 0;
    for (int32_t choice = 0; choice < tables[2].rows(); ++choice) {
      const int32_t token = memory_.first_token(reads[0]) + choice / memory_.top_k;
      const int32_t id = memory_.id(token, choice % memory_.top_k);
      const int32_t row = memory_.number(tables[2], choice, 0, set);
      if (id < -1 || id >= memory_.experts) ++counts.back();
      if (id < first_expert || id >= first_expert + own) {
        EXPECT_EQ(row, -1);
        continue;
      }
      ++counts[size_of(id - first_expert)];
      ++with_choice;
      ASSERT_LT(static_cast<uint32_t>(row), static_cast<uint32_t>(tables[0].rows()));
      EXPECT_EQ(memory_.number(tables[0], row, 0, set), choice);
      EXPECT_EQ(memory_.number(tables[1], row / entry_rows, 0, set), id - first_expert);
    }
    for (int32_t row = 0; row < tables[0].rows(); ++row) {
      with_choice -= memory_.number(tables[0], row, 0, set) >= 0 ? 1 : 0;
    }
    EXPECT_EQ(with_choice, 0);
    for (int32_t e = 0; e <= own; ++e) {
      EXPECT_EQ(memory_.number(tables[3], e, 0, set), counts[size_of(e)]) << "count " << e;
    }
    EXPECT_EQ(of.routed.workers, device::partition_workers(own));
  });
  EXPECT_GT(seen, 0);
}

TEST_P(RoutedMaps, SumsTakeTheRowsOfTheirTokensChoices) {
  std::map<std::pair<DevicePtr, int>, int> taken;  // elements that begin a row of a tile, by set
  int seen = 0;
  each_task([&](const Instr& instr, const RoutedTables& of, int set) {
    if (instr.op != Opcode::weigh && instr.op != Opcode::combine) return;
    ++seen;
    const Region &weights = plan_.reads(instr)[0], &rows = plan_.reads(instr)[1],
                 &y = plan_.reads(instr)[2], &sum = plan_.writes(instr)[0];
    ASSERT_EQ(of.task.rows, static_cast<uint32_t>(sum.rows()));
    ASSERT_EQ(of.task.columns, static_cast<uint32_t>(sum.cols()));
    ASSERT_EQ(of.num_terms(), static_cast<uint32_t>(memory_.top_k));
    for (int32_t token = 0; token < sum.rows(); ++token) {
      EXPECT_EQ(device::address_in(of.to[0], static_cast<uint32_t>(token), 0, of.task.to),
                memory_.address(sum, token, 0, set));
      for (int32_t slot = 0; slot < memory_.top_k; ++slot) {
        const float weight = 0.5f + static_cast<float>(slot + token);
        const DevicePtr at = memory_.address(weights, token, slot, set);
        std::memcpy(reinterpret_cast<void*>(at), &weight, sizeof(weight));
        const auto term = of.term(static_cast<uint32_t>(token), static_cast<uint32_t>(slot));
        const int32_t row = memory_.number(rows, token * memory_.top_k + slot, 0, set);
        ASSERT_EQ(term.is_there, row >= 0);
        EXPECT_EQ(term.weight, weight);
        if (row < 0) continue;
        EXPECT_EQ(term.row, memory_.address(y, row, 0, set));
        ++taken[{term.row, set}];
      }
    }
    EXPECT_FALSE(of.term(0, static_cast<uint32_t>(memory_.top_k)).is_there);
  });
  for (const auto& [row, times] : taken) EXPECT_EQ(times, 1);
  if (!hands_over_by_choice()) {
    EXPECT_GT(seen, 0);
    EXPECT_FALSE(taken.empty());
  }
}

// A table that was written over names nothing outside the rows there are.
TEST_P(RoutedMaps, WildRowsAreNotThere) {
  each_task([&](const Instr& instr, const RoutedTables& of, int set) {
    if (instr.op != Opcode::weigh && instr.op != Opcode::combine) return;
    int32_t& row = memory_.number(plan_.reads(instr)[1], 0, 0, set);
    const int32_t rows = plan_.reads(instr)[2].rows(), before = row;
    for (const int32_t wild : {-1, -7, INT32_MIN, INT32_MAX, rows}) {
      row = wild;
      EXPECT_FALSE(of.term(0, 0).is_there) << wild;
    }
    row = rows - 1;
    EXPECT_TRUE(of.term(0, 0).is_there);
    row = before;
  });
}

TEST_P(RoutedMaps, RowsGoToTheRanksOfTheirExperts) {
  int seen = 0;
  each_task([&](const Instr& instr, const RoutedTables& of, int set) {
    const bool is_merge = instr.op == Opcode::merge;
    if (!is_merge && instr.op != Opcode::dispatch) return;
    ++seen;
    const auto reads = plan_.reads(instr);
    const Region &ids = reads[is_merge ? 0 : 1], &to = plan_.writes(instr)[0];
    for (int32_t row = 0; row < ids.rows(); ++row) {
      const int32_t token = memory_.first_token(ids) + row;
      const auto goes_to = [&](int32_t rank) {
        bool any = false;
        for (int32_t slot = 0; slot < memory_.top_k; ++slot) {
          memory_.write_id(ids, row, slot, set, token);
          any = any || memory_.is_experts(token, slot, shares().begin(rank), shares().size(rank));
        }
        return any;
      };
      const auto at = static_cast<uint32_t>(row);
      EXPECT_EQ(device::address_in(of.to[0], at, 0, of.task.to), memory_.address(to, row, 0, set));
      if (is_merge) {
        ASSERT_EQ(of.num_terms(), static_cast<uint32_t>(plan_.ranks()));
        for (int32_t rank = 0; rank < plan_.ranks(); ++rank) {
          const bool goes = goes_to(rank);  // writes the ids that term() reads
          const auto term = of.term(at, static_cast<uint32_t>(rank));
          EXPECT_EQ(term.is_there, goes);
          EXPECT_EQ(term.row, memory_.address(reads[size_of(rank) + 1], row, 0, set));
        }
        continue;
      }
      bool any = false;
      const bool goes = goes_to(to.rank);
      for (uint32_t slot = 0; slot < of.routed.top_k; ++slot) {
        any = any || device::names_one(of.routed, of.from[1], at, slot, of.routed.first_expert,
                                       of.routed.own_experts);
      }
      EXPECT_EQ(any, goes);
      EXPECT_EQ(of.from[0].address + at * of.from[0].row_bytes,
                memory_.address(reads[0], row, 0, set));
    }
  });
  const bool deals = std::string(GetParam().op).starts_with("moe-ep") && plan_.ranks() > 1;
  if (deals && std::string(GetParam().schedule).starts_with("tiles")) {
    EXPECT_GT(seen, 0);
  }
}

// Of an output by choice every element is stored once, from a row of its own choice, if that is an
// expert's.
TEST_P(RoutedMaps, OutputsByChoiceAreStoredOnce) {
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
  const bool is_up = std::string(GetParam().op).find("-up") != std::string::npos;
  EXPECT_EQ(scattering, is_up ? plan_.ranks() : 0);
}

TEST_P(RoutedMaps, CountsAreSumsOfAllBlocks) {
  if (!only_dispatches()) return;
  int seen = 0;
  each_task([&](const Instr& instr, const RoutedTables& of, int) {
    if (instr.op != Opcode::sum_counts) return;
    ++seen;
    const int rank = plan_.writes(instr)[0].rank;
    ASSERT_EQ(of.task.rows, static_cast<uint32_t>(shares().size(rank)));
    for (int32_t own = 0; own < shares().size(rank); ++own) {
      int32_t count = 0;
      for (int32_t choice = 0; choice < memory_.tokens * memory_.top_k; ++choice) {
        const int32_t id = memory_.id(choice / memory_.top_k, choice % memory_.top_k);
        count += id == shares().begin(rank) + own ? 1 : 0;
      }
      EXPECT_EQ(of.sum_of_counts(static_cast<uint32_t>(own)), count) << rank << " " << own;
    }
  });
  EXPECT_EQ(seen, plan_.ranks() * memory_.sets);
}

// Where a permute hands rows over, too: those of a rank's own experts, each from its token's row.
TEST_P(RoutedMaps, PermutedRowsByChoiceAreStoredOnce) {
  if (!only_dispatches()) return;
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

// Sums of rows that the caller has by choice, which no partition names.
class MovedMaps : public RoutedMaps {};

TEST_P(MovedMaps, SumsTakeTheRowsOfTheRanksChoices) {
  int there = 0;
  each_task([&](const Instr& instr, const RoutedTables& of, int set) {
    ASSERT_NE(instr.op, Opcode::route);
    if (instr.op != Opcode::combine) return;
    const Region &ids = plan_.reads(instr)[1], &y = plan_.reads(instr)[2];
    ASSERT_EQ(of.num_terms(), static_cast<uint32_t>(memory_.top_k));
    for (int32_t token = 0; token < ids.rows(); ++token) {
      for (int32_t slot = 0; slot < memory_.top_k; ++slot) {
        const int32_t all = memory_.first_token(ids) + token;
        memory_.write_id(ids, token, slot, set, all);
        const auto term = of.term(static_cast<uint32_t>(token), static_cast<uint32_t>(slot));
        ASSERT_EQ(term.is_there,
                  memory_.is_experts(all, slot, shares().begin(y.rank), shares().size(y.rank)));
        EXPECT_EQ(term.row, memory_.address(y, token * memory_.top_k + slot, 0, set));
        there += term.is_there ? 1 : 0;
      }
    }
  });
  int all = 0;
  for (int32_t token = 0; token < memory_.tokens; ++token) {
    for (int32_t slot = 0; slot < memory_.top_k; ++slot) {
      all += memory_.is_experts(token, slot, 0, memory_.experts) ? 1 : 0;
    }
  }
  EXPECT_EQ(there, all * memory_.sets);
}

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

INSTANTIATE_TEST_SUITE_P(Plans, MovedMaps,
                         testing::Values(MapsCase{"combine t=45 h=64 experts=7 k=3 ranks=3",
                                                  "tiles,tile=16x64"},
                                         MapsCase{"combine-i64 t=45 h=64 experts=6 k=3 ranks=2",
                                                  "tiles,sync=counter,tile=16x64"}));

INSTANTIATE_TEST_SUITE_P(
    Plans, RoutedMaps,
    testing::Values(
        MapsCase{"moe-ep t=45 h=64 f=96 experts=6 k=3 ranks=3", "tiles,tile=16x64"},
        MapsCase{"moe-ep t=45 h=64 f=96 experts=6 k=3 ranks=3",
                 "tiles,tile=16x64,granularity=chunk"},
        MapsCase{"moe-ep t=45 h=64 f=96 experts=7 k=3 ranks=3", "tiles,tile=16x64"},
        MapsCase{"moe-ep-i64 t=45 h=64 f=96 experts=7 k=3 ranks=3", "tiles,tile=16x64"},
        MapsCase{"moe-tp-i64 t=45 h=64 f=96 experts=6 k=3 ranks=2", "tiles,tile=16x64"},
        MapsCase{"moe-ep t=45 h=64 f=96 experts=6 k=3 ranks=1", "sequential,tile=64x64"},
        MapsCase{"moe-ep t=173 h=64 f=96 experts=5 k=2 ranks=1", "sequential,tile=128x64"},
        MapsCase{"moe-tp t=333 h=64 f=96 experts=5 k=2 ranks=2",
                 "tiles,tile=128x64,granularity=chunk"},
        MapsCase{"moe-tp t=45 h=64 f=96 experts=6 k=3 ranks=2", "tiles,tile=16x64"},
        MapsCase{"moe-tp-up t=45 h=64 f=192 experts=6 k=3 ranks=3", "tiles,tile=16x64"},
        MapsCase{"moe-tp-up t=45 h=64 f=240 experts=6 k=3 ranks=3",
                 "tiles,tile=24x32,granularity=chunk"},
        MapsCase{"moe-tp-up t=45 h=64 f=96 experts=6 k=3 ranks=1", "sequential,tile=64x64"},
        MapsCase{"dispatch t=45 h=64 experts=7 k=3 ranks=3", "tiles,tile=16x64"},
        MapsCase{"dispatch t=45 h=64 experts=7 k=3 ranks=3", "tiles,tile=16x64,granularity=chunk"},
        MapsCase{"dispatch-i64 t=45 h=64 experts=6 k=3 ranks=1", "sequential,tile=64x64"}));

}  // namespace
}  // namespace stretto::cuda
