#include "stretto/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(Assert, HoldsSilently) { EXPECT_NO_THROW(STRETTO_ASSERT(1 + 1 == 2, "arithmetic")); }

TEST(Assert, NamesWhatFileAndLine) {
  try {
    STRETTO_ASSERT(1 + 1 == 3, "arithmetic");
    FAIL() << "must throw";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("arithmetic"));
    EXPECT_THAT(error.what(), testing::ContainsRegex("error_test.cpp:[0-9]+"));
  }
}

}  // namespace
}  // namespace stretto
