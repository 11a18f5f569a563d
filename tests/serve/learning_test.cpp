// Making operations measures, over a driver that runs nothing and whose clock says what it is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "learning_stub.h"
#include "stretto/context.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using testing::ContainsRegex, testing::HasSubstr, testing::Not;

TEST(Learning, GoesByTheBudgetAndKeepsWhatItFound) {
  const LearntFileOfATest file;
  const std::string ticks = stub(file.setting() + "STUB_ELAPSED_MS=0.25 ");
  EXPECT_EQ(run_inside(ticks + "STRETTO_MEASURE_MS=0", "InsideTheStub.MeasuresNothing"), 0);
  EXPECT_FALSE(file.exists());
  EXPECT_EQ(run_inside(ticks + "STRETTO_MEASURE_MS=5000", "InsideTheStub.MeasuresOnce"), 0);
  EXPECT_TRUE(file.exists());
  EXPECT_EQ(run_inside(ticks, "InsideTheStub.TakesWhatWasLearnt"), 0);
}

TEST(Learning, IsOfProductsThatExchangeToo) {
  const LearntFileOfATest file;
  const std::string ticks = stub(file.setting() + "STUB_ELAPSED_MS=0.25 STRETTO_MEASURE_MS=5000 ");
  EXPECT_EQ(run_inside(ticks, "InsideTheStub.MeasuresExchangesOnce"), 0);
}

TEST(Learning, IsOfOperatorsOfSeveralProductsToo) {
  const LearntFileOfATest file;
  const std::string ticks =
      stub_with_libraries(file.setting() + "STUB_ELAPSED_MS=0.25 STRETTO_MEASURE_MS=5000 ");
  EXPECT_EQ(run_inside(ticks, "InsideTheStub.MeasuresGraphsOnce"), 0);
  EXPECT_TRUE(file.exists());
  EXPECT_EQ(run_inside(ticks + "STRETTO_MEASURE_MS=0", "InsideTheStub.TakesWhatWasLearntOfGraphs"),
            0);
}

TEST(Learning, ClocksThatStandStillSayNothing) {
  const LearntFileOfATest file;
  EXPECT_EQ(run_inside(stub(file.setting()), "InsideTheStub.LearnsNothing"), 0);
  EXPECT_FALSE(file.exists());
}

TEST(Learning, WhatWasMeasuredWithAnotherDriverIsMeasuredAgain) {
  const LearntFileOfATest file;
  const std::string ticks = stub(file.setting() + "STUB_ELAPSED_MS=0.25 STRETTO_MEASURE_MS=5000 ");
  EXPECT_EQ(run_inside(ticks, "InsideTheStub.MeasuresOnce"), 0);
  EXPECT_EQ(run_inside(ticks + "STUB_DRIVER=13010", "InsideTheStub.MeasuresOnce"), 0);
  EXPECT_EQ(run_inside(ticks, "InsideTheStub.TakesWhatWasLearnt"), 0);
}

TEST(Learning, LeavesRoomOnTheGpus) {
  const LearntFileOfATest file;
  const std::string ticks = stub(file.setting() + "STUB_ELAPSED_MS=0.25 STRETTO_MEASURE_MS=5000 ");
  // Of two GPUs. Tensors of a rank are 45 MB.
  EXPECT_EQ(run_inside(ticks + "STUB_MEMORY=150000000", "InsideTheStub.HasNoRoomForTensors"), 0);
  EXPECT_EQ(run_inside(ticks + "STUB_MEMORY=240000000", "InsideTheStub.HasNoRoomForAll"), 0);
}

TEST(Learning, MeasuresNothingWhileAStreamIsCaptured) {
  const LearntFileOfATest file;
  const std::string ticks =
      stub(file.setting() + "STUB_ELAPSED_MS=0.25 STRETTO_MEASURE_MS=5000 STUB_CAPTURES=1 ");
  EXPECT_EQ(run_inside(ticks, "InsideTheStub.LeavesCapturesAlone"), 0);
}

