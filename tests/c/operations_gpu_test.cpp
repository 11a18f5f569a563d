// The C interface on GPUs, one process a rank: this binary starts itself. What needs none is here
// too: what is said where there is no GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "fabric/launcher.h"
#include "run/gpu_plans.h"
#include "serve/integer_tensors.h"
#include "stretto/c.h"

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr const char* kInside = "STRETTO_TEST_INSIDE";

TEST(CContext, SaysWhyThereIsNone) {
  stretto_context* context = nullptr;
  EXPECT_EQ(stretto_context_open(0, &context), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("more than 0, at most 3600"));
  EXPECT_EQ(stretto_context_open(1, nullptr), STRETTO_BAD_USAGE);
  EXPECT_EQ(stretto_context_close(nullptr), STRETTO_BAD_USAGE);
  for (const auto number : {stretto_context_rank, stretto_context_ranks, stretto_context_gpu}) {
    EXPECT_EQ(number(nullptr), -1);
  }
  EXPECT_THAT(stretto_last_error(), HasSubstr("context is NULL"));
  EXPECT_EQ(stretto_operation_make(nullptr, nullptr, nullptr), STRETTO_BAD_USAGE);
  EXPECT_EQ(stretto_operation_finish(nullptr), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("operation is NULL"));
  if (cuda::why_no_driver().empty()) STRETTO_SKIP("there is a GPU");
  EXPECT_EQ(stretto_context_open(1, &context), STRETTO_SYSTEM_FAULT);
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(stretto_last_error(), cuda::why_no_driver());
}

TEST(COperationsOnGpus, ServeAJobOfTwoProcesses) {
  if (const std::string why = runtime::why_not_here(2); !why.empty()) STRETTO_SKIP(why);
  if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("processes do not share GPUs");
  EXPECT_EQ(fabric::launch(2, {"/usr/bin/env", std::string(kInside) + "=1",
                               "/proc/" + std::to_string(getpid()) + "/exe",
                               "--gtest_filter=RankOfCOperations.*"}),
            0);
}

class RankOfCOperations : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv(kInside) == nullptr) GTEST_SKIP() << "a part of COperationsOnGpus";
    ASSERT_EQ(stretto_context_open(5, &context_), STRETTO_GOOD) << stretto_last_error();
    rank_ = stretto_context_rank(context_);
  }
  void TearDown() override {
    if (context_ != nullptr) {
      EXPECT_EQ(stretto_context_close(context_), STRETTO_GOOD) << stretto_last_error();
    }
  }

  uint64_t address(stretto_operation* operation, stretto_tensor tensor) {
    uint64_t at = 0;
    EXPECT_EQ(stretto_operation_address(operation, tensor, &at), STRETTO_GOOD)
        << stretto_last_error();
    return at;
  }

  void write(const Segment& op, uint64_t seed, Input input, uint64_t to) {
    const auto bits = runtime::input_bits(op, seed, input, rank_);
    cuda::copy_to_gpu(to, bits.data(), bits.size() * 2);
  }

  int64_t wrong(const Segment& op, uint64_t seed, uint64_t from) {
    std::vector<uint16_t> out(runtime::output_elements(op, rank_));
    cuda::copy_from_gpu(out.data(), from, out.size() * 2);
    return runtime::wrong_elements(op, seed, rank_, out);
  }

  stretto_context* context_ = nullptr;
  int rank_ = 0;
};

TEST_F(RankOfCOperations, RunsOnTheCallersTensors) {
  uint64_t seed = 0;
  for (const char* kind : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
    for (const int32_t serves : {0, 1}) {
      SCOPED_TRACE(std::string(kind) + (serves ? " bucket" : " fixed"));
      constexpr int64_t kRows = 384, kN = 512, kK = 512;
      const bool owns_out = std::string_view(kind) == "gemm-ar";
      const std::string sizes = fmt::format("m={} n={} k={}", kRows, kN, kK);
      const stretto_operator given = {sizeof given, kind, nullptr, sizes.c_str(), 2, "bf16"};
      std::vector<cuda::DeviceMemory> memory;
      for (int32_t tensor = 0; tensor < 3; ++tensor) {
        stretto_tensor_info info = {};
        info.size = sizeof info;
        ASSERT_EQ(stretto_tensor_of(&given, serves, 0, tensor, &info), STRETTO_GOOD);
        memory.emplace_back(static_cast<size_t>(info.rows * info.cols * 2));
      }
      const stretto_operation_request request = {sizeof request,
                                                 kind,
                                                 kN,
                                                 kK,
                                                 "bf16",
                                                 kRows,
                                                 serves,
                                                 "auto",
                                                 memory[0].address(),
                                                 memory[1].address(),
                                                 owns_out ? 0 : memory[2].address()};
      stretto_operation* operation = nullptr;
      ASSERT_EQ(stretto_operation_make(context_, &request, &operation), STRETTO_GOOD)
          << stretto_last_error();
      EXPECT_EQ(address(operation, STRETTO_A), memory[0].address());
      const uint64_t out = address(operation, STRETTO_OUT);
      EXPECT_EQ(out == memory[2].address(), !owns_out);
      const Segment op =
          parse_segment(fmt::format("{} m={} n={} k={} ranks=2 dtype=bf16", kind, kRows, kN, kK));
      write(op, ++seed, Input::a, memory[0].address());
      write(op, seed, Input::b, memory[1].address());
      ASSERT_EQ(stretto_operation_run(operation, kRows, nullptr), STRETTO_GOOD)
          << stretto_last_error();
      ASSERT_EQ(stretto_operation_finish(operation), STRETTO_GOOD) << stretto_last_error();
      EXPECT_EQ(wrong(op, seed, out), 0);
      EXPECT_EQ(stretto_operation_run(operation, kRows + 1, nullptr), STRETTO_BAD_USAGE);
      EXPECT_THAT(stretto_last_error(), HasSubstr("385 rows"));
      EXPECT_EQ(stretto_context_close(context_), STRETTO_BAD_USAGE);
      EXPECT_THAT(stretto_last_error(), HasSubstr("1 operation left"));
      EXPECT_EQ(stretto_operation_close(operation), STRETTO_GOOD);
    }
  }
}

}  // namespace
}  // namespace stretto
