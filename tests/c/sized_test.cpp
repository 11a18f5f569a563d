// Structs of callers that know another version of stretto/c.h than the library does.
#include "c/sized.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "stretto/c.h"

namespace stretto {
namespace {

using testing::HasSubstr;

struct First {
  size_t size;
  int64_t rows;
};
struct Grown {
  size_t size;
  int64_t rows;
  const char* group;
};
const c::Layout kLayout = {"stretto_grown", sizeof(First)};

TEST(CSizes, WhatAnOlderStructLacksIsZeroAndNothingBehindItIsRead) {
  // On the heap and of its own size, so that a sanitizer sees what is read behind it.
  const auto old = std::make_unique<First>(First{sizeof(First), 7});
  const Grown known = c::sized(reinterpret_cast<const Grown*>(old.get()), "grown", kLayout);
  EXPECT_EQ(known.rows, 7);
  EXPECT_EQ(known.group, nullptr);
}

TEST(CSizes, AStructOfThisVersionIsTakenWhole) {
  const Grown given = {sizeof(Grown), 7, "tp"};
  EXPECT_STREQ(c::sized(&given, "grown", kLayout).group, "tp");
}

std::string refusal_of(const stretto_operator& op) {
  int32_t count = 0;
  EXPECT_EQ(stretto_tensor_count(&op, &count), STRETTO_BAD_USAGE);
  const std::string line = stretto_last_error();
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  return line;
}

TEST(CSizes, OthersAreRefused) {
  stretto_operator op = {sizeof op, "gemm-rs", nullptr, "m=64 n=64 k=64", 1, "bf16"};
  op.size += 8;
  EXPECT_THAT(refusal_of(op), HasSubstr("op.size is 56, and this library knows 48 bytes of "
                                        "stretto_operator: it is older than the header"));
  op.size = 0;
  EXPECT_EQ(refusal_of(op), "op.size is 0; it must be sizeof(stretto_operator), here 48");
  op.size = sizeof op - 1;
  EXPECT_THAT(refusal_of(op), HasSubstr("must be sizeof(stretto_operator)"));
}

TEST(CSizes, OfEveryStructAreLookedAt) {
  stretto_operator op = {sizeof op, "gemm-rs", nullptr, "m=64 n=64 k=64", 1, "bf16"};
  stretto_plan_request asked = {0, &op, "tiles", 0, nullptr};
  stretto_plan* plan = nullptr;
  EXPECT_EQ(stretto_plan_make(&asked, &plan), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("request.size is 0"));
  asked.size = sizeof asked + 1;
  EXPECT_EQ(stretto_plan_make(&asked, &plan), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("bytes of stretto_plan_request"));
  asked.size = sizeof asked;
  op.size = 1;
  EXPECT_EQ(stretto_plan_make(&asked, &plan), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("op.size is 1"));
  asked.op = nullptr;
  EXPECT_EQ(stretto_plan_make(&asked, &plan), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("op is NULL"));
  op.size = sizeof op;
  stretto_tensor_info info = {};
  EXPECT_EQ(stretto_tensor_of(&op, 0, 0, 0, &info), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("info.size is 0"));
  asked.op = &op;
  ASSERT_EQ(stretto_plan_make(&asked, &plan), STRETTO_GOOD) << stretto_last_error();
  stretto_call_tensor tensor = {};
  EXPECT_EQ(stretto_plan_execute(plan, 64, &tensor, 1), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("tensors.size is 0"));
  EXPECT_EQ(stretto_plan_close(plan), STRETTO_GOOD);
}

}  // namespace
}  // namespace stretto
