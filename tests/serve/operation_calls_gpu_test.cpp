// Calls of operations: they wait for nothing, what is refused, and how one goes on after an error.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <initializer_list>
#include <memory>
#include <thread>
#include <vector>

#include "operation_on_gpus.h"
#include "problem_of.h"
#include "run/stall_guard.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using runtime::OperationOnGpus;
using testing::HasSubstr;

// Whom finish() waits for, and nobody else asks about: a stream may end once its calls are done.
TEST_P(OperationOnGpus, StreamsOfTheCallerEndAfterFinish) {
  auto operation = std::make_unique<OperationOnMemory>(
      *context_, ProductShape{kGemmRs, 512, 512, DType::bf16}, 512);
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

// One run at a time on a GPU: events say which is next.
TEST_P(OperationOnGpus, CallsMayChangeStreams) {
  OperationOnMemory sums(*context_, {kGemmAr, 512, 512, DType::bf16}, 512, {.schedule = "tiles"});
  OperationOnMemory gather(*context_, {kAgGemm, 512, 512, DType::bf16}, 512);
  write(sums, 512, 1);
  write(gather, 512, 2);
  std::vector<std::unique_ptr<cuda::Stream>> others;
  std::vector<std::unique_ptr<cuda::Event>> events;
  for (int rank = 0; rank < ranks_; ++rank) {
    context_->make_current(rank);
    others.push_back(std::make_unique<cuda::Stream>());
    const cuda::Stream own(static_cast<cuda::StreamHandle>(context_->stream(rank)));
    const cuda::Stream& other = *others.back();
    const auto behind = [&](const cuda::Stream& before, const cuda::Stream& after) {
      events.push_back(std::make_unique<cuda::Event>(false));
      events.back()->record(before);
      after.wait(*events.back());
    };
    for (int i = 0; i < 10; ++i) {
      sums.run(rank, own.handle(), 512);
      behind(own, other);
      gather.run(rank, other.handle(), 512);
      behind(other, own);
    }
  }
  sums.finish();
  gather.finish();
  EXPECT_EQ(wrong(sums, 512, 1), 0);
  EXPECT_EQ(wrong(gather, 512, 2), 0);
  for (size_t i = 0; i < events.size(); ++i) {
    context_->make_current(static_cast<int>(i / 20));
    events[i].reset();
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    context_->make_current(rank);
    others[static_cast<size_t>(rank)].reset();
  }
}

// The streams stand still until all calls have returned.
TEST_P(OperationOnGpus, CallsDoNotWaitForTheGpu) {
  if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("streams that stand still may hold up other ranks'");
  constexpr int64_t kRows = 500;
  constexpr unsigned kAtLeast = 0;
  const uint64_t closed = 0, open = 1;
  StallGuard guard(std::chrono::seconds(30));
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
    guard.at(std::string(to_string(kind)) + ": the bucket, and its first calls");
    OperationOnMemory operation(*context_, {kind, 512, 512, DType::bf16}, kRows);
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

TEST_P(OperationOnGpus, GoesOnAfterARankThatDidNotCome) {
  OperationOnMemory operation(*context_, {kGemmRs, 512, 512, DType::bf16}, 512);
  for (const int64_t rows : {512, 30}) {  // the latter from a graph, which is launched again
    SCOPED_TRACE(rows);
    operation.run(0, context_->stream(0), rows);
    for (int ms = 0; ms < 5000 && operation.error().empty(); ms += 10) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_THAT(operation.error(), HasSubstr("rank 0"));
    try {
      operation.run(0, context_->stream(0), rows);
      ADD_FAILURE() << "the next call said nothing";
    } catch (const SystemError& error) {
      EXPECT_THAT(error.what(), HasSubstr("finish() on all ranks goes on behind it"));
    }
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

// Operations on one workspace: what ran behind a fence that failed is useless, whosever it is.
TEST_P(OperationOnGpus, AFenceThatFailedIsToldToEveryOperation) {
  const ProductShape shape{kGemmRs, 512, 512, DType::bf16};
  const OperationOptions tiles{.schedule = "tiles", .rows = RowCount::fixed};
  // Room for one, so that both lie on the same bytes.
  const size_t room = [&] {
    Context own(ranks_, {.timeout_s = 1});
    return Operation(own, Segment{kGemmRs, 512, 512, 512, ranks_, DType::bf16}, tiles)
        .workspace_bytes();
  }();
  Context context(ranks_, {.timeout_s = 1, .workspace_bytes = room});
  OperationOnMemory first(context, shape, 512, tiles), second(context, shape, 512, tiles);
  const auto run = [&](OperationOnMemory& operation) {
    for (int rank = 0; rank < ranks_; ++rank) operation.run(rank, context.stream(rank), 512);
  };
  run(first);
  second.run(0, context.stream(0), 512);  // its fence waits for the others
  for (int ms = 0; ms < 5000 && first.error().empty(); ms += 10) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(first.error(), HasSubstr("fence"));
  EXPECT_NE(problem_of(second), "");
  EXPECT_THAT(first.error(), HasSubstr("fence"));
  EXPECT_THAT(problem_of(first), HasSubstr("fence"));
  for (OperationOnMemory* operation : {&first, &second}) {
    EXPECT_EQ(operation->error(), "");
    EXPECT_EQ(problem_of(*operation), "");
  }
  for (uint64_t seed = 1; seed < 4; ++seed) {
    for (OperationOnMemory* operation : {&first, &second}) {
      write(*operation, 512, seed);
      run(*operation);
    }
    for (OperationOnMemory* operation : {&first, &second}) {
      EXPECT_EQ(problem_of(*operation), "");
      EXPECT_EQ(wrong(*operation, 512, seed), 0);
    }
  }
}

// Where no fence stood between two operations, since a run of the first was as good, that run's
// failure is the second's, too.
TEST_P(OperationOnGpus, ARunThatStoodForAFenceAndFailedIsToldToEveryOperation) {
  Context context(ranks_, {.timeout_s = 1, .workspace_grows = true});
  const ProductShape shape{kGemmRs, 512, 512, DType::bf16};
  const OperationOptions tiles{.schedule = "tiles", .rows = RowCount::fixed};
  OperationOnMemory first(context, shape, 512, tiles), second(context, shape, 512, tiles);
  first.run(0, context.stream(0), 512);  // the others do not come
  for (int ms = 0; ms < 5000 && first.error().empty(); ms += 10) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(second.error(), HasSubstr("a run of another operation on the same workspace failed"));
  EXPECT_THAT(problem_of(second), HasSubstr("a run of another operation"));
  EXPECT_NE(problem_of(first), "");
  EXPECT_THAT(problem_of(second), HasSubstr("a run of another operation"));  // what it ran since
  for (OperationOnMemory* operation : {&first, &second}) {
    EXPECT_EQ(operation->error(), "");
    EXPECT_EQ(problem_of(*operation), "");
    write(*operation, 512, 3);
    for (int rank = 0; rank < ranks_; ++rank) operation->run(rank, context.stream(rank), 512);
    EXPECT_EQ(problem_of(*operation), "");
    EXPECT_EQ(wrong(*operation, 512, 3), 0);
  }
}

TEST_P(OperationOnGpus, RefusalsSayWhatWouldBeRight) {
  const ProductShape shape{kGemmRs, 512, 512, DType::bf16};
  OperationOnMemory operation(*context_, shape, 100);
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
  OperationOnMemory large(*context_, shape, 4096);
  const std::vector<int64_t> buckets = large.buckets();
  EXPECT_THAT(refusal([&] { large.run(8, context_->stream(0), 2000); }),
              HasSubstr("rank 8 is not of this process"));
  EXPECT_EQ(large.buckets(), buckets);
  const auto call = [&](std::initializer_list<CallTensor> tensors) {
    return refusal([&] { operation.Operation::run(0, context_->stream(0), 10, tensors); });
  };
  const CallTensor a{"a", operation.a(0)}, b{"b", operation.b(0)}, out{"out", operation.out(0)};
  EXPECT_THAT(call({a, b}), HasSubstr("gemm-rs needs its tensors: out missing; it has a, b, out"));
  EXPECT_THAT(call({a, b, out, {"c", a.address}}), HasSubstr("unknown tensor of gemm-rs 'c'"));
  EXPECT_THAT(call({a, b, {"out", out.address + 8}}), HasSubstr("a multiple of 16 bytes"));
  EXPECT_THAT(call({{"a", a.address, 8}, b, out}), HasSubstr("so it must be as many or more"));
  EXPECT_THAT(call({{"a", a.address, 1023}, b, out}), HasSubstr("a multiple of 8 is needed"));
  EXPECT_THAT(call({a, b, {"out", 0}}), HasSubstr("tensor out is at address 0"));
  // Before anything is enqueued: nobody waits for the rank then.
  OperationOnMemory sums(*context_, {kGemmAr, 512, 512, DType::bf16}, 100, {.schedule = "tiles"});
  EXPECT_THAT(refusal([&] {
                sums.Operation::run(
                    0, context_->stream(0), sums.a(0), 10,
                    {{"a", sums.a(0)}, {"b", sums.b(0)}, {"out", sums.out(0), 1024}});
              }),
              HasSubstr("rows of tensor out have gaps, and memory says how many there are"));
  sums.finish();
  EXPECT_EQ(operation.error(), "");
  EXPECT_THAT(refusal([&] { operation.run(0, context_->stream(0), GpuAddress{0x1002}, 10); }),
              HasSubstr("rows at 0x1002: an int32 begins at a multiple of 4"));
  EXPECT_THAT(
      refusal([&] { OperationOnMemory(*context_, shape, 100, {.schedule = "sequential"}); }),
      HasSubstr("rows=bucket with mover=nccl"));
  EXPECT_THAT(refusal([&] {
                OperationOnMemory(*context_, {kGemmRs, 512, 7}, 100);
              }),
              HasSubstr("which leaves none for the last: take k = "));
  EXPECT_THAT(refusal([&] { Context(0); }), HasSubstr("a context of 0 ranks"));
}

}  // namespace
}  // namespace stretto