// Of two processes rank 0's budget and file count, and both take the same.
TEST(Learning, RanksWithOtherFilesAndBudgetsAgree) {
  const LearntFileOfATest first("first"), second("second");
  const std::string both = stub("STUB_ELAPSED_MS=0.25 STRETTO_FABRIC=exported ");
  const std::string off = "STRETTO_MEASURE_MS=0 ", on = "STRETTO_MEASURE_MS=5000 ";
  const auto run = [&](const std::string& of_rank_0, const std::string& of_rank_1,
                       const char* test) {
    return run_inside_two(both, of_rank_0, of_rank_1, test);
  };
  // Rank 0 is not to measure, and rank 1 is.
  EXPECT_EQ(run(off + first.setting(), on + second.setting(), "RankInTheStub.MeasuresNothing"), 0);
  EXPECT_FALSE(first.exists() || second.exists());
  // The other way round: both measure, and rank 0 alone writes.
  EXPECT_EQ(run(on + first.setting(), off + second.setting(), "RankInTheStub.Measures"), 0);
  EXPECT_TRUE(first.exists());
  EXPECT_FALSE(second.exists());
  // What rank 0 knows both take, budget or not; what rank 1 alone knows is nothing.
  EXPECT_EQ(run(off + first.setting(), on + second.setting(), "InsideTheStub.TakesWhatWasLearnt"),
            0);
  EXPECT_EQ(run(off + second.setting(), on + first.setting(), "RankInTheStub.MeasuresNothing"), 0);
  // One rank of one process each, and both in one, take other times.
  EXPECT_EQ(run_inside(both + first.setting() + off, "InsideTheStub.MeasuresNothing"), 0);
  // A process that may not wait for its GPU is not asked to.
  EXPECT_EQ(run(on + second.setting(), on + first.setting() + "STUB_CAPTURES=1 ",
                "RankInTheStub.LeavesCapturesAlone"),
            0);
  EXPECT_FALSE(second.exists());
}

TEST(Learning, WrongBudgetsAreRefused) {
  EXPECT_EQ(run_inside(stub("STRETTO_MEASURE_MS=soon"), "InsideTheStub.RefusesTheVariable"), 0);
}

std::string reason_of(const OperationOptions& options, const Segment& product = kProduct) {
  Context context(2, 1);
  OperationOptions with = options;
  with.rows = RowCount::fixed;
  const Operation operation(context, product, with);
  std::cout << operation.schedule(product.m) << ": " << operation.reason(product.m) << "\n";
  return operation.reason(product.m);
}

TEST(InsideTheStub, MeasuresNothing) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), Not(HasSubstr("when measured")));
  EXPECT_THAT(reason_of({}), HasSubstr("; sure within 8 %"));
}

TEST(InsideTheStub, MeasuresOnce) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({.measure_ms = 0}), Not(HasSubstr("when measured")));
  EXPECT_THAT(reason_of({.schedule = "tiles"}), testing::IsEmpty());
  const std::string first = reason_of({});
  EXPECT_THAT(first, HasSubstr("the fastest when measured, "));
  EXPECT_THAT(first, HasSubstr("; sure within 3 %"));
  EXPECT_THAT(reason_of({}), HasSubstr("measured before: "));
  EXPECT_THROW(reason_of({.measure_ms = -1}), UsageError);
}

TEST(InsideTheStub, MeasuresExchangesOnce) {
  STRETTO_INSIDE();
  const Segment product{kA2aGemm, 1024, 1536, 1024, 2, DType::bf16};
  EXPECT_THAT(reason_of({.measure_ms = 0}, product), Not(HasSubstr("when measured")));
  EXPECT_THAT(reason_of({}, product), HasSubstr("the fastest when measured, "));
  EXPECT_THAT(reason_of({}, product), HasSubstr("measured before: "));
}

