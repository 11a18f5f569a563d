#include "core/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace stretto {
namespace {

TEST(Environment, EveryVariableIsReadOnceAndDocumented) {
  ASSERT_FALSE(environment_variables().empty());
  const std::string before = environment().machine_path;
  ::setenv("STRETTO_MACHINE_PATH", "/elsewhere", 1);
  EXPECT_EQ(environment().machine_path, before) << "the environment is read once";
  for (const EnvironmentVariable& row : environment_variables()) {
    EXPECT_EQ(row.variable.substr(0, 8), "STRETTO_");
    EXPECT_FALSE(row.meaning.empty());
  }
}

}  // namespace
}  // namespace stretto
