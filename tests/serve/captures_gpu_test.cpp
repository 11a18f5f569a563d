// Captures in global mode, which is how PyTorch begins them: until one ends the driver forbids
// every thread what may wait or allocate, and whoever does it all the same ends the capture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "operation_on_gpus.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using cuda::check;
using cuda::driver;
using runtime::OperationOnGpus;
using testing::HasSubstr;

constexpr int kCaptureGlobal = 0;

// Of the stream's work, on the GPU that is current here and at the end.
class GlobalCapture {
 public:
  explicit GlobalCapture(const cuda::Stream& stream) : stream_(stream) {
    check(driver().capture_begin(stream.handle(), kCaptureGlobal), "begin a capture");
  }
  ~GlobalCapture() {
    if (!has_ended_) driver().capture_end(stream_.handle(), &graph_);
    if (exec_ != nullptr) driver().graph_exec_destroy(exec_);
    if (graph_ != nullptr) driver().graph_destroy(graph_);
  }
  GlobalCapture(const GlobalCapture&) = delete;
  GlobalCapture& operator=(const GlobalCapture&) = delete;

  // Something has ended it.
  bool is_broken() const {
    int status = 0;
    uint64_t id = 0;
    check(driver().capture_info(stream_.handle(), &status, &id, nullptr, nullptr, nullptr), "ask");
    return status != 1;
  }
  // Throws where something has ended the capture.
  void end() {
    has_ended_ = true;
    check(driver().capture_end(stream_.handle(), &graph_), "end a capture");
  }
  // Once no other stream is captured, either.
  void instantiate() { check(driver().graph_instantiate(&exec_, graph_, 0), "make a graph"); }
  void launch() { check(driver().graph_launch(exec_, stream_.handle()), "launch a graph"); }

 private:
  const cuda::Stream& stream_;
  cuda::GraphHandle graph_ = nullptr;
  cuda::GraphExecHandle exec_ = nullptr;
  bool has_ended_ = false;
};

TEST_P(OperationOnGpus, AnythingMayBeDoneWhileAnotherStreamIsCaptured) {
  context_->make_current(0);
  const cuda::Stream other;
  const cuda::DeviceMemory word(sizeof(uint32_t));
  GlobalCapture capture(other);
  check(driver().fill_words(word.address(), 1, 1, other.handle()), "fill");
  for (const char* schedule : {"tiles", "low-latency"}) {
    SCOPED_TRACE(schedule);
    OperationOnMemory operation(*context_, {kGemmAr, 512, 512, DType::bf16}, 500,
                                {.schedule = schedule});
    EXPECT_FALSE(capture.is_broken()) << "made";
    operation.prepare(200);
    EXPECT_FALSE(capture.is_broken()) << "prepared";
    for (const int64_t rows : {500, 500, 500, 100}) {  // new, known, captured, a new bucket
      const auto seed = static_cast<uint64_t>(rows);
      write(operation, rows, seed);
      EXPECT_FALSE(capture.is_broken()) << "written, " << rows;
      run(operation, rows);
      EXPECT_FALSE(capture.is_broken()) << "run, " << rows;
      EXPECT_EQ(operation.error(), "");
      operation.finish();
      EXPECT_FALSE(capture.is_broken()) << "finished, " << rows;
      EXPECT_EQ(wrong(operation, rows, seed), 0);
    }
  }
  EXPECT_FALSE(capture.is_broken());
  context_->make_current(0);
  capture.end();
  capture.instantiate();
  capture.launch();
  other.synchronize();
}

