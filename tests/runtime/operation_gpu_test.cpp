// Operations through the public interface: calls of changing rows, graphs, the caller's tensors,
// and going on after an error.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "gpu_plans.h"
#include "integer_tensors.h"
#include "stall_guard.h"
#include "stretto/context.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using testing::HasSubstr;

class OperationOnGpus : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (const std::string why = runtime::why_not_here(ranks_); !why.empty()) STRETTO_SKIP(why);
    context_ = std::make_unique<Context>(ranks_, 1);
  }

  void write(const Operation& operation, int64_t rows, uint64_t seed) {
    const Operator op = operation.at(rows);
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const Input input : {Input::a, Input::b}) {
        const auto bits = runtime::input_bits(op, seed, input, rank);
        context_->copy_to_gpu(rank, input == Input::a ? operation.a(rank) : operation.b(rank),
                              bits.data(), bits.size() * 2);
      }
    }
  }

  int64_t wrong(const Operation& operation, int64_t rows, uint64_t seed) {
    const Operator op = operation.at(rows);
    int64_t wrong = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      std::vector<uint16_t> out(runtime::output_elements(op, rank));
      context_->copy_from_gpu(rank, out.data(), operation.out(rank), out.size() * 2);
      wrong += runtime::wrong_elements(op, seed, rank, out);
    }
    return wrong;
  }

  void run(Operation& operation, int64_t rows) {
    for (int rank = 0; rank < ranks_; ++rank) operation.run(rank, context_->stream(rank), rows);
  }

  const int ranks_ = GetParam();
  std::unique_ptr<Context> context_;
};

TEST_P(OperationOnGpus, ServesEveryOperatorAcrossBuckets) {
  uint64_t seed = 0;
  for (const OpKind kind : {OpKind::ag_gemm, OpKind::gemm_rs, OpKind::gemm_ar}) {
    Operation operation(*context_, {kind, 512, 512, DType::bf16}, 900);
    for (const int64_t rows : {900, 3, 500, 129, 899, 1, 640}) {
      write(operation, rows, ++seed);
      run(operation, rows);
      operation.finish();
      EXPECT_EQ(wrong(operation, rows, seed), 0) << to_string(kind) << " " << rows;
    }
    EXPECT_GT(operation.buckets().size(), ranks_ == 2 ? 3u : 1u);  // fewer for many ranks
    EXPECT_NE(operation.schedule(900).find("rows=bucket"), std::string::npos);
    EXPECT_FALSE(operation.reason(900).empty());
    EXPECT_EQ(operation.reason(900).find("by simulation"), std::string::npos);
  }
}

// Without waiting in between: one rank may be a run of another bucket ahead.
TEST_P(OperationOnGpus, BucketsFollowEachOther) {
  Operation rs(*context_, {OpKind::gemm_rs, 512, 512, DType::bf16}, 1024);
  Operation ar(*context_, {OpKind::gemm_ar, 512, 512, DType::bf16}, 1024);
  constexpr int64_t kRows[] = {1024, 65, 700, 300};
  for (const int64_t rows : kRows) {
    rs.prepare(rows);
    ar.prepare(rows);
  }
  // One rank after the other enqueues all of its calls.
  write(rs, 1024, 5);
  write(ar, 1024, 5);
  for (int round = 0; round < 10; ++round) {
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int call = 0; call < 20; ++call) {
        rs.run(rank, context_->stream(rank), kRows[(round + call) % 4]);
        ar.run(rank, context_->stream(rank), kRows[(round + call + 1) % 4]);
      }
      rs.run(rank, context_->stream(rank), 1024);
      ar.run(rank, context_->stream(rank), 1024);
    }
    rs.finish();
    ar.finish();
    EXPECT_EQ(wrong(rs, 1024, 5), 0);
    EXPECT_EQ(wrong(ar, 1024, 5), 0);
  }
}

// By one plan where that is the fastest for both, and by the schedule that the caller names; with
// as many rows at the most as the bucket has, or as the call says.
TEST_P(OperationOnGpus, FewRowsFromTheHostAndFromMemory) {
  if (ranks_ != 2) STRETTO_SKIP("the shapes were measured with 2 ranks");
  std::vector<cuda::DeviceMemory> rows_at;
  for (int rank = 0; rank < ranks_; ++rank) {
    context_->make_current(rank);
    rows_at.emplace_back(sizeof(int32_t));
  }
  uint64_t seed = 40;
  for (const OpKind kind : {OpKind::ag_gemm, OpKind::gemm_rs, OpKind::gemm_ar}) {
    for (const char* schedule : {"auto", "low-latency"}) {
      SCOPED_TRACE(fmt::format("{} {}", to_string(kind), schedule));
      Operation operation(*context_, {kind, 4096, 3584, DType::bf16}, 64, {.schedule = schedule});
      ASSERT_NE(operation.schedule(64).find("collectives=low-latency"), std::string::npos);
      for (const int32_t rows : {64, 1, 17, 2, 63}) {
        for (const int64_t most : {0, 64, 1}) {  // 0: the host says
          write(operation, rows, ++seed);
          for (int rank = 0; rank < ranks_; ++rank) {
            const auto& at = rows_at[static_cast<size_t>(rank)];
            context_->copy_to_gpu(rank, at.address(), &rows, sizeof(rows));
            if (most == 0) {
              operation.run(rank, context_->stream(rank), rows);
            } else {
              operation.run(rank, context_->stream(rank), at.address(),
                            std::max<int64_t>(most, rows));
            }
          }
          operation.finish();
          EXPECT_EQ(wrong(operation, rows, seed), 0) << rows << ", at most " << most;
        }
      }
    }
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    context_->make_current(rank);
    rows_at[static_cast<size_t>(rank)] = {};
  }
}

// Whom finish() waits for, and nobody else asks about: a stream may end once its calls are done.
TEST_P(OperationOnGpus, StreamsOfTheCallerEndAfterFinish) {
  auto operation = std::make_unique<Operation>(
      *context_, OperationShape{OpKind::gemm_rs, 512, 512, DType::bf16}, 512);
  write(*operation, 512, 4);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<cuda::Stream>> streams;
    for (int rank = 0; rank < ranks_; ++rank) {
      context_->make_current(rank);
      streams.push_back(std::make_unique<cuda::Stream>());
      operation->run(rank, streams.back()->handle(), 512);
    }
    operation->finish();
    EXPECT_EQ(wrong(*operation, 512, 4), 0);
    for (int rank = 0; rank < ranks_; ++rank) {
      context_->make_current(rank);
      streams[static_cast<size_t>(rank)].reset();
    }
    operation->finish();
  }
  operation.reset();
  EXPECT_EQ(cuda::driver().stream_synchronize(nullptr), cuda::kSuccess);
}

// The streams stand still until all calls have returned; and what a thread captures may neither
// wait nor allocate, or the driver ends the capture.
TEST_P(OperationOnGpus, CallsNeitherWaitForTheGpuNorAllocate) {
  if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("streams that stand still may hold up other ranks'");
  constexpr int64_t kRows = 500;
  constexpr unsigned kAtLeast = 0;
  const uint64_t closed = 0, open = 1;
  StallGuard guard(std::chrono::seconds(30));
  for (const OpKind kind : {OpKind::ag_gemm, OpKind::gemm_rs, OpKind::gemm_ar}) {
    guard.at(std::string(to_string(kind)) + ": the bucket, and its first calls");
    Operation operation(*context_, {kind, 512, 512, DType::bf16}, kRows);
    write(operation, kRows, 5);
    for (int i = 0; i < 2; ++i) run(operation, kRows);
    operation.finish();
    std::vector<std::unique_ptr<cuda::Stream>> streams;
    std::vector<cuda::DeviceMemory> gates;
    for (int rank = 0; rank < ranks_; ++rank) {
      context_->make_current(rank);
      streams.push_back(std::make_unique<cuda::Stream>());
      gates.emplace_back(sizeof(closed));
      context_->copy_to_gpu(rank, gates.back().address(), &closed, sizeof(closed));
      cuda::check(cuda::driver().stream_wait_value(streams.back()->handle(), gates.back().address(),
                                                   open, kAtLeast),
                  "hold a stream");
    }
    const auto twice = [&](int rank) {
      for (int i = 0; i < 2; ++i) {
        operation.run(rank, streams[static_cast<size_t>(rank)]->handle(), kRows);
      }
    };
    guard.at(std::string(to_string(kind)) + ": calls behind streams that stand still");
    for (int i = 0; i < 10; ++i) {
      for (int rank = 0; rank < ranks_; ++rank) twice(rank);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      context_->copy_to_gpu(rank, gates[static_cast<size_t>(rank)].address(), &open, sizeof(open));
    }
    operation.finish();
    EXPECT_EQ(wrong(operation, kRows, 5), 0);

    guard.at(std::string(to_string(kind)) + ": captured calls");
    std::vector<std::unique_ptr<cuda::Graph>> graphs;
    write(operation, kRows, 6);
    for (int rank = 0; rank < ranks_; ++rank) {
      context_->make_current(rank);
      const cuda::Stream& stream = *streams[static_cast<size_t>(rank)];
      graphs.push_back(std::make_unique<cuda::Graph>(stream, [&] { twice(rank); }));
      graphs.back()->launch(stream);
    }
    operation.finish();
    EXPECT_EQ(wrong(operation, kRows, 6), 0);
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto at = static_cast<size_t>(rank);
      context_->make_current(rank);
      streams[at]->synchronize();
      graphs[at].reset();
      gates[at] = {};
      streams[at].reset();
    }
  }
}

