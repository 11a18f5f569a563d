// How a schedule says who moves what an edge at no product has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/cases.h"
#include "schedule/rows_with_tiles.h"
#include "schedule/short_text.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Operator normed(int ranks = 4) {
  return make_operator("gemm-rs-norm-ag", {{"m", 512}, {"n", 512}, {"k", 512}}, ranks);
}

std::string refusal(const std::string& text, const Operator& op) {
  try {
    parse_schedules(text, op, machine_of());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Edges, HaveTheirMoverBehindTheProducts) {
  const Operator op = normed();
  for (const char* text : {"tiles/out:mover=copy-engine", "out : mover=copy-engine / tiles"}) {
    const OperatorSchedule schedule = parse_schedules(text, op, machine_of());
    ASSERT_EQ(schedule.edges.size(), 1u);
    EXPECT_EQ(schedule.mover_of_edge("out"), Mover::copy_engine);
    EXPECT_EQ(schedule.mover_of_edge("other"), Mover::epilogue);
    EXPECT_EQ(parse_schedules(to_string(schedule), op, machine_of()), schedule);
    EXPECT_EQ(short_text(schedule, op, machine_of()), "tiles/out:mover=copy-engine");
    EXPECT_THAT(legal(op, schedule, machine_of()), IsEmpty());
  }
  // What no word is for: those who have made the rows.
  EXPECT_EQ(parse_schedules("tiles/out:mover=epilogue", op, machine_of()),
            parse_schedules("tiles", op, machine_of()));
}

// What moves nothing is no edge, and has nobody to send it.
TEST(Edges, AreNoRowsBehindAProduct) {
  const Operator op = make_operator("gemm-ar-norm", {{"m", 40}, {"n", 64}, {"k", 64}}, 2);
  EXPECT_EQ(refusal("tiles/out:waves", op),
            "out has rows behind a product, which move nothing and have no schedule: leave it out; "
            "beside tiles that are sent one by one, out:mover=epilogue has their lanes take them; "
            "found 'waves'");
  const OperatorSchedule advised = parse_schedules("tiles/out:mover=epilogue", op, machine_of());
  EXPECT_THAT(legal(op, advised, machine_of()), IsEmpty());
  EXPECT_EQ(refusal("/", op), refusal("", op));
}

Operator fed_and_drained() {
  const auto graph = parse_graph(
      "graph own m n k\n"
      "input x [m, k] rows\n"
      "input w [n, k] cols\n"
      "y = gemm x w\n"
      "output y rows\n");
  return make_graph(graph, {{"m", 512}, {"n", 512}, {"k", 512}}, 4, DType::bf16);
}

TEST(Edges, InFrontOfAProductHaveASchedule) {
  const Operator op = fed_and_drained();
  const OperatorSchedule schedule = parse_schedules("tiles/y.in:decomposed", op, machine_of());
  EXPECT_THAT(schedule.names, ElementsAre("y.in", "y"));
  EXPECT_EQ(schedule.products[0].mover, Mover::copy_engine);
  EXPECT_EQ(schedule.products[1].mover, Mover::epilogue);
  EXPECT_EQ(parse_schedules(to_string(schedule), op, machine_of()), schedule);
  EXPECT_EQ(short_text(schedule, op, machine_of()), "y.in:decomposed/y:tiles");
  EXPECT_THAT(legal(op, schedule, machine_of()), IsEmpty());
}

TEST(Edges, InFrontOfAProductSayNothingOfTiles) {
  const Operator op = fed_and_drained();
  const auto reasons = [&](const std::string& text) {
    return legal(op, parse_schedules("tiles/y.in:" + text, op, machine_of()), machine_of());
  };
  constexpr char kSays[] = " with what only brings a product its input, ";
  EXPECT_THAT(reasons("tiles,split-k=2"), ElementsAre(std::string("y.in: split-k=2") + kSays +
                                                      "where nobody multiplies: take split-k=1"));
  EXPECT_THAT(reasons("sequential,gemm=library"),
              ElementsAre(std::string("y.in: gemm=library") + kSays +
                          "where nobody multiplies: take gemm=tiles"));
  EXPECT_THAT(reasons("sequential,granularity=chunk,chunks=2"),
              ElementsAre(std::string("y.in: granularity=chunk and mover=nccl") + kSays +
                          "which nobody takes chunk by chunk: take granularity=whole"));
  EXPECT_THAT(reasons("tiles,mover=epilogue"),
              ElementsAre(HasSubstr("y.in: mover=epilogue pushes a GEMM's output")));
  EXPECT_THAT(
      legal(op, parse_schedules("library/y.in:tiles", op, machine_of()), machine_of()),
      ElementsAre("y: gemm=library behind y.in with sync=flag, which its kernel knows "
                  "nothing of: take sync=event and granularity=whole there, or gemm=tiles"));
  EXPECT_THAT(reasons("tiles,sync=event,granularity=whole"), IsEmpty());
  EXPECT_EQ(refusal("tiles/z.in:slices", op),
            "unknown segment 'z.in' (did you mean 'y.in'?); known: y.in, y");
}

TEST(Edges, AreRefusedWithWhatWouldBeRight) {
  const Operator op = normed();
  EXPECT_EQ(refusal("tiles/out:slices", op),
            "out is an edge at no product, which has a mover alone: expected "
            "out:mover=copy-engine, found 'slices'");
  EXPECT_THAT(refusal("tiles/out:mover=copies", op), HasSubstr("unknown mover 'copies'"));
  EXPECT_EQ(refusal("tiles/out:mover=nccl/out:mover=nccl", op), "out is given twice");
  EXPECT_THAT(refusal("tiles/uot:mover=nccl", op), HasSubstr("known: "));
  EXPECT_THAT(refusal("out:mover=nccl", op), HasSubstr("no schedule for "));
  const auto reasons = [&](const char* text) {
    return legal(op, parse_schedules(text, op, machine_of()), machine_of());
  };
  EXPECT_THAT(reasons("sequential/out:mover=nccl"), IsEmpty());
  // No text has it: the norm's rows are called so too.
  OperatorSchedule told = parse_schedules("tiles", op, machine_of());
  told.edges = {{"out", Mover::epilogue}};
  EXPECT_THAT(legal(op, told, machine_of()),
              ElementsAre("out: mover=epilogue of a gather is what it has without a word: leave it "
                          "out"));
  EXPECT_THAT(reasons("tiles/out:mover=comm-blocks"),
              ElementsAre("out: mover=comm-blocks of an edge at no product, beside which there is "
                          "nothing to compute: take mover=epilogue, whose blocks are all"));
  EXPECT_THAT(reasons("tiles,sync=flag/out:mover=nccl"),
              ElementsAre("out: mover=nccl beside p's sync=flag, whose kernels would wait for it: "
                          "take sync=event for all products, or mover=epilogue or copy-engine"));
  EXPECT_THAT(reasons("low-latency/out:mover=nccl"),
              ElementsAre("out: mover=nccl beside p's collectives=low-latency: take "
                          "collectives=nccl, or mover=epilogue or copy-engine"));
  OperatorSchedule other = parse_schedules("tiles", op, machine_of());
  other.edges = {{"y", Mover::copy_engine}};
  EXPECT_THAT(legal(op, other, machine_of()), ElementsAre(HasSubstr("y: unknown edge 'y'")));
}

Operator normed_everywhere(int64_t n = 512, DType dtype = DType::bf16) {
  return make_operator("gemm-ar-norm", {{"m", 512}, {"n", n}, {"k", 512}}, 4, dtype);
}
constexpr const char* kEpilogue = "tiles,mover=epilogue,comm-sms=0";

TEST(RowsBehindSums, AreTakenByTheLanesOfTilesWhereOneSaysSo) {
  const Operator op = normed_everywhere();
  const std::string text = std::string(kEpilogue) + "/out:mover=epilogue";
  const OperatorSchedule schedule = parse_schedules(text, op, machine_of());
  EXPECT_TRUE(takes_rows_with_tiles(schedule, op.segments[1]));
  EXPECT_FALSE(takes_rows_with_tiles(schedule, op.segments[0]));
  EXPECT_EQ(parse_schedules(to_string(schedule), op, machine_of()), schedule);
  EXPECT_THAT(legal(op, schedule, machine_of()), IsEmpty());
  const OperatorSchedule apart = parse_schedules(kEpilogue, op, machine_of());
  EXPECT_FALSE(takes_rows_with_tiles(apart, op.segments[1]));
  EXPECT_NE(schedule, apart);
}

TEST(RowsBehindSums, AreRefusedWithWhatWouldBeRight) {
  const auto reason = [&](const Operator& op, const std::string& text) {
    const auto all = legal(op, parse_schedules(text, op, machine_of()), machine_of());
    return all.empty() ? std::string() : all.front();
  };
  const Operator op = normed_everywhere();
  const std::string tiles = kEpilogue, by_tiles = "/out:mover=epilogue";
  EXPECT_EQ(reason(op, "slices" + by_tiles),
            "out: mover=epilogue of rows behind p, whose lanes then take them: take "
            "granularity=tile,mover=epilogue,comm-sms=0 there, or leave the rows out");
  EXPECT_THAT(reason(op, tiles + ",sync=counter" + by_tiles), HasSubstr("take sync=flag there"));
  EXPECT_THAT(reason(op, tiles + ",partials=fp32" + by_tiles),
              HasSubstr("take partials=bf16 there"));
  EXPECT_THAT(reason(op, "split=2/" + tiles + by_tiles), HasSubstr("take split=1"));
  EXPECT_THAT(reason(op, tiles + "/out:mover=copy-engine"),
              HasSubstr("mover=copy-engine of stages over rows, which move nothing"));
  EXPECT_THAT(reason(normed_everywhere(516), tiles + by_tiles), HasSubstr("a multiple of 8"));
  EXPECT_THAT(reason(normed_everywhere(512, DType::fp32), tiles + ",partials=fp32" + by_tiles),
              HasSubstr("in 16 bits"));
}

}  // namespace
}  // namespace stretto
