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
  int64_t rows = 0, cols = 0;
  EXPECT_EQ(stretto_shape(&op, 0, STRETTO_A, &rows, &cols), STRETTO_BAD_USAGE);
  const std::string line = stretto_last_error();
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  return line;
}

TEST(CSizes, OthersAreRefused) {
  stretto_operator op = {sizeof op, "gemm-rs", 64, 64, 64, 1, "bf16"};
  op.size += 8;
  EXPECT_THAT(refusal_of(op), HasSubstr("op.size is 64, and this library knows 56 bytes of "
                                        "stretto_operator: it is older than the header"));
  op.size = 0;
  EXPECT_EQ(refusal_of(op), "op.size is 0; it must be sizeof(stretto_operator), here 56");
  op.size = sizeof op - 1;
  EXPECT_THAT(refusal_of(op), HasSubstr("must be sizeof(stretto_operator)"));
}

TEST(CSizes, OfEveryStructAreLookedAt) {
  stretto_operator op = {sizeof op, "gemm-rs", 64, 64, 64, 1, "bf16"};
  stretto_plan_request asked = {0, &op, "tiles", 0, nullptr};
  const char *schedule = nullptr, *reason = nullptr;
  double us = 0;
  int64_t count = 0;
  EXPECT_EQ(stretto_plan(&asked, &schedule, &reason, &us), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("request.size is 0"));
  asked.size = sizeof asked + 1;
  EXPECT_EQ(stretto_check(&asked, &count, &schedule), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("bytes of stretto_plan_request"));
  asked.size = sizeof asked;
  op.size = 1;
  EXPECT_EQ(stretto_check(&asked, &count, &schedule), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("op.size is 1"));
  asked.op = nullptr;
  EXPECT_EQ(stretto_check(&asked, &count, &schedule), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("op is NULL"));
}

}  // namespace
}  // namespace stretto
