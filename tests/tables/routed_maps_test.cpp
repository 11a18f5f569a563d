// What tables say of rows that choose experts, followed on the host: which rows a partition has,
// which are added up, sent and merged.
#include "routed_maps.h"

#include <gtest/gtest.h>

namespace stretto::cuda {
namespace {

using device::MoverTask;
using device::RoutedTables;
using device::RoutedTask;

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
