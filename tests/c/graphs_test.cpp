// Operations of a caller's own graph through the C interface, tensors by name and by number: over a
// driver that runs nothing.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serve/inside.h"
#include "stretto/c.h"

namespace stretto {
namespace {

using testing::ElementsAre, testing::HasSubstr;

constexpr const char* kOwn =
    "graph own m h f\n"
    "input tokens [m, h] rows\ninput first [f, h] rows\ninput second [h, f] cols\n"
    "input scale [1, h] whole\n"
    "p = gemm tokens first\na = silu p\nq = gemm a second\nnormed = norm q scale eps=1e-05\n"
    "output normed rows\n";

TEST(COperationsOfGraphs, OverADriverThatRunsNothing) {
  const std::string stub = fmt::format(
      "LD_LIBRARY_PATH={0}/driver:{0}/nvrtc:$LD_LIBRARY_PATH STRETTO_CACHE_PATH=/nowhere "
      "STRETTO_MEASURE_MS=0 STUB_GPUS='NVIDIA H200:132:9.0'",
      STRETTO_STUBS);
  EXPECT_EQ(run_inside(stub, "COperationsInTheStub.TakeGraphs"), 0);
  EXPECT_EQ(run_inside(stub, "COperationsInTheStub.ShareAWorkspace"), 0);
}

// What an older caller's request does not have is 0.
TEST(COperationsInTheStub, ShareAWorkspace) {
  if (is_outside()) GTEST_SKIP() << "a part of COperationsOfGraphs";
  const auto workspace_of = [](size_t size_of_request) {
    stretto_context_request opened = {};
    opened.size = size_of_request;
    opened.timeout_s = 1;
    opened.ranks = 1;
    opened.workspace_bytes = 3 << 20;
    opened.workspace_grows = 1;
    stretto_context* context = nullptr;
    EXPECT_EQ(stretto_context_open(&opened, &context), STRETTO_GOOD) << stretto_last_error();
    uint64_t of_all = 0, of_one = 0;
    EXPECT_EQ(stretto_context_workspace(context, &of_all), STRETTO_GOOD);
    const stretto_operator op = {sizeof op, "gemm-rs", nullptr, "m=256 n=512 k=512", 1, "bf16"};
    stretto_operation_request request = {};
    request.size = sizeof request;
    request.op = &op;
    request.schedule = "tiles";
    stretto_operation* operation = nullptr;
    EXPECT_EQ(stretto_operation_make(context, &request, &operation), STRETTO_GOOD);
    EXPECT_EQ(stretto_operation_workspace(operation, &of_one), STRETTO_GOOD);
    EXPECT_EQ(of_one, of_all);
    EXPECT_EQ(stretto_operation_close(operation), STRETTO_GOOD);
    EXPECT_EQ(stretto_context_close(context), STRETTO_GOOD);
    return of_all;
  };
  EXPECT_EQ(workspace_of(sizeof(stretto_context_request)), size_t{3} << 20);
  EXPECT_EQ(workspace_of(offsetof(stretto_context_request, workspace_bytes)), 0U);
  uint64_t bytes = 0;
  EXPECT_EQ(stretto_context_workspace(nullptr, &bytes), STRETTO_BAD_USAGE);
  EXPECT_EQ(stretto_operation_workspace(nullptr, &bytes), STRETTO_BAD_USAGE);
}

TEST(COperationsInTheStub, TakeGraphs) {
  if (is_outside()) GTEST_SKIP() << "a part of COperationsOfGraphs";
  stretto_context_request opened = {};
  opened.size = sizeof opened;
  opened.timeout_s = 1;
  opened.ranks = 1;
  stretto_context* context = nullptr;
  ASSERT_EQ(stretto_context_open(&opened, &context), STRETTO_GOOD) << stretto_last_error();
  const auto make = [&](const stretto_operator& op, int32_t serves) {
    stretto_operation_request request = {};
    request.size = sizeof request;
    request.op = &op;
    request.serves = serves;
    request.schedule = "tiles";
    stretto_operation* made = nullptr;
    if (stretto_operation_make(context, &request, &made) != STRETTO_GOOD) EXPECT_EQ(made, nullptr);
    return made;
  };
  const stretto_operator own = {sizeof(stretto_operator), nullptr, kOwn,
                                "m=70 h=64 f=96",         1,       "bf16"};
  EXPECT_EQ(make(own, 1), nullptr);
  EXPECT_THAT(stretto_last_error(), HasSubstr("own has fixed rows"));
  stretto_operation* const operation = make(own, 0);
  ASSERT_NE(operation, nullptr) << stretto_last_error();
  std::vector<std::string> names;
  for (int32_t index = 0; index < 5; ++index) {
    stretto_tensor_info info = {};
    info.size = sizeof info;
    ASSERT_EQ(stretto_operation_tensor(operation, 70, index, &info), STRETTO_GOOD);
    names.emplace_back(info.name);
    EXPECT_EQ(info.is_output, index == 4);
  }
  EXPECT_THAT(names, ElementsAre("tokens", "first", "second", "scale", "normed"));
  for (const bool by_name : {true, false}) {
    std::vector<stretto_call_tensor> tensors;
    for (int32_t index = 4; index >= 0; --index) {
      tensors.push_back({sizeof(stretto_call_tensor),
                         by_name ? names[static_cast<size_t>(index)].c_str() : nullptr, index, 0,
                         uint64_t{1} << (20 + index), 0});
    }
    EXPECT_EQ(stretto_operation_run(operation, 70, tensors.data(), 5, nullptr), STRETTO_GOOD)
        << stretto_last_error();
    EXPECT_EQ(stretto_operation_run(operation, 70, tensors.data(), 4, nullptr), STRETTO_BAD_USAGE);
    EXPECT_THAT(stretto_last_error(), HasSubstr("tokens"));
    tensors[0].name = "down";
    EXPECT_EQ(stretto_operation_run(operation, 70, tensors.data(), 5, nullptr), STRETTO_BAD_USAGE);
    EXPECT_THAT(stretto_last_error(), HasSubstr("known: tokens, first, second, scale, normed"));
  }
  EXPECT_EQ(stretto_operation_finish(operation), STRETTO_GOOD) << stretto_last_error();
  uint64_t copied = 1;
  EXPECT_EQ(stretto_operation_copied(operation, &copied), STRETTO_GOOD);
  EXPECT_EQ(copied, 0U);  // no other rank writes a result
  int32_t left = 1;
  EXPECT_EQ(stretto_operation_learn(operation, 100, &left), STRETTO_GOOD) << stretto_last_error();
  EXPECT_EQ(left, 0);  // its schedule was named
  EXPECT_EQ(stretto_operation_learn(operation, -1, &left), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("learn: the budget is -1 ms; it is a number from 0"));
  EXPECT_EQ(stretto_operation_close(operation), STRETTO_GOOD);
  EXPECT_EQ(stretto_context_close(context), STRETTO_GOOD);
}

}  // namespace
}  // namespace stretto