// To wait for a whole GPU, as measuring must, would end the capture.
TEST_P(OperationOnGpus, NothingIsMeasuredWhileAStreamIsCaptured) {
  const auto made_within = [&](GlobalCapture& capture) {
    // No shipped file knows the like of it.
    const Segment product{kGemmRs, 640, 1152, 2176, ranks_, DType::bf16};
    const Operation operation(*context_, product, {.rows = RowCount::fixed, .measure_ms = 50});
    EXPECT_FALSE(capture.is_broken());
    return operation.reason(product.m);
  };
  context_->make_current(0);
  const cuda::Stream own(static_cast<cuda::StreamHandle>(context_->stream(0)));
  const cuda::DeviceMemory word(sizeof(uint32_t));
  {
    GlobalCapture capture(own);
    check(driver().fill_words(word.address(), 1, 1, own.handle()), "fill");
    EXPECT_THAT(made_within(capture), HasSubstr("not measured: a stream of rank 0's GPU is being"));
    context_->make_current(0);
    capture.end();
  }
  // As cudaStreamCreate() makes it.
  cuda::StreamHandle made = nullptr;
  check(driver().stream_create(&made, 0, 0), "make a stream");
  {
    const cuda::Stream blocking(made);
    GlobalCapture capture(blocking);
    check(driver().fill_words(word.address(), 1, 1, made), "fill");
    EXPECT_THAT(made_within(capture), HasSubstr("not measured: a stream of rank 0's GPU is being"));
    context_->make_current(0);
    capture.end();
  }
  check(driver().stream_destroy(made), "end a stream");
}

TEST_P(OperationOnGpus, CallsAreCapturedInGlobalMode) {
  constexpr int64_t kRows = 500, kFewer = 100;
  for (const char* schedule : {"tiles", "low-latency", "decomposed"}) {
    SCOPED_TRACE(schedule);
    OperationOnMemory operation(*context_, {kAgGemm, 512, 512, DType::bf16}, kRows,
                                {.schedule = schedule});
    const TensorMemory known(*context_, operation), fresh(*context_, operation),
        fewer(*context_, operation);
    std::vector<std::unique_ptr<cuda::Stream>> streams;
    for (int rank = 0; rank < ranks_; ++rank) {
      context_->make_current(rank);
      streams.push_back(std::make_unique<cuda::Stream>());
      operation.Operation::run(rank, streams.back()->handle(), kRows, known.of(rank));
    }
    std::vector<std::unique_ptr<GlobalCapture>> captures;
    for (int rank = 0; rank < ranks_; ++rank) {
      context_->make_current(rank);
      captures.push_back(std::make_unique<GlobalCapture>(*streams[static_cast<size_t>(rank)]));
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      const GpuStream stream = streams[static_cast<size_t>(rank)]->handle();
      operation.Operation::run(rank, stream, kRows, known.of(rank));
      EXPECT_EQ(operation.error(), "");
      operation.Operation::run(rank, stream, kRows, fresh.of(rank));
      // A bucket that is made here; as often as a graph must hold its calls.
      for (int i = 0; i < 2; ++i) operation.Operation::run(rank, stream, kFewer, fewer.of(rank));
      EXPECT_EQ(operation.error(), "");
    }
    try {
      operation.finish();
      ADD_FAILURE() << "finish() did not say that it cannot wait";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("is being captured"));
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      context_->make_current(rank);
      captures[static_cast<size_t>(rank)]->end();
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      context_->make_current(rank);
      captures[static_cast<size_t>(rank)]->instantiate();
    }
    operation.finish();
    for (uint64_t seed = 1; seed < 4; ++seed) {
      for (const TensorMemory* memory : {&known, &fresh}) {
        write_to(*memory, operation.product(kRows), seed);
      }
      write_to(fewer, operation.product(kFewer), seed);
      for (int rank = 0; rank < ranks_; ++rank) {
        context_->make_current(rank);
        captures[static_cast<size_t>(rank)]->launch();
      }
      for (int rank = 0; rank < ranks_; ++rank) {
        context_->make_current(rank);
        streams[static_cast<size_t>(rank)]->synchronize();
      }
      operation.finish();
      for (const TensorMemory* memory : {&known, &fresh}) {
        EXPECT_EQ(wrong_in(*memory, operation.product(kRows), seed), 0);
      }
      EXPECT_EQ(wrong_in(fewer, operation.product(kFewer), seed), 0);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      context_->make_current(rank);
      captures[static_cast<size_t>(rank)].reset();
      streams[static_cast<size_t>(rank)].reset();
    }
  }
}

}  // namespace
}  // namespace stretto
