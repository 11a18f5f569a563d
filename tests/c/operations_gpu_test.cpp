// The C interface on GPUs, one process a rank: this binary starts itself. What needs none is here
// too: what is said where there is no GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "fabric/job.h"
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
  stretto_context_request request = {};
  request.size = sizeof request;
  const auto refusal = [&] {
    EXPECT_EQ(stretto_context_open(&request, &context), STRETTO_BAD_USAGE);
    EXPECT_EQ(context, nullptr);
    return std::string(stretto_last_error());
  };
  if (!fabric::job_from()) EXPECT_THAT(refusal(), HasSubstr("no launcher has said which rank"));
  request.ranks = 1;
  EXPECT_THAT(refusal(), HasSubstr("more than 0, at most 3600"));
  request.timeout_s = 1;
  request.ranks = 2;
  EXPECT_THAT(refusal(), HasSubstr("2 ranks meet through an exchange, and none was given"));
  request.rank = 2;
  EXPECT_THAT(refusal(), HasSubstr("rank 2 of 2: ranks are 0 to 1"));
  request.rank = 1;
  request.exchange = [](void*, const void*, void*, size_t) { return 7; };
  EXPECT_EQ(stretto_context_open(&request, &context), STRETTO_SYSTEM_FAULT);
  EXPECT_THAT(stretto_last_error(), HasSubstr("the exchange of the ranks failed: it returned 7"));
  EXPECT_EQ(stretto_context_open(&request, nullptr), STRETTO_BAD_USAGE);
  EXPECT_EQ(stretto_context_close(nullptr), STRETTO_BAD_USAGE);
  for (const auto number : {stretto_context_rank, stretto_context_ranks, stretto_context_gpu}) {
    EXPECT_EQ(number(nullptr), -1);
  }
  EXPECT_THAT(stretto_last_error(), HasSubstr("context is NULL"));
  EXPECT_EQ(stretto_operation_make(nullptr, nullptr, nullptr), STRETTO_BAD_USAGE);
  EXPECT_EQ(stretto_operation_finish(nullptr), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("operation is NULL"));
  if (cuda::why_no_driver().empty()) STRETTO_SKIP("there is a GPU");
  request.rank = 0;
  request.ranks = 1;
  EXPECT_EQ(stretto_context_open(&request, &context), STRETTO_SYSTEM_FAULT);
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

// A context, and calls of operations on the caller's tensors.
class COperations {
 public:
  explicit COperations(const stretto_context_request& request) {
    EXPECT_EQ(stretto_context_open(&request, &context_), STRETTO_GOOD) << stretto_last_error();
  }
  ~COperations() {
    EXPECT_EQ(stretto_context_close(context_), STRETTO_GOOD) << stretto_last_error();
  }

  void expect_right(const char* kind, int32_t serves);

 private:
  void write(const Segment& op, uint64_t seed, Input input, uint64_t to) {
    const auto bits = runtime::input_bits(op, seed, input, stretto_context_rank(context_));
    cuda::copy_to_gpu(to, bits.data(), bits.size() * 2);
  }

  int64_t wrong(const Segment& op, uint64_t seed, uint64_t from) {
    const int rank = stretto_context_rank(context_);
    std::vector<uint16_t> out(runtime::output_elements(op, rank));
    cuda::copy_from_gpu(out.data(), from, out.size() * 2);
    return runtime::wrong_elements(op, seed, rank, out);
  }

  stretto_context* context_ = nullptr;
  uint64_t seed_ = 0;
};

void COperations::expect_right(const char* kind, int32_t serves) {
  SCOPED_TRACE(std::string(kind) + (serves ? " bucket" : " fixed"));
  constexpr int64_t kRows = 384, kN = 512, kK = 512;
  const int ranks = stretto_context_ranks(context_);
  const std::string sizes = fmt::format("m={} n={} k={}", kRows, kN, kK);
  const stretto_operator given = {sizeof given, kind, nullptr, sizes.c_str(), ranks, "bf16"};
  std::vector<cuda::DeviceMemory> memory;
  for (int32_t tensor = 0; tensor < 3; ++tensor) {
    stretto_tensor_info info = {};
    info.size = sizeof info;
    ASSERT_EQ(stretto_tensor_of(&given, serves, 0, tensor, &info), STRETTO_GOOD);
    memory.emplace_back(static_cast<size_t>(info.rows * info.cols * 2));
  }
  const stretto_operation_request request = {sizeof request, &given, serves, "auto", 0, 0};
  stretto_operation* operation = nullptr;
  ASSERT_EQ(stretto_operation_make(context_, &request, &operation), STRETTO_GOOD)
      << stretto_last_error();
  std::vector<stretto_call_tensor> tensors;
  for (int32_t i = 0; i < 3; ++i) {
    tensors.push_back(
        {sizeof(stretto_call_tensor), nullptr, i, 0, memory[static_cast<size_t>(i)].address(), 0});
  }
  const auto run = [&](int64_t rows) {
    return stretto_operation_run(operation, rows, tensors.data(), 3, nullptr);
  };
  const Segment op = parse_segment(
      fmt::format("{} m={} n={} k={} ranks={} dtype=bf16", kind, kRows, kN, kK, ranks));
  for (int call = 0; call < 4; ++call) {
    write(op, ++seed_, Input::a, memory[0].address());
    write(op, seed_, Input::b, memory[1].address());
    ASSERT_EQ(run(kRows), STRETTO_GOOD) << stretto_last_error();
    ASSERT_EQ(stretto_operation_finish(operation), STRETTO_GOOD) << stretto_last_error();
    EXPECT_EQ(wrong(op, seed_, memory[2].address()), 0);
  }
  const char* problem = nullptr;
  EXPECT_EQ(stretto_operation_error(operation, &problem), STRETTO_GOOD);
  EXPECT_STREQ(problem, "");
  EXPECT_EQ(run(kRows + 1), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("385 rows"));
  if (const int rank = stretto_context_rank(context_); rank + 1 < ranks) {
    tensors[2].rank = rank + 1;
    EXPECT_EQ(run(kRows), STRETTO_BAD_USAGE);
    EXPECT_THAT(stretto_last_error(),
                HasSubstr(fmt::format("tensor out of rank {}: a run takes", rank + 1)));
  }
  EXPECT_EQ(stretto_context_close(context_), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("1 operation left"));
  EXPECT_EQ(stretto_operation_close(operation), STRETTO_GOOD);
}

TEST(COperationsOnGpus, ServeARankAlone) {
  if (const std::string why = runtime::why_not_here(1); !why.empty()) STRETTO_SKIP(why);
  stretto_context_request request = {};
  request.size = sizeof request;
  request.timeout_s = 5;
  request.ranks = 1;
  COperations calls(request);
  for (const char* kind : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
    for (const int32_t serves : {0, 1}) calls.expect_right(kind, serves);
  }
}

TEST(RankOfCOperations, RunsOnTheCallersTensors) {
  if (std::getenv(kInside) == nullptr) GTEST_SKIP() << "a part of COperationsOnGpus";
  stretto_context_request request = {};
  request.size = sizeof request;
  request.timeout_s = 5;
  COperations calls(request);
  for (const char* kind : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
    for (const int32_t serves : {0, 1}) calls.expect_right(kind, serves);
  }
}

}  // namespace
}  // namespace stretto
