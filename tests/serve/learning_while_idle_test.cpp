// Measuring while a server is idle, over a driver that runs nothing and whose clock says what it is
// told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "gpu/device.h"
#include "learning_stub.h"
#include "stretto/context.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using testing::HasSubstr, testing::Not;

// The clock is faster from turn to turn, so that what is tried first does not win.
constexpr const char* kFaster =
    "STRETTO_MEASURE_MS=0 STUB_ELAPSED_MS=0.25 STUB_ELAPSED_FALLS=0.99 STUB_KEEPS_CAPTURES=1 ";

TEST(LearningWhileIdle, GoesOnWhileAServerIsIdle) {
  const LearntFileOfATest file;
  const std::string faster = stub_with_libraries(file.setting() + kFaster);
  EXPECT_EQ(run_inside(faster, "InsideTheStub.LearnsOfBucketsWhileIdle"), 0);
  EXPECT_TRUE(file.exists());
  EXPECT_EQ(run_inside(faster, "InsideTheStub.DoesNotLearnOfWhatWasNamed"), 0);
}

TEST(LearningWhileIdle, GoesOnBesideGraphsThatHoldPlans) {
  const LearntFileOfATest file;
  EXPECT_EQ(run_inside(stub_with_libraries(file.setting() + kFaster),
                       "InsideTheStub.LearnsBesideGraphsThatHoldPlans"),
            0);
}

TEST(LearningWhileIdle, IsAgreedUponByAllRanks) {
  const LearntFileOfATest first("first"), second("second");
  const std::string both = stub_with_libraries(std::string(kFaster) + "STRETTO_FABRIC=exported ");
  const auto run = [&](const std::string& of_rank_1, const char* test) {
    return run_inside_two(both, first.setting(), second.setting() + of_rank_1, test);
  };
  EXPECT_EQ(run("", "RankInTheStub.LearnsByTheBudgetOfRank0"), 0);
  EXPECT_TRUE(first.exists());
  EXPECT_FALSE(second.exists());
  EXPECT_EQ(run("STUB_CAPTURES=1 ", "RankInTheStub.DoesNotLearnInCaptures"), 0);
}

constexpr double kLong = 60'000;

void run_on_all(const Context& context, Operation& operation, int64_t rows,
                const TensorMemory& memory) {
  for (int rank = context.first_rank(); rank < context.first_rank() + context.num_local(); ++rank) {
    operation.run(rank, context.stream(rank), rows, memory.of(rank));
  }
}

TEST(InsideTheStub, LearnsOfBucketsWhileIdle) {
  STRETTO_INSIDE();
  Context context(2, 1);
  Operation operation(context, kProduct, {.rows = RowCount::bucket});
  const TensorMemory memory(context, operation);
  constexpr int64_t kOften = 700, kSeldom = 600;
  for (int i = 0; i < 3; ++i) run_on_all(context, operation, kOften, memory);
  run_on_all(context, operation, kSeldom, memory);
  const int unmeasured = operation.learn(0);
  EXPECT_GE(unmeasured, 3);
  EXPECT_THAT(operation.reason(kOften), Not(HasSubstr("when measured")));
  // However little time that is, what is used most has it first.
  EXPECT_LE(operation.learn(5), unmeasured);
  if (operation.reason(kSeldom).find("when measured") != std::string::npos) {
    EXPECT_THAT(operation.reason(kOften), HasSubstr("when measured"));
  }
  const std::string before = operation.schedule(kSeldom);
  EXPECT_EQ(operation.learn(kLong), 0);
  for (const int64_t rows : {kOften, kSeldom, kProduct.m}) {
    EXPECT_THAT(operation.reason(rows), HasSubstr("when measured")) << rows;
  }
  std::cout << before << " is " << operation.schedule(kSeldom) << " now\n";
  EXPECT_NE(operation.schedule(kSeldom), before);
  run_on_all(context, operation, kSeldom, memory);
  operation.finish();
  EXPECT_THROW(operation.learn(-1), UsageError);
  // What it found others have.
  Operation other(context, kProduct, {.rows = RowCount::bucket});
  EXPECT_THAT(other.reason(kProduct.m), HasSubstr("measured before: "));
}

TEST(InsideTheStub, LearnsBesideGraphsThatHoldPlans) {
  STRETTO_INSIDE();
  for (const bool is_held : {false, true}) {
    for (const bool is_shared : {false, true}) {
      if (is_shared && !is_held) continue;
      Context context(2, {.timeout_s = 1, .workspace_grows = is_shared});
      const Segment product{kGemmRs, is_held ? 1024 : 896, 2048, is_shared ? 4096 : 3072,
                            2,       DType::bf16};
      Operation operation(context, product, {.rows = RowCount::fixed});
      const TensorMemory memory(context, operation);
      for (int rank = 0; rank < 2; ++rank) {
        const cuda::Stream stream(static_cast<cuda::StreamHandle>(context.stream(rank)));
        context.make_current(rank);
        if (is_held) cuda::driver().capture_begin(stream.handle(), cuda::kCaptureRelaxed);
        operation.run(rank, stream.handle(), product.m, memory.of(rank));
      }
      if (is_held) {
        try {
          operation.learn(kLong);
          ADD_FAILURE() << "learnt in a capture";
        } catch (const UsageError& error) {
          EXPECT_STREQ(error.what(),
                       "learn: a stream of rank 0's GPU is being captured: learn when the capture "
                       "has ended");
        }
        for (int rank = 0; rank < 2; ++rank) {
          cuda::GraphHandle graph = nullptr;
          cuda::driver().capture_end(static_cast<cuda::StreamHandle>(context.stream(rank)), &graph);
        }
      }
      const std::string before = operation.schedule(product.m);
      EXPECT_EQ(operation.learn(kLong), 0);
      EXPECT_NE(operation.schedule(product.m), before);
      run_on_all(context, operation, product.m, memory);
      operation.finish();
      EXPECT_EQ(operation.error(), "");
    }
  }
}

TEST(InsideTheStub, DoesNotLearnOfWhatWasNamed) {
  STRETTO_INSIDE();
  Context context(2, 1);
  Operation operation(context, kProduct, {.schedule = "tiles"});
  EXPECT_EQ(operation.learn(kLong), 0);
  EXPECT_EQ(operation.reason(kProduct.m), "");
}

TEST(RankInTheStub, LearnsByTheBudgetOfRank0) {
  STRETTO_INSIDE();
  Context context(2, 1);
  Operation operation(context, kProduct, {.rows = RowCount::fixed});
  const TensorMemory memory(context, operation);
  run_on_all(context, operation, kProduct.m, memory);
  const std::string before = operation.schedule(kProduct.m);
  EXPECT_EQ(operation.learn(context.first_rank() == 0 ? kLong : 0), 0);
  EXPECT_THAT(operation.reason(kProduct.m), HasSubstr("when measured"));
  EXPECT_NE(operation.schedule(kProduct.m), before);
  run_on_all(context, operation, kProduct.m, memory);
  operation.finish();
}

TEST(RankInTheStub, DoesNotLearnInCaptures) {
  STRETTO_INSIDE();
  Context context(2, 1);
  Operation operation(context, kProduct, {.rows = RowCount::bucket});
  try {
    operation.learn(kLong);
    ADD_FAILURE() << "learnt in a capture";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a stream of rank 1's GPU is being captured"));
  }
}

}  // namespace
}  // namespace stretto
