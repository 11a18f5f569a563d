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

using testing::HasSubstr, testing::Not;

// `auto` takes tiles for it, by what is near; and no library is needed to run these.
const Segment kProduct{kGemmRs, 4096, 5376, 6144, 2, DType::bf16};

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

TEST(Learning, ClocksThatStandStillSayNothing) {
  const LearntFileOfATest file;
  EXPECT_EQ(run_inside(stub(file.setting()), "InsideTheStub.LearnsNothing"), 0);
  EXPECT_FALSE(file.exists());
}

TEST(Learning, WrongBudgetsAreRefused) {
  EXPECT_EQ(run_inside(stub("STRETTO_MEASURE_MS=soon"), "InsideTheStub.RefusesTheVariable"), 0);
}

std::string reason_of(const OperationOptions& options) {
  Context context(2, 1);
  OperationOptions with = options;
  with.rows = RowCount::fixed;
  const Operation operation(context, kProduct, with);
  std::cout << operation.schedule(kProduct.m) << ": " << operation.reason(kProduct.m) << "\n";
  return operation.reason(kProduct.m);
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

TEST(InsideTheStub, TakesWhatWasLearnt) {
  STRETTO_INSIDE();
  EXPECT_THAT(reason_of({}), HasSubstr("measured when it was made before: "));
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
