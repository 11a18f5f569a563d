// How a schedule says into how many parts rows are split, and where they are cut.
#include <gtest/gtest.h>

#include "schedule/cases.h"
#include "schedule/row_parts.h"
#include "schedule/short_text.h"

namespace stretto {
namespace {

Operator mlp(int64_t rows, int ranks = 4) {
  return make_operator("mlp", {{"m", rows}, {"h", 512}, {"f", 2048}}, ranks);
}

std::string refusal(const std::string& text, const Operator& op) {
  try {
    parse_schedules(text, op, machine_of());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Split, IsAWordOfTheOperatorsSchedule) {
  const Operator op = mlp(4096);
  const OperatorSchedule schedule = parse_schedules("split=2/tiles/down:slices", op, machine_of());
  EXPECT_EQ(schedule.split, 2);
  EXPECT_EQ(to_string(schedule).substr(0, 11), "split=2/up:");
  EXPECT_EQ(parse_schedules(to_string(schedule), op, machine_of()), schedule);
  const std::string text = short_text(schedule, op, machine_of());
  EXPECT_EQ(text, "split=2/up:tiles/down:slices");
  EXPECT_EQ(parse_schedules(text, op, machine_of()), schedule);
  // Wherever it stands; one part is none.
  EXPECT_EQ(parse_schedules("tiles/down:slices / split=2", op, machine_of()), schedule);
  EXPECT_EQ(parse_schedules("split=1/tiles", op, machine_of()),
            parse_schedules("tiles", op, machine_of()));
}

TEST(Split, OfOneProductStandsBeforeItsText) {
  const Operator op = gemm_rs();
  const OperatorSchedule schedule = parse_schedules("split=3/tiles", op, machine_of());
  EXPECT_EQ(to_string(schedule), "split=3/" + to_string(schedule.first()));
  EXPECT_EQ(parse_schedules(to_string(schedule), op, machine_of()), schedule);
}

TEST(Split, IsRefusedWithWhatWouldBeRight) {
  EXPECT_EQ(refusal("split=4/tiles", mlp(12)),
            "split=4 of 3 rows that a rank owns: take split=3 or less");
  EXPECT_EQ(refusal("split=2/tiles", mlp(3)), "split=2 of one row that a rank owns: take split=1");
  const Operator reduced = make_operator("gemm-ar", {{"m", 3}, {"n", 64}, {"k", 64}}, 4);
  EXPECT_EQ(refusal("split=4/tiles", reduced),
            "split=4 of 3 rows that there are: take split=3 or less");
  EXPECT_EQ(refusal("split=0/tiles", mlp(64)), "split='0': expected a whole number from 1 to 16");
  EXPECT_EQ(refusal("split=17/tiles", mlp(640)),
            "split='17': expected a whole number from 1 to 16");
  EXPECT_EQ(refusal("split=two/tiles", mlp(64)),
            "split='two': expected a whole number from 1 to 16");
  EXPECT_EQ(refusal("split=2/split=3/tiles", mlp(64)), "split is given twice");
}

TEST(Split, StandsBesideSegmentsOfWhichEachIsGivenOnce) {
  EXPECT_EQ(refusal("tiles/down:tiles/down:slices", mlp(64)), "down is given twice");
  EXPECT_EQ(refusal("split=2/down:tiles/up:slices/up:waves", mlp(64)), "up is given twice");
}

TEST(Split, ServesNoFewerRowsThanThePlanHas) {
  OperatorSchedule schedule = parse_schedules("split=2/slices", gemm_rs(), machine_of());
  schedule.products[0].rows = RowCount::bucket;
  const std::vector<std::string> reasons = legal(gemm_rs(), schedule, machine_of());
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_EQ(reasons[0],
            "split=2 cuts rows where the plan says, and rows=bucket serves fewer: take rows=fixed "
            "or split=1");
}

// A tensor whose columns are rows of another: attention's scores.
TEST(Split, IsRefusedWhereColumnsGrowWithRows) {
  const auto graph = parse_graph(
      "graph scores m h\n"
      "input q [m, h] whole\n"
      "input k [m, h] rows\n"
      "s = gemm q k\n"
      "output s cols\n");
  const Operator op = make_graph(graph, {{"m", 64}, {"h", 64}}, 2, DType::bf16);
  EXPECT_EQ(
      why_no_split(op, 2),
      "split serves operators whose tensors have m rows or no row of them, and s is [64, 64]: "
      "take split=1");
}

TEST(Split, IsRefusedWhereAllRowsAreHandedOver) {
  const auto graph = parse_graph(
      "graph kept m h\n"
      "input x [m, h] rows\n"
      "input w [h, h] rows\n"
      "y = gemm x w\n"
      "all = gather x\n"
      "output y cols\n"
      "output all whole\n");
  const Operator op = make_graph(graph, {{"m", 64}, {"h", 64}}, 2, DType::bf16);
  EXPECT_EQ(why_no_split(op, 2),
            "split=2 of a gather that hands over all rows as all: take split=1");
}

// What the caller has by choice is cut by source, as presets say where nobody says otherwise.
TEST(Split, OfRowsByChoiceTakesAPartitionForEachSource) {
  const Operator op = make_operator(
      "moe-tp-up", {{"t", 4096}, {"h", 512}, {"f", 1024}, {"experts", 64}, {"k", 8}}, 4);
  const auto granularity = [&](const char* text) {
    return parse_schedules(text, op, machine_of()).products[0].granularity;
  };
  ASSERT_EQ(granularity("tiles"), Granularity::whole);
  EXPECT_EQ(granularity("split=2/tiles"), Granularity::chunk);
  EXPECT_EQ(granularity("split=2/sequential,mover=copy-engine"), Granularity::chunk);
  EXPECT_EQ(granularity("split=2/tiles,granularity=whole"), Granularity::whole);
  EXPECT_EQ(granularity("split=2/sequential"), Granularity::chunk);
  const OperatorSchedule schedule = schedule_of(find_preset("tiles"), op, machine_of(), 2);
  EXPECT_EQ(schedule, parse_schedules("split=2/tiles", op, machine_of()));
  EXPECT_EQ(parse_schedules(to_string(schedule), op, machine_of()), schedule);
  EXPECT_EQ(parse_schedules(short_text(schedule, op, machine_of()), op, machine_of()), schedule);
  // All tokens are on every rank, and parts are blocks of them.
  const Operator all = make_operator(
      "moe-tp-down-ar", {{"t", 4096}, {"h", 512}, {"f", 1024}, {"experts", 64}, {"k", 8}}, 4);
  EXPECT_EQ(parse_schedules("split=2/tiles,granularity=whole", all, machine_of()).split, 2);
  EXPECT_EQ(lies_apart_in_parts(all), nullptr);
  EXPECT_EQ(row_parts(all, parse_schedules("split=2/tiles", all, machine_of()), machine_of())
                .owners.ranks,
            1);
}

// 80 tile rows of 4 tiles are 2.4 waves of 132 SMs, and so are one whole wave and the rest; halves
// would be four.
TEST(Split, CutsAtWholeWaves) {
  const Segment op{kGemmAr, 10240, 1024, 4096, 2, DType::bf16};
  OperatorSchedule schedule =
      parse_schedules("split=2/tiles,tile=128x256,comm-sms=0", op, machine_of());
  const RowParts parts = row_parts(op, schedule, machine_of());
  ASSERT_EQ(parts.parts.size(), 2u);
  EXPECT_EQ(parts.owners.ranks, 1);
  EXPECT_EQ(parts.parts[0].op.rows(), 33 * 128);
  EXPECT_EQ(parts.parts[1].op.rows(), 10240 - 33 * 128);
}

// Every owner's block is cut in one way, whatever is missing at the end.
TEST(Split, DealsStripesAsAnOperatorOfFewerRowsDealsBlocks) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (int64_t rows = 1; rows <= 70; ++rows) {
      const Segment product{kGemmRs, rows, 64, int64_t{64} * ranks, ranks, DType::bf16};
      for (int split = 2; split <= 4; ++split) {
        if (!why_no_split(product, split).empty()) continue;
        OperatorSchedule schedule = parse_schedules("tiles", product, machine_of());
        schedule.split = split;
        const RowParts parts = row_parts(product, schedule, machine_of());
        const RowShards all{rows, ranks};
        for (int rank = 0; rank < ranks; ++rank) {
          int64_t covered = 0;
          for (const RowPart& part : parts.parts) {
            EXPECT_EQ(part.stripes.size(rank) > 0 ? part.first : covered, covered);
            covered += part.stripes.size(rank);
          }
          EXPECT_EQ(covered, all.size(rank)) << rows << " rows of " << ranks << " in " << split;
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto
