// Operations through the public interface: which rows they serve, from where, with whose tensors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "operation_on_gpus.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using runtime::OperationOnGpus;

TEST_P(OperationOnGpus, ServesEveryOperatorAcrossBuckets) {
  uint64_t seed = 0;
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
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
  Operation rs(*context_, {kGemmRs, 512, 512, DType::bf16}, 1024);
  Operation ar(*context_, {kGemmAr, 512, 512, DType::bf16}, 1024);
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
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
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

TEST_P(OperationOnGpus, UsesTensorsOfTheCaller) {
  Operation own(*context_, {kGemmRs, 256, 512, DType::bf16}, 256);
  OperationOptions options;
  for (int rank = 0; rank < ranks_; ++rank) {
    options.tensors.push_back({own.a(rank), own.b(rank), own.out(rank)});
  }
  Operation operation(*context_, {kGemmRs, 256, 512, DType::bf16}, 256, options);
  EXPECT_EQ(operation.out(1), own.out(1));
  write(operation, 200, 9);
  run(operation, 200);
  operation.finish();
  EXPECT_EQ(wrong(operation, 200, 9), 0);

  options.tensors[1].b = 0;
  EXPECT_THROW(Operation(*context_, {kGemmRs, 256, 512, DType::bf16}, 256, options), UsageError);
}

// Owners' blocks of which the last is shorter, and NCCL, which cannot serve.
TEST_P(OperationOnGpus, FixedRowsTakeEverySchedule) {
  constexpr int64_t kRows = 517;
  uint64_t seed = 60;
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
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

INSTANTIATE_TEST_SUITE_P(Ranks, OperationOnGpus, testing::Values(2, 4, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace stretto
