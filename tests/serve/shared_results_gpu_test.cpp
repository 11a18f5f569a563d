// Results that other ranks write where a call wants them: right without a copy, call after call and
// in graphs; and ranks that do not agree where are named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "operation_on_gpus.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using runtime::OperationOnGpus;
using testing::HasSubstr;

constexpr int64_t kMost = 512, kN = 512;
constexpr size_t kResultBytes = size_t{kMost} * kN * 2;

// Sums on all ranks, whose results are places of shared memory.
class SharedSums {
 public:
  SharedSums(Context& context, const char* schedule, size_t places)
      : context_(context),
        operation_(context, Segment{kGemmAr, kMost, kN, 512, context.ranks(), DType::bf16},
                   {.schedule = schedule, .shared_results = true}),
        memory_(context, operation_),
        results_(context.allocate_shared(places * kResultBytes)) {}

  Operation& operation() { return operation_; }
  GpuAddress result(int rank, size_t place) const {
    return results_[static_cast<size_t>(rank)] + place * kResultBytes;
  }
  void run(int rank, const cuda::Stream& stream, int64_t rows, size_t place) {
    run(rank, stream, rows, result(rank, place));
  }
  void run(int rank, const cuda::Stream& stream, int64_t rows, GpuAddress to) {
    operation_.run(rank, stream.handle(), rows,
                   {{"a", memory_.at(rank, "a")}, {"b", memory_.at(rank, "b")}, {"out", to}});
  }
  cuda::Stream stream(int rank) const {
    return cuda::Stream(static_cast<cuda::StreamHandle>(context_.stream(rank)));
  }

  // Inputs of the operator with so many rows; and no rank has a result.
  void write(int64_t rows, uint64_t seed, size_t places) {
    const Segment op = *operation_.at(rows).only_product();
    const std::vector<uint16_t> poison(places * kResultBytes / 2, 0x7fc0);
    for (int rank = 0; rank < context_.ranks(); ++rank) {
      for (const Input input : {Input::a, Input::b}) {
        const auto bits = runtime::input_bits(op, seed, input, rank);
        context_.copy_to_gpu(rank, memory_.at(rank, input == Input::a ? "a" : "b"), bits.data(),
                             bits.size() * 2);
      }
      context_.copy_to_gpu(rank, result(rank, 0), poison.data(), poison.size() * 2);
    }
  }
  // Elements of a place, of all ranks, that are not the sums of so many rows, or behind them not as
  // they were.
  int64_t wrong(int64_t rows, uint64_t seed, size_t place) {
    const Segment op = *operation_.at(rows).only_product();
    int64_t wrong = 0;
    for (int rank = 0; rank < context_.ranks(); ++rank) {
      std::vector<uint16_t> out(kResultBytes / 2);
      context_.copy_from_gpu(rank, out.data(), result(rank, place), kResultBytes);
      const auto used = static_cast<std::ptrdiff_t>(rows * kN);
      wrong += std::count_if(out.begin() + used, out.end(), [](uint16_t b) { return b != 0x7fc0; });
      out.resize(static_cast<size_t>(used));
      wrong += runtime::wrong_elements(op, seed, rank, out);
    }
    return wrong;
  }

 private:
  Context& context_;
  Operation operation_;
  TensorMemory memory_;
  std::vector<GpuAddress> results_;
};

TEST_P(OperationOnGpus, SharedResultsAreWrittenWhereTheyLie) {
  constexpr size_t kPlaces = 3;
  for (const char* schedule :
       {"tiles", "slices", "tiles,reduction=one-shot", "decomposed", "low-latency", "auto"}) {
    SCOPED_TRACE(schedule);
    std::unique_ptr<SharedSums> sums;
    try {
      sums = std::make_unique<SharedSums>(*context_, schedule, kPlaces);
    } catch (const UsageError&) {  // not every schedule serves sums of changing rows
      continue;
    }
    uint64_t seed = 1;
    for (const int64_t rows : {kMost, kMost - 12, int64_t{30}, kMost}) {
      SCOPED_TRACE(rows);
      for (int round = 0; round < 3; ++round) {  // new, known, and as graphs
        sums->write(rows, ++seed, kPlaces);
        for (size_t place = 0; place < kPlaces; ++place) {
          for (int rank = 0; rank < ranks_; ++rank) {
            sums->run(rank, sums->stream(rank), rows, place);
          }
        }
        sums->operation().finish();
        for (size_t place = 0; place < kPlaces; ++place) {
          EXPECT_EQ(sums->wrong(rows, seed, place), 0) << round << ", " << place;
        }
      }
    }
    EXPECT_EQ(sums->operation().copied_bytes(), 0u);
  }
}

TEST_P(OperationOnGpus, SharedResultsAtOtherPlacesAreNamed) {
  SharedSums sums(*context_, "tiles", 2);
  sums.write(kMost, 1, 2);
  for (int rank = 0; rank < ranks_; ++rank) {
    sums.run(rank, sums.stream(rank), kMost, size_t{rank == ranks_ - 1});
  }
  try {
    sums.operation().finish();
    ADD_FAILURE() << "nobody saw it";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("rank " + std::to_string(ranks_ - 1) + " gave results other places"));
  }
  sums.write(kMost, 2, 2);
  for (int rank = 0; rank < ranks_; ++rank) sums.run(rank, sums.stream(rank), kMost, size_t{1});
  sums.operation().finish();
  EXPECT_EQ(sums.wrong(kMost, 2, 1), 0);
}

TEST_P(OperationOnGpus, ResultsOutsideSharedMemoryAreRefused) {
  SharedSums sums(*context_, "tiles", 2);
  const auto refusal = [&](GpuAddress to) -> std::string {
    try {
      sums.run(0, sums.stream(0), kMost, to);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "ran";
  };
  EXPECT_THAT(refusal(context_->allocate(0, kResultBytes)), HasSubstr("allocate_shared()"));
  EXPECT_THAT(refusal(sums.result(0, 1) + 16), HasSubstr("allocate_shared()"));  // one row too far
  sums.operation().finish();
}

}  // namespace
}  // namespace stretto