std::vector<Operator> graphs() {
  std::vector<Operator> all;
  for (const char* words :
       {"mlp m=256 h=512 f=1024", "gemm-ar-norm m=256 n=512 k=1024",
        "moe-ep t=256 h=256 f=256 experts=8 k=2", "moe-tp-up-i64 t=256 h=256 f=256 experts=8 k=2",
        "layer m=256 h=512 f=1024 heads=8 kv-heads=4 head-dim=64"}) {
    all.push_back(parse_operator(fmt::format("{} ranks=2 dtype=bf16", words)));
  }
  return all;
}

// A caller's own is kept with its text, and is another where that is.
Operator own_mlp(const char* activation) {
  const std::string text =
      "graph mlp m h f\ninput x [m, h] rows\ninput wu [f, h] rows\ninput wd [h, f] cols\n"
      "u = gemm x wu\na = " +
      std::string(activation) + " u\ny = gemm a wd\noutput y rows\n";
  return make_graph(parse_graph(text), {{"m", 256}, {"h", 512}, {"f", 1024}}, 2, DType::bf16);
}

std::string reason_of_graph(Context& context, const Operator& op) {
  Operation operation(context, op, {.rows = RowCount::fixed});
  const TensorMemory memory(context, operation);
  for (int rank = 0; rank < 2; ++rank) {
    operation.run(rank, context.stream(rank), op.rows(), memory.of(rank));
  }
  operation.finish();
  std::cout << to_string(op) << ": " << operation.schedule(op.rows()) << ": "
            << operation.reason(op.rows()) << "\n";
  return operation.reason(op.rows());
}

TEST(InsideTheStub, MeasuresGraphsOnce) {
  STRETTO_INSIDE();
  Context context(2, 1);
  for (const Operator& op : graphs()) {
    EXPECT_THAT(reason_of_graph(context, op), HasSubstr("the fastest when measured, "));
    EXPECT_THAT(reason_of_graph(context, op), HasSubstr("measured before: "));
  }
  EXPECT_THAT(reason_of_graph(context, own_mlp("silu")), HasSubstr("the fastest when measured, "));
  EXPECT_THAT(reason_of_graph(context, own_mlp("silu")), HasSubstr("measured before: "));
  EXPECT_THAT(reason_of_graph(context, own_mlp("gelu")), HasSubstr("the fastest when measured, "));
}

TEST(InsideTheStub, TakesWhatWasLearntOfGraphs) {
  STRETTO_INSIDE();
  Context context(2, 1);
  for (const Operator& op : graphs()) {
    EXPECT_THAT(reason_of_graph(context, op), HasSubstr("measured before: "));
  }
  EXPECT_THAT(reason_of_graph(context, own_mlp("silu")), HasSubstr("measured before: "));
}

TEST(InsideTheStub, TakesWhatWasLearnt) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), HasSubstr("measured before: "));
}

TEST(InsideTheStub, HasNoRoomForTensors) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), HasSubstr("; not measured: tensors of "));
}

TEST(InsideTheStub, HasNoRoomForAll) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), ContainsRegex("when measured.*, no room for [1-6].*; the next "
                                           "process measures again"));
}

TEST(InsideTheStub, LeavesCapturesAlone) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}),
              HasSubstr("; not measured: a stream of rank 0's GPU is being captured"));
}

TEST(RankInTheStub, MeasuresNothing) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), Not(HasSubstr("measured before: ")));
  EXPECT_THAT(reason_of({}), Not(HasSubstr("the fastest when measured")));
}

TEST(RankInTheStub, Measures) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), HasSubstr("the fastest when measured, "));
}

TEST(RankInTheStub, LeavesCapturesAlone) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}),
              HasSubstr("; not measured: a stream of rank 1's GPU is being captured"));
}

TEST(InsideTheStub, LearnsNothing) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), HasSubstr("; measured nothing: "));
}

TEST(InsideTheStub, RefusesTheVariable) {
  STRETTO_INSIDE();
  EXPECT_THROW(Context(2, 1), UsageError);
}

}  // namespace
}  // namespace stretto
