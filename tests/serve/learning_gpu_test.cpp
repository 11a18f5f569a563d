// Making operations measures where `auto` is not sure, keeps what it found, and never does so
// inside a call. The environment is read once a process, so this binary starts itself.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "inside.h"
#include "operation_on_gpus.h"

namespace stretto::runtime {
namespace {

using testing::HasSubstr, testing::Not;

constexpr int kRanks = 2;
// No shipped file knows the like of it.
constexpr ProductShape kShape = {kGemmRs, 1152, 2176, DType::bf16};
constexpr int64_t kRows = 640;

TEST(LearningOnGpus, IsKeptForTheNextProcessAndHasAnOffSwitch) {
  if (const std::string why = why_not_here(kRanks); !why.empty()) STRETTO_SKIP(why);
  const LearntFileOfATest file;
  const std::string off = file.setting() + "STRETTO_MEASURE_MS=0";
  const std::string on = file.setting() + "STRETTO_MEASURE_MS=20000";
  EXPECT_EQ(run_inside(off, "InsideLearning.NothingWhereItIsOff"), 0);
  EXPECT_FALSE(file.exists());
  EXPECT_EQ(run_inside(on, "InsideLearning.MeasuresOnce"), 0);
  EXPECT_TRUE(file.exists());
  EXPECT_EQ(run_inside(on, "InsideLearning.TakesWhatWasLearnt"), 0);
}

struct OnTwo {
  Context context{kRanks, 2};
  std::string reason_of(const OperationOptions& options, RowCount rows) {
    OperationOptions with = options;
    with.rows = rows;
    OperationOnMemory operation(context, kShape, kRows, with);
    for (int rank = 0; rank < kRanks; ++rank) operation.run(rank, context.stream(rank), kRows);
    operation.finish();
    std::cout << fmt::format("{}: {}\n", operation.schedule(kRows), operation.reason(kRows));
    return operation.reason(kRows);
  }
};

TEST(InsideLearning, NothingWhereItIsOff) {
  if (is_outside()) GTEST_SKIP() << "a part of LearningOnGpus";
  OnTwo on;
  for (const RowCount rows : {RowCount::fixed, RowCount::bucket}) {
    EXPECT_THAT(on.reason_of({}, rows), Not(HasSubstr("when measured")));
  }
}

TEST(InsideLearning, MeasuresOnce) {
  if (is_outside()) GTEST_SKIP() << "a part of LearningOnGpus";
  OnTwo on;
  EXPECT_THAT(on.reason_of({.measure_ms = 0}, RowCount::fixed), Not(HasSubstr("when measured")));
  EXPECT_THAT(on.reason_of({}, RowCount::fixed), HasSubstr("the fastest when measured, "));
  EXPECT_THAT(on.reason_of({}, RowCount::fixed), HasSubstr("measured before: "));
  // A bucket that a call meets is not measured; one that prepare() makes is.
  OperationOnMemory operation(on.context, kShape, kRows, {.measure_ms = 100});
  for (int rank = 0; rank < kRanks; ++rank) {
    operation.run(rank, on.context.stream(rank), kRows / 2);
  }
  operation.finish();
  EXPECT_THAT(operation.reason(kRows / 2), Not(HasSubstr("when measured")));
  operation.prepare(kRows * 3 / 4);
  EXPECT_THAT(operation.reason(kRows * 3 / 4), HasSubstr("when measured"));
}

TEST(InsideLearning, TakesWhatWasLearnt) {
  if (is_outside()) GTEST_SKIP() << "a part of LearningOnGpus";
  OnTwo on;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(on.reason_of({}, RowCount::fixed), HasSubstr("measured before: "));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::cout << fmt::format("made and run in {:.0f} ms\n", took.count());
}

}  // namespace
}  // namespace stretto::runtime
