// Operations of 2, 4 and 8 ranks: their inputs, their runs, and what is wrong in their results.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "integer_tensors.h"
#include "run/gpu_plans.h"
#include "serve/operation_on_memory.h"

namespace stretto::runtime {

class OperationOnGpus : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(ranks_); !why.empty()) STRETTO_SKIP(why);
    context_ = std::make_unique<Context>(ranks_, 1);
  }

  void write(const OperationOnMemory& operation, int64_t rows, uint64_t seed) {
    write_to(operation.memory(), operation.product(rows), seed);
  }
  void write_to(const TensorMemory& memory, const Segment& op, uint64_t seed) {
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const Input input : {Input::a, Input::b}) {
        const auto bits = input_bits(op, seed, input, rank);
        context_->copy_to_gpu(rank, memory.at(rank, input == Input::a ? "a" : "b"), bits.data(),
                              bits.size() * 2);
      }
    }
  }

  int64_t wrong(const OperationOnMemory& operation, int64_t rows, uint64_t seed) {
    return wrong_in(operation.memory(), operation.product(rows), seed);
  }
  int64_t wrong_in(const TensorMemory& memory, const Segment& op, uint64_t seed) {
    int64_t wrong = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      std::vector<uint16_t> out(output_elements(op, rank));
      context_->copy_from_gpu(rank, out.data(), memory.at(rank, "out"), out.size() * 2);
      wrong += wrong_elements(op, seed, rank, out);
    }
    return wrong;
  }

  void run(OperationOnMemory& operation, int64_t rows) {
    for (int rank = 0; rank < ranks_; ++rank) operation.run(rank, context_->stream(rank), rows);
  }

  const int ranks_ = GetParam();
  std::unique_ptr<Context> context_;
};

}  // namespace stretto::runtime
