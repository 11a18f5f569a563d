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
    // Our own names, or those that the CUDA toolkit gave.
    EXPECT_TRUE(row.variable.starts_with("STRETTO_") || row.variable.starts_with("CUDA_"))
        << row.variable;
    EXPECT_FALSE(row.meaning.empty());
  }
}

}  // namespace
}  // namespace stretto
