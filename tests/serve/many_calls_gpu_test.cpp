// Calls whose tensors lie elsewhere each time, or in one place in another way: each is right,
// however many there are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "gpu/shared_gpus.h"
#include "operation_on_gpus.h"

namespace stretto {
namespace {

using runtime::input_bits;
using runtime::OperationOnGpus;

constexpr uint16_t kGap = 0x7fc1;                   // no number
constexpr std::string_view kCopies = "decomposed";  // by copy engines

// Rows of `cols` elements, so far apart.
std::vector<uint16_t> spread(const std::vector<uint16_t>& solid, int64_t cols, int64_t stride) {
  const auto rows = static_cast<int64_t>(solid.size()) / cols;
  std::vector<uint16_t> apart(static_cast<size_t>(rows * stride), kGap);
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(solid.begin() + row * cols, cols, apart.begin() + row * stride);
  }
  return apart;
}

// What a rank's caller has freed and taken again: one piece of memory a tensor, for rows of any
// stride.
struct Pieces {
  std::vector<CallTensor> tensors;
  std::vector<int64_t> cols;
};

// Memory that is freed and allocated again often has the address that it had.
TEST_P(OperationOnGpus, CallsOfOneAddressWithOtherStridesAndRowsAreOthers) {
  constexpr int64_t kRows = 512, kMostStride = 512 + 24;
  for (const char* schedule : {"tiles", "decomposed"}) {
    if (schedule == kCopies && cuda::ranks_a_gpu() > 1) continue;  // streams of ranks share queues
    for (const ProductKind kind : {kAgGemm, kGemmRs}) {
      OperationOnMemory operation(*context_, {kind, 512, 512, DType::bf16}, kRows,
                                  {.schedule = schedule});
      std::vector<Pieces> ranks;
      for (int rank = 0; rank < ranks_; ++rank) {
        Pieces& mine = ranks.emplace_back();
        const Segment op = operation.product(kRows);
        mine.cols = {input_slice(op, Input::a, rank).cols(), input_slice(op, Input::b, rank).cols(),
                     output_slice(op, rank).cols()};
        for (const char* name : {"a", "b", "out"}) {
          mine.tensors.push_back({name, context_->allocate(rank, kRows * kMostStride * 2)});
        }
      }
      uint64_t seed = 0;
      // A call is a graph from its third time on.
      for (int round = 0; round < 5; ++round) {
        for (const int64_t gap : {0, 8, 24}) {
          for (const int64_t rows : {kRows, int64_t{300}}) {
            SCOPED_TRACE(fmt::format("{} {} round {} gap {} rows {}", schedule, to_string(kind),
                                     round, gap, rows));
            const Segment op = operation.product(rows);
            ++seed;
            // What is only multiplied or made by tiles may have gaps; what is sent may not.
            const size_t sent = kind == kAgGemm ? 0 : 2;
            const auto gap_of = [&](size_t t) { return t == sent ? 0 : gap; };
            for (int rank = 0; rank < ranks_; ++rank) {
              Pieces& mine = ranks[static_cast<size_t>(rank)];
              for (size_t t = 0; t < mine.tensors.size(); ++t) {
                mine.tensors[t].row_stride = mine.cols[t] + gap_of(t);
              }
              const std::vector<uint16_t> inputs[] = {input_bits(op, seed, Input::a, rank),
                                                      input_bits(op, seed, Input::b, rank)};
              for (size_t t = 0; t < 2; ++t) {
                const auto apart = spread(inputs[t], mine.cols[t], mine.cols[t] + gap_of(t));
                context_->copy_to_gpu(rank, mine.tensors[t].address, apart.data(),
                                      apart.size() * 2);
              }
              const std::vector<uint16_t> nothing(static_cast<size_t>(kRows * kMostStride), kGap);
              context_->copy_to_gpu(rank, mine.tensors[2].address, nothing.data(),
                                    nothing.size() * 2);
            }
            for (int rank = 0; rank < ranks_; ++rank) {
              operation.Operation::run(rank, context_->stream(rank), rows,
                                       ranks[static_cast<size_t>(rank)].tensors);
            }
            operation.finish();
            for (int rank = 0; rank < ranks_; ++rank) {
              const Pieces& mine = ranks[static_cast<size_t>(rank)];
              const int64_t cols = mine.cols[2], stride = cols + gap_of(2);
              const auto elements = static_cast<int64_t>(runtime::output_elements(op, rank));
              std::vector<uint16_t> apart(static_cast<size_t>(elements / cols * stride)), out;
              context_->copy_from_gpu(rank, apart.data(), mine.tensors[2].address,
                                      apart.size() * 2);
              int64_t written_between = 0;
              for (size_t i = 0; i < apart.size(); ++i) {
                const bool is_gap = static_cast<int64_t>(i) % stride >= cols;
                if (!is_gap) out.push_back(apart[i]);
                written_between += is_gap && apart[i] != kGap;
              }
              ASSERT_EQ(runtime::wrong_elements(op, seed, rank, out), 0) << "rank " << rank;
              ASSERT_EQ(written_between, 0) << "rank " << rank;
            }
          }
        }
      }
    }
  }
}

// More than a plan has slots and graphs for.
TEST_P(OperationOnGpus, ManyCallsAreRight) {
  constexpr int64_t kRows = 64, kSize = 256;
  constexpr size_t kCalls = 150, kInputs = 7;
  for (const char* schedule : {"tiles", "decomposed"}) {
    if (schedule == kCopies && cuda::ranks_a_gpu() > 1) continue;  // streams of ranks share queues
    SCOPED_TRACE(schedule);
    OperationOnMemory operation(*context_, {kGemmRs, kSize, kSize, DType::bf16}, kRows,
                                {.schedule = schedule});
    const Segment op = operation.product(kRows);
    std::vector<std::vector<GpuAddress>> a, b, out;  // by rank
    for (int rank = 0; rank < ranks_; ++rank) {
      a.emplace_back(), b.emplace_back(), out.emplace_back();
      for (size_t i = 0; i < kInputs; ++i) {
        for (const Input input : {Input::a, Input::b}) {
          const auto bits = input_bits(op, i + 1, input, rank);
          const GpuAddress at = context_->allocate(rank, bits.size() * 2);
          context_->copy_to_gpu(rank, at, bits.data(), bits.size() * 2);
          (input == Input::a ? a : b).back().push_back(at);
        }
      }
      for (size_t call = 0; call < kCalls; ++call) {
        const size_t elements = std::max<size_t>(8, runtime::output_elements(op, rank));
        out.back().push_back(context_->allocate(rank, elements * 2));
      }
    }
    // The last ones come again at once, and as graphs.
    for (const size_t calls : {kCalls, kCalls, size_t{20}, size_t{20}, size_t{20}, kCalls}) {
      for (size_t call = kCalls - calls; call < kCalls; ++call) {
        for (int rank = 0; rank < ranks_; ++rank) {
          const auto r = static_cast<size_t>(rank);
          const CallTensor tensors[] = {
              {"a", a[r][call % kInputs]}, {"b", b[r][call % kInputs]}, {"out", out[r][call]}};
          operation.Operation::run(rank, context_->stream(rank), kRows, tensors);
        }
      }
      operation.finish();
      int64_t wrong = 0;
      for (size_t call = kCalls - calls; call < kCalls; ++call) {
        for (int rank = 0; rank < ranks_; ++rank) {
          std::vector<uint16_t> found(runtime::output_elements(op, rank));
          const GpuAddress at = out[static_cast<size_t>(rank)][call];
          context_->copy_from_gpu(rank, found.data(), at, found.size() * 2);
          wrong += runtime::wrong_elements(op, call % kInputs + 1, rank, found);
          std::fill(found.begin(), found.end(), kGap);
          context_->copy_to_gpu(rank, at, found.data(), found.size() * 2);
        }
      }
      ASSERT_EQ(wrong, 0);
    }
  }
}

}  // namespace
}  // namespace stretto