TEST_P(OperationOnGpus, UsesTensorsOfTheCaller) {
  Operation own(*context_, {OpKind::gemm_rs, 256, 512, DType::bf16}, 256);
  OperationOptions options;
  for (int rank = 0; rank < ranks_; ++rank) {
    options.tensors.push_back({own.a(rank), own.b(rank), own.out(rank)});
  }
  Operation operation(*context_, {OpKind::gemm_rs, 256, 512, DType::bf16}, 256, options);
  EXPECT_EQ(operation.out(1), own.out(1));
  write(operation, 200, 9);
  run(operation, 200);
  operation.finish();
  EXPECT_EQ(wrong(operation, 200, 9), 0);

  options.tensors[1].b = 0;
  EXPECT_THROW(Operation(*context_, {OpKind::gemm_rs, 256, 512, DType::bf16}, 256, options),
               UsageError);
}

// Owners' blocks of which the last is shorter, and NCCL, which cannot serve.
TEST_P(OperationOnGpus, FixedRowsTakeEverySchedule) {
  constexpr int64_t kRows = 517;
  uint64_t seed = 60;
  for (const OpKind kind : {OpKind::ag_gemm, OpKind::gemm_rs, OpKind::gemm_ar}) {
    for (const char* schedule : {"auto", "tiles", "sequential"}) {
      SCOPED_TRACE(std::string(to_string(kind)) + " " + schedule);
      // NCCL takes one rank a GPU.
      if (cuda::ranks_a_gpu() > 1 && std::string_view(schedule) == "sequential") continue;
      Operation operation(*context_, {kind, 960, 576, DType::bf16}, kRows,
                          {.schedule = schedule, .rows = RowCount::fixed});
      EXPECT_EQ(operation.room(), kRows);
      for (int round = 0; round < 3; ++round) {
        write(operation, kRows, ++seed);
        run(operation, kRows);
        operation.finish();
        EXPECT_EQ(wrong(operation, kRows, seed), 0);
      }
      EXPECT_EQ(operation.schedule(kRows).find("rows=bucket"), std::string::npos);
      EXPECT_THROW(operation.run(0, context_->stream(0), kRows - 1), UsageError);
      EXPECT_THROW(operation.run(0, context_->stream(0), operation.a(0), kRows), UsageError);
    }
  }
}

TEST_P(OperationOnGpus, GoesOnAfterARankThatDidNotCome) {
  Operation operation(*context_, {OpKind::gemm_rs, 512, 512, DType::bf16}, 512);
  for (const int64_t rows : {512, 30}) {  // the latter from a graph, which is launched again
    SCOPED_TRACE(rows);
    operation.run(0, context_->stream(0), rows);
    try {
      operation.finish();
      ADD_FAILURE() << "a rank alone came to the end";
    } catch (const SystemError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0"));
      EXPECT_THAT(error.what(), HasSubstr("waited 1000 ms"));
    }
    for (const int64_t next : {rows, rows / 2}) {
      write(operation, next, 3);
      run(operation, next);
      operation.finish();
      EXPECT_EQ(wrong(operation, next, 3), 0) << next;
    }
  }
}

TEST_P(OperationOnGpus, RefusalsSayWhatWouldBeRight) {
  const OperationShape shape{OpKind::gemm_rs, 512, 512, DType::bf16};
  Operation operation(*context_, shape, 100);
  const auto refusal = [&](const auto& work) -> std::string {
    try {
      work();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "done";
  };
  EXPECT_THAT(refusal([&] { operation.run(0, context_->stream(0), 101); }),
              HasSubstr("101 rows; this operation serves 1 to 100"));
  EXPECT_THAT(
      refusal([&] { operation.run(8, context_->stream(0), 10); }),
      HasSubstr(fmt::format("rank 8 is not of this process, which has 0 to {}", ranks_ - 1)));
  // No plan is made for a rank that cannot run it.
  Operation large(*context_, shape, 4096);
  const std::vector<int64_t> buckets = large.buckets();
  EXPECT_THAT(refusal([&] { large.run(8, context_->stream(0), 2000); }),
              HasSubstr("rank 8 is not of this process"));
  EXPECT_EQ(large.buckets(), buckets);
  EXPECT_THAT(refusal([&] { operation.run(0, context_->stream(0), GpuAddress{0x1002}, 10); }),
              HasSubstr("rows at 0x1002: an int32 begins at a multiple of 4"));
  EXPECT_THAT(refusal([&] { Operation(*context_, shape, 100, {.schedule = "sequential"}); }),
              HasSubstr("rows=bucket with mover=nccl"));
  EXPECT_THAT(refusal([&] {
                Operation(*context_, {OpKind::gemm_rs, 512, 511}, 100);
              }),
              HasSubstr("must divide"));
  EXPECT_THAT(refusal([&] { Context(0); }), HasSubstr("a context of 0 ranks"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, OperationOnGpus, testing::Values(2, 4, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace stretto
