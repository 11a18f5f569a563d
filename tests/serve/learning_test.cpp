// Making operations measures, over a driver that runs nothing and whose clock says what it is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "gpu/device.h"
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

// With libraries that do nothing.
std::string stub_with_libraries(const std::string& more) {
  return fmt::format("LD_LIBRARY_PATH={0}/cublas:{0}/matmuls:{0}/nccl:$LD_LIBRARY_PATH ",
                     STRETTO_STUBS) +
         stub("STUB_RESIDENT=1 " + more);
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

// The clock is faster from turn to turn, so that what is tried first does not win.
constexpr const char* kFaster =
    "STRETTO_MEASURE_MS=0 STUB_ELAPSED_MS=0.25 STUB_ELAPSED_FALLS=0.99 STUB_KEEPS_CAPTURES=1 ";

TEST(Learning, GoesOnWhileAServerIsIdle) {
  const LearntFileOfATest file;
  const std::string faster = stub_with_libraries(file.setting() + kFaster);
  EXPECT_EQ(run_inside(faster, "InsideTheStub.LearnsOfBucketsWhileIdle"), 0);
  EXPECT_TRUE(file.exists());
  EXPECT_EQ(run_inside(faster, "InsideTheStub.DoesNotLearnOfWhatWasNamed"), 0);
}

TEST(Learning, GoesOnBesideGraphsThatHoldPlans) {
  const LearntFileOfATest file;
  EXPECT_EQ(run_inside(stub_with_libraries(file.setting() + kFaster),
                       "InsideTheStub.LearnsBesideGraphsThatHoldPlans"),
            0);
}

TEST(Learning, WhileIdleIsAgreedUponByAllRanks) {
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
  // Files do not know a caller's own, which is known here, and is another where its text is.
  const auto own = [](const char* activation) {
    const std::string text =
        "graph mlp m h f\ninput x [m, h] rows\ninput wu [f, h] rows\ninput wd [h, f] cols\n"
        "u = gemm x wu\na = " +
        std::string(activation) + " u\ny = gemm a wd\noutput y rows\n";
    return make_graph(parse_graph(text), {{"m", 256}, {"h", 512}, {"f", 1024}}, 2, DType::bf16);
  };
  EXPECT_THAT(reason_of_graph(context, own("silu")), HasSubstr("the fastest when measured, "));
  EXPECT_THAT(reason_of_graph(context, own("silu")), HasSubstr("measured before: "));
  EXPECT_THAT(reason_of_graph(context, own("gelu")), HasSubstr("the fastest when measured, "));
}

TEST(InsideTheStub, TakesWhatWasLearntOfGraphs) {
  STRETTO_INSIDE();
  Context context(2, 1);
  for (const Operator& op : graphs()) {
    EXPECT_THAT(reason_of_graph(context, op), HasSubstr("measured before: "));
  }
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
