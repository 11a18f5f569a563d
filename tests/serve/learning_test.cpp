// Making operations measures, over a driver that runs nothing and whose clock says what it is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "inside.h"
#include "stretto/context.h"
#include "stretto/error.h"
#include "stretto/segment.h"

namespace stretto {
namespace {

using testing::ContainsRegex, testing::HasSubstr, testing::Not;

// `auto` takes tiles for it, by what is near; and no library is needed to run these.
const Segment kProduct{kGemmRs, 1024, 5376, 6144, 2, DType::bf16};

std::string stub(const std::string& more) {
  return fmt::format(
      "LD_LIBRARY_PATH={0}/driver:{0}/nvrtc:$LD_LIBRARY_PATH STRETTO_CACHE_PATH=/nowhere "
      "STUB_GPUS='NVIDIA H200:132:9.0;NVIDIA H200:132:9.0' {1}",
      STRETTO_STUBS, more);
}

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

#define STRETTO_INSIDE() \
  if (is_outside()) GTEST_SKIP() << "a part of Learning"

TEST(InsideTheStub, MeasuresNothing) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), Not(HasSubstr("when it was made")));
  EXPECT_THAT(reason_of({}), HasSubstr("; sure within 8 %"));
}

TEST(InsideTheStub, MeasuresOnce) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({.measure_ms = 0}), Not(HasSubstr("when it was made")));
  EXPECT_THAT(reason_of({.schedule = "tiles"}), testing::IsEmpty());
  const std::string first = reason_of({});
  EXPECT_THAT(first, HasSubstr("the fastest when it was made, "));
  EXPECT_THAT(first, HasSubstr("; sure within 3 %"));
  EXPECT_THAT(reason_of({}), HasSubstr("measured when it was made before: "));
  EXPECT_THROW(reason_of({.measure_ms = -1}), UsageError);
}

TEST(InsideTheStub, MeasuresExchangesOnce) {
  STRETTO_INSIDE();
  const Segment product{kA2aGemm, 1024, 1536, 1024, 2, DType::bf16};
  EXPECT_THAT(reason_of({.measure_ms = 0}, product), Not(HasSubstr("when it was made")));
  EXPECT_THAT(reason_of({}, product), HasSubstr("the fastest when it was made, "));
  EXPECT_THAT(reason_of({}, product), HasSubstr("measured when it was made before: "));
}

TEST(InsideTheStub, TakesWhatWasLearnt) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), HasSubstr("measured when it was made before: "));
}

TEST(InsideTheStub, HasNoRoomForTensors) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), HasSubstr("; not measured: tensors of "));
}

TEST(InsideTheStub, HasNoRoomForAll) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), ContainsRegex("when it was made.*, no room for [1-6].*; the next "
                                           "process measures again"));
}

TEST(InsideTheStub, LeavesCapturesAlone) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}),
              HasSubstr("; not measured: a stream of rank 0's GPU is being captured"));
}

TEST(RankInTheStub, MeasuresNothing) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), Not(HasSubstr("measured when it was made")));
  EXPECT_THAT(reason_of({}), Not(HasSubstr("the fastest when it was made")));
}

TEST(RankInTheStub, Measures) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), HasSubstr("the fastest when it was made, "));
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
