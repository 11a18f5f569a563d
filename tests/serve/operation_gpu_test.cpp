// Operations through the public interface: which rows they serve, from where, with whose tensors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "operation_on_gpus.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using runtime::OperationOnGpus;

TEST_P(OperationOnGpus, ServesEveryOperatorAcrossBuckets) {
  uint64_t seed = 0;
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
    OperationOnMemory operation(*context_, {kind, 512, 512, DType::bf16}, 900);
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
  OperationOnMemory rs(*context_, {kGemmRs, 512, 512, DType::bf16}, 1024);
  OperationOnMemory ar(*context_, {kGemmAr, 512, 512, DType::bf16}, 1024);
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
      OperationOnMemory operation(*context_, {kind, 4096, 3584, DType::bf16}, 64,
                                  {.schedule = schedule});
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

// Call after call with other tensors, each with a result of its own, as a model's layers have them.
TEST_P(OperationOnGpus, TensorsComeWithTheCall) {
  constexpr int64_t kRows = 500;
  uint64_t seed = 80;
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
    for (const char* schedule : {"auto", "tiles", "decomposed", "low-latency"}) {
      for (const RowCount rows : {RowCount::fixed, RowCount::bucket}) {
        const OperationOptions options{.schedule = schedule, .rows = rows};
        std::unique_ptr<OperationOnMemory> operation;
        try {
          operation = std::make_unique<OperationOnMemory>(
              *context_, ProductShape{kind, 512, 512, DType::bf16}, kRows, options);
        } catch (const UsageError&) {
          continue;  // not all serve
        }
        SCOPED_TRACE(fmt::format("{} {} {}", to_string(kind), schedule, to_string(rows)));
        std::vector<std::unique_ptr<TensorMemory>> layers;
        for (int layer = 0; layer < 3; ++layer) {
          layers.push_back(std::make_unique<TensorMemory>(*context_, *operation));
        }
        // The second call with the same addresses finds them known, and is captured; the third is
        // launched.
        for (const int calls : {1, 1, 3}) {
          uint64_t written = seed;
          for (const auto& layer : layers) {
            write_to(*layer, operation->product(kRows), ++written);
          }
          for (int call = 0; call < calls; ++call) {
            for (const auto& layer : layers) {
              for (int rank = 0; rank < ranks_; ++rank) {
                operation->Operation::run(rank, context_->stream(rank), kRows, layer->of(rank));
              }
            }
          }
          operation->finish();
          for (const auto& layer : layers) {
            EXPECT_EQ(wrong_in(*layer, operation->product(kRows), ++seed), 0) << calls;
          }
        }
      }
    }
  }
}

TEST_P(OperationOnGpus, TensorsThatAreOnlyMultipliedMayHaveGaps) {
  constexpr int64_t kRows = 256, kN = 256, kStride = 640;
  OperationOnMemory operation(*context_, {kGemmRs, kN, 512, DType::bf16}, kRows,
                              {.schedule = "tiles", .rows = RowCount::fixed});
  const Segment op = operation.product(kRows);
  write(operation, kRows, 9);
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto bits = runtime::input_bits(op, 9, Input::a, rank);
    const auto cols = static_cast<size_t>(op.local_k());
    const GpuAddress a = context_->allocate(rank, kRows * kStride * 2);
    for (size_t row = 0; row < kRows; ++row) {
      context_->copy_to_gpu(rank, a + row * kStride * 2, bits.data() + row * cols, cols * 2);
    }
    operation.Operation::run(
        rank, context_->stream(rank), kRows,
        {{"out", operation.out(rank)}, {"a", a, kStride}, {"b", operation.b(rank)}});
  }
  operation.finish();
  EXPECT_EQ(wrong(operation, kRows, 9), 0);
  EXPECT_EQ(operation.copied_bytes(), 0u);
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
      OperationOnMemory operation(*context_, {kind, 960, 576, DType::bf16}, kRows,
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
